"""● The consumer of share groups (KIP-932).  Start at `consumer`, the class that users call, then `work`."""

from typing import TYPE_CHECKING

from moldau.clients.lazy import lazily

if TYPE_CHECKING:
    from moldau.clients.share.acknowledging import Acknowledge, SharedRecord
    from moldau.clients.share.consumer import ShareConsumer
    from moldau.clients.share.options import ShareConsumerOptions

__all__ = ["Acknowledge", "ShareConsumer", "ShareConsumerOptions", "SharedRecord"]

__getattr__ = lazily(
    __name__,
    {
        "Acknowledge": "acknowledging",
        "ShareConsumer": "consumer",
        "ShareConsumerOptions": "options",
        "SharedRecord": "acknowledging",
    },
)
