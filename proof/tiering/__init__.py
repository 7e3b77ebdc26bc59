"""● A replicated log on two tiers in simulation.  Start with `simulation.py`."""
