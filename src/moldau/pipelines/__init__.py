"""● Everything that runs on Spark."""
