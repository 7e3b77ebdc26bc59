"""Compares our decisions about metadata with those of Kafka's own classes."""
