"""Replicas: leaders, in-sync sets, and how far a partition is committed.  Start at `partition`."""
