"""● Finds where partitions begin and end, the offset of a time, and the offsets that a group has committed."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from moldau.clients.blocking.cluster import GROUP, BlockingCluster, by_leader
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from moldau.types import TopicPartition

LATEST: Final = -1
EARLIEST: Final = -2
NOT_FOUND: Final = -1
NAMES_TOPICS: Final = 9
"""The newest versions of OffsetFetch and OffsetCommit that name topics.  Topic ids bring no benefit here."""
SEVERAL_GROUPS_SINCE: Final = 8
STABLE_SINCE: Final = 7


class OffsetAndMetadata(NamedTuple):
    offset: int
    metadata: str


def list_offsets(
    cluster: BlockingCluster, timestamps: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, int]:
    """For each partition the first offset whose timestamp is at least the one given, `NOT_FOUND` without one; or `LATEST`, `EARLIEST`.

    Timestamps are milliseconds since 1970.  Errors: KafkaError, OSError.
    """

    def attempt() -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for node, partitions in by_leader(cluster, timestamps).items():
            topics: dict[str, list[ListOffsetsPartition]] = {}
            for one in partitions:
                topics.setdefault(one.topic, []).append(ListOffsetsPartition(partition_index=one.partition, timestamp=timestamps[one]))
            request = ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(read_committed),
                topics=[ListOffsetsTopic(name=name, partitions=of) for name, of in topics.items()],
                timeout_ms=30_000,
            )
            for topic in cluster.to_node(node).send(request).topics:
                for answer in topic.partitions:
                    if answer.error_code:
                        code = ErrorCode.of(answer.error_code)
                        raise KafkaError(code, f"offsets of {topic.name}-{answer.partition_index}: {code.text}")
                    found[TopicPartition(topic.name, answer.partition_index)] = answer.offset
        return found

    return cluster.retrying(attempt) if timestamps else {}


def committed(cluster: BlockingCluster, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """All offsets that the group has committed.  Waits until no open transaction can change them.  Errors: KafkaError, OSError."""

    def attempt() -> dict[TopicPartition, OffsetAndMetadata]:
        connection = cluster.to_node(cluster.coordinator_of(group_id, GROUP))
        version = min(connection.version_of(OffsetFetchRequest), NAMES_TOPICS)
        if version < SEVERAL_GROUPS_SINCE:
            request = OffsetFetchRequest(group_id=group_id, topics=None, require_stable=version >= STABLE_SINCE)
        else:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)], require_stable=True)
        return _found(connection.send(request, version=version), group_id, cluster)

    return cluster.retrying(attempt)


def _found(response: OffsetFetchResponse, group_id: str, cluster: BlockingCluster) -> dict[TopicPartition, OffsetAndMetadata]:
    group = response.groups[0] if response.groups else response
    partitions = {TopicPartition(topic.name, one.partition_index): one for topic in group.topics for one in topic.partitions}
    code = ErrorCode.of(group.error_code or next((one.error_code for one in partitions.values() if one.error_code), 0))
    if code:
        cluster.forget_coordinator(group_id, GROUP)
        raise KafkaError(code, f"offsets of group {group_id}: {code.text}")
    return {
        which: OffsetAndMetadata(one.committed_offset, one.metadata or "") for which, one in partitions.items() if one.committed_offset >= 0
    }


def commit_offsets(cluster: BlockingCluster, group_id: str, offsets: Mapping[TopicPartition, int], *, within_s: float) -> None:
    """Commit offsets for a group without members.  Errors: KafkaError, OSError."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for one, offset in offsets.items():
        partition = OffsetCommitRequestPartition(partition_index=one.partition, committed_offset=offset, committed_metadata="")
        topics.setdefault(one.topic, []).append(partition)
    request = OffsetCommitRequest(
        group_id=group_id, member_id="", topics=[OffsetCommitRequestTopic(name=name, partitions=of) for name, of in topics.items()]
    )

    def attempt() -> None:
        connection = cluster.to_node(cluster.coordinator_of(group_id, GROUP))
        response = connection.send(request, version=min(connection.version_of(OffsetCommitRequest), NAMES_TOPICS))
        code = ErrorCode.of(next((one.error_code for topic in response.topics for one in topic.partitions if one.error_code), 0))
        if code:
            cluster.forget_coordinator(group_id, GROUP)
            raise KafkaError(code, f"offsets of group {group_id}: {code.text}")

    if offsets:
        cluster.retrying(attempt, within_s=within_s)
