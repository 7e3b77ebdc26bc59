"""● Measurements of speed: `moldau perf`, and Kafka's performance tools with their options and lines.  Start at `command`."""
