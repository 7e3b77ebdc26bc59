"""● The consumer.  Start at `consumer`, which users call; `fetcher` ● brings records, `positions` ◇ says from where on, `member` ● is its
place in a group, by the classic protocol (`classic`, `assignors` ◇) or the consumer protocol (`heartbeat`)."""

from moldau.clients.consumer.consumer import Consumer
from moldau.clients.consumer.member import RebalanceListener
from moldau.clients.consumer.offsets import Committed
from moldau.clients.consumer.options import ConsumerOptions
from moldau.clients.records import ConsumerRecord, Records

__all__ = ["Committed", "Consumer", "ConsumerOptions", "ConsumerRecord", "RebalanceListener", "Records"]
