"""◇ Streams groups (KIP-1071): the tasks of a Kafka Streams program, shared out by the coordinator.  Start at `group`."""
