"""● A whole cluster in simulation: the real node on virtual time, its clients, faults.  Start with `simulation.py`."""
