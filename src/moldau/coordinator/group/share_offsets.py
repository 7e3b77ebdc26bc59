"""◇ An administrator's requests about a share group's offsets, and the deletion of its states (KIP-932).  The share coordinator has the
offsets: a decision here has the group's own knowledge, and the requests to that coordinator.

Source: GroupMetadataManager.alterShareGroupOffsets, sharePartitionsEligibleForOffsetDeletion, shareGroupBuildPartitionDeleteRequest.
Called by `machine.GroupMachine`; carried out by `server/coordinators/share_groups.py`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from moldau.coordinator.group.environment import Topics
from moldau.coordinator.group.share import BeginStates, ShareGroup
from moldau.coordinator.group.share_topics import TopicPartitions
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, Reply, Token, answer
from moldau.errors import ErrorCode
from moldau.protocol.messages import alter_share_group_offsets as alter
from moldau.protocol.messages import delete_share_group_offsets as delete
from moldau.protocol.messages import delete_share_group_state as delete_state
from moldau.types import ZERO_UUID


class Altered(NamedTuple):
    """The answer so far, and the states to begin anew before it is sent."""

    response: alter.AlterShareGroupOffsetsResponse
    begin: BeginStates | None


class Deletion(NamedTuple):
    """The unknown topics, and the states to delete before the answer is sent; or the reason why nothing is deleted."""

    unknown: list[delete.DeleteShareGroupOffsetsResponseTopic]
    request: delete_state.DeleteShareGroupStateRequest | None
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def refusal(code: ErrorCode, message: str | None = None) -> Deletion:
    return Deletion([], None, code, message or code.text)


def alter_offsets(token: Token, group: ShareGroup, request: alter.AlterShareGroupOffsetsRequest, now_ms: int) -> Outcome:
    """Decide `Altered`.  Errors: NON_EMPTY_GROUP; on a partition UNKNOWN_TOPIC_OR_PARTITION."""
    if not group.is_empty:
        code = ErrorCode.NON_EMPTY_GROUP
        return answer(token, Altered(alter.AlterShareGroupOffsetsResponse(error_code=code, error_message=code.text, responses=[]), None))
    topics = group.environment.topics
    starts: dict[UUID, dict[int, int]] = {}
    beginning: dict[UUID, TopicPartitions] = {}
    responses = []
    for asked in request.topics:
        topic = topics.by_name(asked.topic_name)
        indexes = range(topic.partition_count if topic is not None else 0)
        known = [one for one in asked.partitions if one.partition_index in indexes]
        if topic is not None and known:
            starts[topic.topic_id] = {one.partition_index: one.start_offset for one in known}
            beginning[topic.topic_id] = TopicPartitions(topic.name, frozenset(starts[topic.topic_id]))
        responses.append(
            alter.AlterShareGroupOffsetsResponseTopic(
                topic_name=asked.topic_name,
                topic_id=topic.topic_id if topic is not None else ZERO_UUID,
                partitions=[_altered(one.partition_index, is_known=one.partition_index in indexes) for one in asked.partitions],
            )
        )
    response = alter.AlterShareGroupOffsetsResponse(responses=responses)
    if not starts:
        return answer(token, Altered(response, None))
    group.beginning_since_ms.update(dict.fromkeys(beginning, now_ms))
    record = group.states.beginning(beginning).record(group.group_id)
    return Outcome([record], [Reply(token, Altered(response, group.begin_states(starts, group.epoch)))])


def delete_offsets(token: Token, group: ShareGroup, request: delete.DeleteShareGroupOffsetsRequest) -> Outcome:
    """Decide `Deletion`.  Errors: NON_EMPTY_GROUP; on a topic UNKNOWN_TOPIC_OR_PARTITION."""
    if not group.is_empty:
        return answer(token, refusal(ErrorCode.NON_EMPTY_GROUP))
    unknown = []
    partitions: dict[UUID, Iterable[int]] = {}
    for name in dict.fromkeys(topic.topic_name for topic in request.topics):
        topic = group.environment.topics.by_name(name)
        if topic is not None and topic.topic_id in group.states.initialized:
            partitions[topic.topic_id] = group.states.initialized[topic.topic_id].partitions
        elif topic is not None and topic.topic_id in group.states.deleting:
            partitions[topic.topic_id] = range(topic.partition_count)
        else:
            text = "The group has no offsets of the topic." if topic is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.text
            unknown.append(
                delete.DeleteShareGroupOffsetsResponseTopic(
                    topic_name=name, topic_id=ZERO_UUID, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=text
                )
            )
    if not partitions:
        return answer(token, Deletion(unknown, None))
    record = group.states.deletes(partitions, group.environment.topics).record(group.group_id)
    return Outcome([record], [Reply(token, Deletion(unknown, _request(group.group_id, partitions)))])


def prepare_deletion(token: Token, group: ShareGroup) -> Outcome:
    """Decide `Deletion` of all states of the group, before the group itself is forgotten.  Errors: NON_EMPTY_GROUP."""
    if not group.is_empty:
        return answer(token, refusal(ErrorCode.NON_EMPTY_GROUP))
    topics = group.environment.topics
    partitions: dict[UUID, Iterable[int]] = {
        **_all_partitions(group.states.deleting, topics),
        **{topic_id: known for topic_id, known in group.states.all_known().items() if topics.by_id(topic_id) is not None},
    }
    if not partitions:
        return answer(token, Deletion([], None))
    states = group.states.deletes(partitions, topics)
    record = type(states)(deleting=states.deleting).record(group.group_id)
    return Outcome([record], [Reply(token, Deletion([], _request(group.group_id, partitions)))])


def offsets_deleted(token: Token, group: ShareGroup | None, topic_ids: list[UUID]) -> Outcome:
    """Note that the share coordinator has deleted them."""
    records: list[CoordinatorRecord] = []
    if group is not None:
        records.append(group.states.deleted(topic_ids).record(group.group_id))
    return Outcome(records, [Reply(token, ErrorCode.NONE)])


def _altered(partition: int, *, is_known: bool) -> alter.AlterShareGroupOffsetsResponsePartition:
    if is_known:
        return alter.AlterShareGroupOffsetsResponsePartition(partition_index=partition)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return alter.AlterShareGroupOffsetsResponsePartition(partition_index=partition, error_code=code, error_message=code.text)


def _all_partitions(topic_ids: Iterable[UUID], topics: Topics) -> dict[UUID, Iterable[int]]:
    """All partitions of existing topics: the number of states that are left to delete is not known any more."""
    return {topic_id: range(topic.partition_count) for topic_id in topic_ids if (topic := topics.by_id(topic_id)) is not None}


def _request(group_id: str, partitions: Mapping[UUID, Iterable[int]]) -> delete_state.DeleteShareGroupStateRequest:
    return delete_state.DeleteShareGroupStateRequest(
        group_id=group_id,
        topics=[
            delete_state.DeleteStateData(
                topic_id=topic_id, partitions=[delete_state.PartitionData(partition=partition) for partition in sorted(indexes)]
            )
            for topic_id, indexes in partitions.items()
        ],
    )
