"""● The proof of our clients: a model of a cluster with faults, and schedules of these.  Start at `model`."""
