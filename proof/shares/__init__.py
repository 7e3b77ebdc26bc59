"""● Queues in simulation: members of share groups, and what each record went through.  Start with `simulation.py`."""
