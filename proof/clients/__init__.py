"""● The proof of our clients: a model of a cluster with faults, and schedules of faults.  Start at `model`."""
