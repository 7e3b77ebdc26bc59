"""● Trials of the jobs on Spark, with everything killed at every step.  Start at `kills`."""
