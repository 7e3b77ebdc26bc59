"""KRaft consensus.  Start at `node`."""
