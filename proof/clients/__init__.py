"""● What our clients are proven with: a model of a cluster that can be cruel to them, and schedules of its cruelties.  Start at `model`."""
