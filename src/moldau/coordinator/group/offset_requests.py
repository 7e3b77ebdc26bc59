"""◇ Commits, fetches and deletes offsets, as far as their group allows it.

A group of None has no members and no offsets yet: a commit without a generation makes it.

Source: OffsetMetadataManager; KIP-98, 447, 848.  Called by `machine.GroupMachine`.
"""

from typing import Final
from uuid import UUID

from moldau.coordinator.group.classic import ClassicGroup
from moldau.coordinator.group.consumer import ConsumerGroup
from moldau.coordinator.group.environment import Client, Commit, Topics
from moldau.coordinator.group.kinds import Group
from moldau.coordinator.group.offsets import CommittedOffset, GroupOffsets, Offsets, commit_record, tombstone
from moldau.coordinator.group.share import ShareGroup
from moldau.coordinator.group.streams.group import StreamsGroup
from moldau.coordinator.outcome import Outcome, ProducerIdAndEpoch, Reply, Token, answer
from moldau.errors import ErrorCode
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from moldau.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from moldau.types import ZERO_UUID, TopicPartition

GENERATION_ERROR_UNTIL: Final = 8
"""The last OffsetCommit version that answers ILLEGAL_GENERATION where later ones answer GROUP_ID_NOT_FOUND."""


def commit(token: Token, group: Group | None, request: OffsetCommitRequest, client: Client, longest_metadata: int, now_ms: int) -> Outcome:
    """Commit offsets.  Topics come with their names; topics that the client may not write to are taken out before.

    Errors on every partition: ILLEGAL_GENERATION, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, REBALANCE_IN_PROGRESS;
    on one: OFFSET_METADATA_TOO_LARGE.
    """
    if group is not None:
        error = group.validate_commit(
            Commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                client.api_version,
                is_transactional=False,
                topics=request.topics,
            )
        )
    elif request.generation_id_or_member_epoch >= 0:
        error = ErrorCode.ILLEGAL_GENERATION if client.api_version <= GENERATION_ERROR_UNTIL else ErrorCode.GROUP_ID_NOT_FOUND
    else:
        error = ErrorCode.NONE
    outcome, topics = Outcome(), []
    for topic in request.topics:
        told = _commit(outcome, request.group_id, topic, error, longest_metadata, now_ms, retention_ms=request.retention_time_ms)
        partitions = [OffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in told]
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    if isinstance(group, ClassicGroup) and error is ErrorCode.NONE:
        outcome.timers += group.keep_alive(request.member_id, now_ms)
    outcome.replies.append(Reply(token, OffsetCommitResponse(topics=topics)))
    return outcome


def commit_in_transaction(
    token: Token, group: Group | None, request: TxnOffsetCommitRequest, client: Client, longest_metadata: int, now_ms: int
) -> Outcome:
    """Commit offsets in a transaction.  Errors: as `commit`, with ILLEGAL_GENERATION for a missing group."""
    if group is not None:
        error = group.validate_commit(
            Commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                client.api_version,
                is_transactional=True,
                topics=request.topics,
            )
        )
    else:
        error = ErrorCode.ILLEGAL_GENERATION if request.generation_id >= 0 else ErrorCode.NONE
    outcome, topics = Outcome(producer=ProducerIdAndEpoch(request.producer_id, request.producer_epoch)), []
    for topic in request.topics:
        told = _commit(outcome, request.group_id, topic, error, longest_metadata, now_ms)
        partitions = [TxnOffsetCommitResponsePartition(partition_index=index, error_code=code) for index, code in told]
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
    outcome.replies.append(Reply(token, TxnOffsetCommitResponse(topics=topics)))
    return outcome


def _commit(
    outcome: Outcome,
    group_id: str,
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic,
    refusal: ErrorCode,
    longest_metadata: int,
    now_ms: int,
    *,
    retention_ms: int = -1,
) -> list[tuple[int, ErrorCode]]:
    """Commit one topic's part, and return each partition's result.  `refusal`: the reason why the group takes none."""
    # Within a transaction a topic is known by its name alone.
    topic_id = topic.topic_id if isinstance(topic, OffsetCommitRequestTopic) else ZERO_UUID
    told = []
    for each in topic.partitions:
        code = refusal or _check_metadata(each.committed_metadata, longest_metadata)
        told.append((each.partition_index, code))
        if code is ErrorCode.NONE:
            record = commit_record(
                group_id,
                TopicPartition(topic.name, each.partition_index),
                offset=each.committed_offset,
                leader_epoch=each.committed_leader_epoch,
                metadata=each.committed_metadata,
                now_ms=now_ms,
                retention_ms=retention_ms,
                topic_id=topic_id,
            )
            outcome.records.append(record)
    return told


