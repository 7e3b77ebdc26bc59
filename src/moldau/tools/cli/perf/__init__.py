"""● How fast it is: `moldau perf`, and Kafka's performance tools with their options and lines."""
