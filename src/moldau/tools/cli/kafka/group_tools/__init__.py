"""The common parts of the tools for consumer, share and streams groups: options, resets of offsets, tables.  Start at `common`."""
