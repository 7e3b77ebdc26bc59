"""◇ The consensus machine: events in, what the world must do out.  Start at `node`."""
