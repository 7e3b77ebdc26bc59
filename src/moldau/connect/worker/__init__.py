"""● A worker: its place in the group, the connectors and tasks that it runs, what it does with their errors."""
