"""◇ Compares our operators with Kafka Streams' own on random inputs."""
