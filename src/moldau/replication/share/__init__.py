"""◇ Share partitions (KIP-932): who has which record of a partition, for how long, and how often.  Begin with `partition.py`."""
