"""● Clients that tell of all they do, one JSON object a line, for programs that watch them: Kafka's verifiable producer and consumer."""
