"""● The same clients for code without asyncio: blocking, and usable from any thread.

    from moldau.sync import Producer, Consumer

    with Producer("localhost:9092") as producer:
        producer.send("orders", b"value", key=b"key").result()      # waits; without `.result()` it is on its way
    with Consumer("localhost:9092", group_id="billing", topics=["orders"]) as consumer:
        for record in consumer:
            …

    with Admin("localhost:9092") as admin:
        admin.topics.create([NewTopic("orders", 3)])

All of them share one event loop in a thread of its own.  Options, guarantees and errors are those of `moldau.Producer` and the other
clients.  Callbacks and rebalance listeners are called on that thread: they must not call a blocking client.
"""

from typing import TYPE_CHECKING

from moldau.clients.lazy import lazily

if TYPE_CHECKING:
    from moldau.sync.admin import Admin
    from moldau.sync.consumer import Consumer
    from moldau.sync.portal import run_blocking
    from moldau.sync.producer import Producer
    from moldau.sync.share import ShareConsumer

__all__ = ["Admin", "Consumer", "Producer", "ShareConsumer", "run_blocking"]

__getattr__ = lazily(
    __name__,
    {"Admin": "admin", "Consumer": "consumer", "Producer": "producer", "ShareConsumer": "share", "run_blocking": "portal"},
)
