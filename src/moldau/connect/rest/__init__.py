"""● Kafka Connect's REST API, on starlette."""
