"""Records as lines of text, and back: the common parts of the console tools.  Start at `formatter`."""
