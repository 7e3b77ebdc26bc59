"""● The broker and controller process.  Start at `node`."""
