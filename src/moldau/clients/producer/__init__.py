"""● The producer.  Start at `producer`, the class that users call, then `work`.

`accumulator` ◇ decides which records are sent together and when; `sender` ● sends them.
"""

from typing import TYPE_CHECKING

from moldau.clients.lazy import lazily

if TYPE_CHECKING:
    from moldau.clients.producer.delivery import Deliveries, Delivery, RecordMetadata
    from moldau.clients.producer.options import ProducerOptions
    from moldau.clients.producer.producer import Producer

__all__ = ["Deliveries", "Delivery", "Producer", "ProducerOptions", "RecordMetadata"]

__getattr__ = lazily(
    __name__,
    {
        "Deliveries": "delivery",
        "Delivery": "delivery",
        "Producer": "producer",
        "ProducerOptions": "options",
        "RecordMetadata": "delivery",
    },
)
