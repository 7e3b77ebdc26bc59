"""● Kafka's Connect and ours: workers as processes, dialogues with both, and the rule by which their answers count as the same."""
