"""◇ Every byte that has a specification: messages, headers, stored records, record batches.

Start at `wire` (the words to declare a message with), look at `messages.produce`, then at `compiler` (what becomes of it).  `header` puts a
frame around a message.  `stored` puts a type or version before a record.  `records` reads and builds record batches.
"""
