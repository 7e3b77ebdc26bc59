"""◇ Our operators beside Kafka Streams' own: random inputs, both answers, and where they differ."""