def fetch(
    token: Token,
    group: Group | None,
    offsets: Offsets,
    topics: Topics,
    request: OffsetFetchRequestGroup,
    *,
    is_stable_required: bool,
) -> Outcome:
    """One group's part of an OffsetFetch, of the partitions named or of all that have an offset.

    Without a list, each topic bears the id that the metadata has for its name, since a commit within a transaction is stored without
    one; a topic that is gone bears the zero id.  An offset that was committed to an earlier topic of the same name is none.

    Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH; on a partition UNSTABLE_OFFSET_COMMIT while a transaction may still change it.
    Source: OffsetMetadataManager.fetchOffsets, fetchAllOffsets; KafkaApis.fetchAllOffsetsForGroup.
    """
    if isinstance(group, ConsumerGroup | StreamsGroup):
        error = group.validate_fetch(request.member_id, request.member_epoch)
        if error is not ErrorCode.NONE:
            return answer(token, OffsetFetchResponseGroup(group_id=request.group_id, topics=[], error_code=error))
    committed = offsets.committed(request.group_id)

    def fetched(partition: TopicPartition, topic_id: UUID) -> OffsetFetchResponsePartitions:
        if is_stable_required and offsets.has_pending(request.group_id, partition):
            return _no_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        known = committed.get(partition)
        if known is None or _is_of_earlier_topic(known, topic_id):
            return _no_offset(partition, ErrorCode.NONE)
        return OffsetFetchResponsePartitions(
            partition_index=partition.partition,
            committed_offset=known.offset,
            committed_leader_epoch=known.leader_epoch,
            metadata=known.metadata,
            error_code=ErrorCode.NONE,
        )

    if request.topics is None:
        asked = list(_all_with_an_offset(committed, topics).items())
    else:
        asked = [(topic.name, topic.partition_indexes) for topic in request.topics]
    answered = []
    for name, indexes in asked:
        topic_id = _topic_id(name, topics)
        partitions = [fetched(TopicPartition(name, index), topic_id) for index in indexes]
        answered.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions))
    return answer(token, OffsetFetchResponseGroup(group_id=request.group_id, topics=answered))


def _no_offset(partition: TopicPartition, code: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=partition.partition, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=code
    )


def _all_with_an_offset(committed: GroupOffsets, topics: Topics) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for partition in sorted(committed):
        if not _is_of_earlier_topic(committed[partition], _topic_id(partition.topic, topics)):
            by_topic.setdefault(partition.topic, []).append(partition.partition)
    return by_topic


def _is_of_earlier_topic(committed: CommittedOffset, topic_id: UUID) -> bool:
    """Whether the offset belongs to an earlier topic than the one with `topic_id` that has the name now."""
    return ZERO_UUID not in (committed.topic_id, topic_id) and committed.topic_id != topic_id


def _topic_id(name: str, topics: Topics) -> UUID:
    """The topic's id; zero for a missing topic."""
    topic = topics.by_name(name)
    return topic.topic_id if topic is not None else ZERO_UUID


def delete(token: Token, group: Group | None, offsets: Offsets, request: OffsetDeleteRequest) -> Outcome:
    """Delete offsets.  Errors: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP; on a partition GROUP_SUBSCRIBED_TO_TOPIC."""
    if isinstance(group, ShareGroup):
        return answer(token, OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND, topics=[]))
    if isinstance(group, ClassicGroup) and group.members and group.protocol_type != "consumer":
        return answer(token, OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP, topics=[]))
    outcome, topics = Outcome(is_atomic=False), []
    committed = offsets.committed(request.group_id)
    subscribed = group.subscribed_topics() if group is not None else frozenset[str]()
    for topic in request.topics:
        is_in_use = subscribed is None or topic.name in subscribed
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_in_use else ErrorCode.NONE
        topics.append(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(partition_index=each.partition_index, error_code=code) for each in topic.partitions
                ],
            )
        )
        partitions = [TopicPartition(topic.name, each.partition_index) for each in topic.partitions]
        outcome.records += [
            tombstone(request.group_id, partition)
            for partition in dict.fromkeys(partitions)
            if not is_in_use and (partition in committed or offsets.has_pending(request.group_id, partition))
        ]
    outcome.replies.append(Reply(token, OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)))
    return outcome


def _check_metadata(metadata: str | None, longest: int) -> ErrorCode:
    is_too_long = metadata is not None and len(metadata) > longest
    return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_too_long else ErrorCode.NONE
