"""● What the worker's topics say: configurations, states, offsets; decided by replaying their records."""
