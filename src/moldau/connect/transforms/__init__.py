"""◇ Single-message transforms and predicates, with Kafka's class names."""
