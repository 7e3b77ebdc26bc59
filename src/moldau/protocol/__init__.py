"""◇ Every byte that has a specification: messages, headers, record batches.  Start at `wire`, then `compiler`."""
