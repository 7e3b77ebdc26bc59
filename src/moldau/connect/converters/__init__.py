"""◇ Between Connect's data and the bytes of records."""
