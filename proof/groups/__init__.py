"""● Groups under fire: members, what they were told, what must hold of it.  Start with `desk.py`."""
