"""● Trials of what runs on Spark, with everything killed at every step: start at `kills`."""
