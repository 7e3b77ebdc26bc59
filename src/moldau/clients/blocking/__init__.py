"""● A client without an event loop, for processes that have none, such as Spark's Python workers.  Start at `cluster`.

It speaks the same messages through the same bytes machines as the asyncio client.  It sends one request after the other, or has a few in
flight, and keeps its connections.  It works with every broker from Apache Kafka 2.1 on.
"""
