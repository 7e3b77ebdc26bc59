"""Brings logs to stable storage.  Start at `durability`; `queue` chooses the next sync, `flusher` runs it."""
