"""The commands of Kafka Connect: ours, and Kafka's two scripts."""
