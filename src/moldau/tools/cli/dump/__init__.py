"""◇ The content of a broker's files as lines of text: start at `segments`.  The commands `dump-log` and `kafka-dump-log` print them."""
