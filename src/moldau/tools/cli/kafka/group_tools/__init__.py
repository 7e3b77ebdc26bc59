"""What the tools of consumer, share and streams groups share: options, resets of offsets, tables.  Start at `common`."""
