"""● Replicas on several brokers: a simulated cluster of the parts of replication, under faults."""
