"""● Kafka Connect, theirs and ours: workers as processes, dialogues with both, and when answers count as the same."""
