"""Who leads, who is in sync, how far is committed.  Start at `partition`."""
