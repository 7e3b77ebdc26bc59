"""◇ Reads and writes the messages that members of a classic consumer group exchange through JoinGroup and SyncGroup.

The bytes are the clients' own (`protocol.consumer_protocol`, version in front).  Of a classic group the coordinator reads only the
subscribed topics.  Where the coordinator itself assigns, it writes the leader's part.
"""

from collections.abc import Iterable, Mapping
from struct import Struct, error
from typing import Final

from moldau.coordinator.group.assignors.model import TopicIdPartition
from moldau.coordinator.group.environment import Topics
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartition
from moldau.protocol.stored import decode_newer_too, encode_versioned

HIGHEST_VERSION: Final = 3

_SHORT = Struct(">h")
_INT = Struct(">i")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The union of all topics; None when one subscription cannot be read, because then the topics in use are not known."""
    topics: set[str] = set()
    for subscription in subscriptions:
        read = _topics_of(subscription)
        if read is None:
            return None
        topics |= read
    return frozenset(topics)


def _topics_of(subscription: bytes) -> set[str] | None:
    # Only the first two fields are read, which every version has: future versions keep them, too.
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


def subscription_of(metadata: bytes) -> ConsumerProtocolSubscription:
    """A member's subscription.  Errors: DecodeError."""
    return decode_newer_too(ConsumerProtocolSubscription, metadata)


def assignment_of(assignment: bytes) -> ConsumerProtocolAssignment:
    """A member's assignment.  Errors: DecodeError."""
    if not assignment:
        return ConsumerProtocolAssignment(assigned_partitions=[])
    return decode_newer_too(ConsumerProtocolAssignment, assignment)


def by_id(partitions: Iterable[TopicPartition], topics: Topics) -> frozenset[TopicIdPartition]:
    """Partitions by topic id; topics that are gone are left out."""
    found = []
    for each in partitions:
        topic = topics.by_name(each.topic)
        if topic is not None:
            found += [TopicIdPartition(topic.topic_id, index) for index in each.partitions]
    return frozenset(found)


def encoded_assignment(partitions: Mapping[TopicIdPartition, int] | frozenset[TopicIdPartition], topics: Topics, metadata: bytes) -> bytes:
    """An assignment in the version of the member's own metadata."""
    by_name: dict[str, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topic = topics.by_id(topic_id)
        if topic is not None:
            by_name.setdefault(topic.name, []).append(index)
    assigned = [TopicPartition(topic=name, partitions=indexes) for name, indexes in by_name.items()]
    version = min(max(int.from_bytes(metadata[:2], signed=True), 0), HIGHEST_VERSION)
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), version)
