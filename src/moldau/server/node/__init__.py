"""● One process: its options and folders, how it is put together, brought up and down.  Start with `node.py`."""
