"""◇ What classic consumers say of themselves when they join: the topics they want.

The bytes are the clients' own (`ConsumerProtocolSubscription`, version in front); the coordinator reads them only to know which
offsets are in use.
"""

from collections.abc import Iterable
from struct import Struct, error

_SHORT = Struct(">h")
_INT = Struct(">i")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The union of all topics; None when one subscription cannot be read, for then nobody knows what is in use."""
    topics: set[str] = set()
    for subscription in subscriptions:
        read = _topics_of(subscription)
        if read is None:
            return None
        topics |= read
    return frozenset(topics)


def _topics_of(subscription: bytes) -> set[str] | None:
    # Only the first two fields, which every version has had: versions of clients to come keep them too.
    topics = set()
    try:
        (count,) = _INT.unpack_from(subscription, 2)
        position = 6
        for _ in range(count):
            (length,) = _SHORT.unpack_from(subscription, position)
            end = position + 2 + length
            if length < 0 or end > len(subscription):
                return None
            topics.add(subscription[position + 2 : end].decode())
            position = end
    except (error, UnicodeDecodeError):
        return None
    return topics
