"""● Kafka's own tools: its options, its output.  One file per tool, called as `moldau kafka-…`."""
