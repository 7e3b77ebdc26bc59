"""● One file per command.  Start at `main`."""
