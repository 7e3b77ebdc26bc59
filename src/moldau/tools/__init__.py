"""● The programs that people run: all speak through `clients`."""
