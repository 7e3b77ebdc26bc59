"""A partition's log on disk, reached only through a `Files` object.  Start at `log`."""
