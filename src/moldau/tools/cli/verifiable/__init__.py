"""● Kafka's verifiable producer and consumer: they report all they do, one JSON object a line, to programs that watch them.

Start at `producer`.
"""
