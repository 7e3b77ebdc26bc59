"""● Replicas on several brokers: a simulated cluster of what replication is made of, under faults."""
