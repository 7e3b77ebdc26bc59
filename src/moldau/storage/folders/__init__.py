"""The log directories of a node: what stands in them beside segments, and how a log moves from one to another.  Start at `directory`."""
