"""● Queues in simulation: members of share groups, and the history of each record.  Start with `simulation.py`."""
