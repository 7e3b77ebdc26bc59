"""Records as lines of text, and back: what the console tools share."""
