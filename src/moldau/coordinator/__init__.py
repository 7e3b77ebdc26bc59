"""◇ Replicated machines on the internal topics.  Start at `runtime`."""
