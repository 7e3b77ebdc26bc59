"""● What people run: all speak through `clients`."""
