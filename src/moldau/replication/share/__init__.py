"""◇ Share partitions (KIP-932): which member has which record, for how long, and how often.  Begin with `partition.py`."""
