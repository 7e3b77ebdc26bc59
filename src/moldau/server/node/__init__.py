"""● One process: its options and folders, its parts, its start and its stop.  Start with `node.py`."""
