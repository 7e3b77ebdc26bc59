"""● The consumer.  Start at `consumer`, which users call, then `work`; `fetcher` ● brings records, `positions` ◇ says from where on,
`member` ● is its place in a group, by the classic protocol (`classic`, `assignors` ◇) or the consumer protocol (`heartbeat`)."""

from typing import TYPE_CHECKING

from moldau.clients.lazy import lazily

if TYPE_CHECKING:
    from moldau.clients.consumer.consumer import Consumer
    from moldau.clients.consumer.member import RebalanceListener
    from moldau.clients.consumer.offsets import Committed
    from moldau.clients.consumer.options import ConsumerOptions

__all__ = ["Committed", "Consumer", "ConsumerOptions", "RebalanceListener"]

__getattr__ = lazily(
    __name__, {"Committed": "offsets", "Consumer": "consumer", "ConsumerOptions": "options", "RebalanceListener": "member"}
)
