"""◇ The messages that members of a classic consumer group exchange through JoinGroup and SyncGroup.  Brokers mostly pass them on.

On the wire, version:int16 stands in front (`stored.encode_versioned`).  A version above the highest known is read as that one
(`stored.decode_newer_too`).
"""

from moldau.protocol.wire import StoredRecord, array, bytes_, int32, record, string, struct


@struct
class TopicPartition:
    topic: str = string()
    partitions: list[int] = array(int32)


@record(versions="0-3")
class ConsumerProtocolSubscription(StoredRecord):
    """A member's subscription in a classic consumer group: JoinGroup's metadata."""

    topics: list[str] = array(string)
    user_data: bytes | None = bytes_(nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+", default=[], ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="0+", default=None, ignorable=True)


@record(versions="0-3")
class ConsumerProtocolAssignment(StoredRecord):
    """A member's assignment in a classic consumer group: SyncGroup's assignment."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = bytes_(nullable="0+", default=None)
