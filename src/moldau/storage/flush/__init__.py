"""What of a log is on stable storage.  Start at `durability`; `queue` says which sync comes next, `flusher` runs it."""
