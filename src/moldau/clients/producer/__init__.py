"""● The producer.  Start at `producer`, which users call; `accumulator` ◇ decides what is sent when, `sender` ● carries it."""

from moldau.clients.producer.delivery import Deliveries, Delivery, RecordMetadata
from moldau.clients.producer.options import ProducerOptions
from moldau.clients.producer.producer import Producer

__all__ = ["Deliveries", "Delivery", "Producer", "ProducerOptions", "RecordMetadata"]
