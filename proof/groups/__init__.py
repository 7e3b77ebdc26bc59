"""● Groups under fire: members, the answers that they got, and the promises that must hold.  Start with `desk.py`."""
