"""Our decisions about metadata beside those of Kafka's own classes."""
