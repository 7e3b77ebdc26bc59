"""● A log under crashes, faults and damage, held against models of a few lines.  Start with `recovery.py`."""
