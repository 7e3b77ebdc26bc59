"""● A client without an event loop, for processes that have none, such as Spark's Python workers: start at `cluster`.

It speaks the same messages through the same bytes machines as the asyncio client, one request after the other or a few in flight, and keeps
its connections.  Works with every broker from Apache Kafka 2.1 on.
"""
