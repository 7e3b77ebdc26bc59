"""Files and logs: globs, rotation, events of several lines.  Start with `source.py`."""
