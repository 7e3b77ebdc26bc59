"""● The content of the worker's topics: configurations, states, offsets; computed by replaying their records."""
