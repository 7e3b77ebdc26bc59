"""● The consumer.  Start at `consumer`, the class that users call, then `work`.

`fetcher` ● fetches records and `positions` ◇ says where each partition goes on.  `member` ● is the consumer's place in a group, by the
classic protocol (`classic`, `assignors` ◇) or the consumer protocol (`heartbeat`).
"""

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
