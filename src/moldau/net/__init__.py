"""One connection, seen from either end.  Start at `framing`."""
