"""● Share groups between two coordinators: the group coordinator knows the list of states, the share coordinator holds them.

    heartbeat ─▶ states being begun (record) ─▶ share coordinator begins them ─▶ begun (record) ─▶ the next heartbeats assign them

A step that the other side did not take leaves a record.  A later heartbeat or the administrator's next try repeats the step.

Source: GroupCoordinatorService.persisterInitialize, describeShareGroupOffsets, deleteShareGroupOffsets.  Used as
`coordinators.share_groups` by the handlers of the share groups' requests and of DeleteGroups.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from moldau.background import in_background
from moldau.coordinator.group.environment import Environment
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.share import BeginStates
from moldau.coordinator.group.share_offsets import Altered, Deletion, refusal
from moldau.coordinator.group.share_topics import Partitions
from moldau.coordinator.outcome import Outcome, Token
from moldau.coordinator.runtime import Shard, ShardState
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages import alter_share_group_offsets as alter
from moldau.protocol.messages import delete_share_group_offsets as delete
from moldau.protocol.messages import describe_share_group_offsets as describe
from moldau.protocol.messages import initialize_share_group_state as initialize
from moldau.protocol.messages import list_offsets as offsets
from moldau.protocol.messages import read_share_group_state_summary as summary
from moldau.protocol.messages.delete_groups import DeletableGroupResult
from moldau.replication.manager import ReplicaManager
from moldau.server.coordinators.topic import CoordinatorTopic, answered
from moldau.server.peers.brokers import Brokers, by_leader
from moldau.server.share.persister import SharePersister
from moldau.types import NO_OFFSET, ZERO_UUID, TopicPartition

LOG: Final = logging.getLogger(__name__)

NO_LAG: Final = -1
CONSUMER: Final = -1
LATEST: Final = -1


class ShareGroups:
    """See the module."""

    def __init__(
        self,
        groups: CoordinatorTopic[GroupMachine],
        environment: Environment,
        persister: SharePersister,
        replicas: ReplicaManager,
        brokers: Brokers,
    ) -> None:
        self._groups: Final = groups
        self._environment: Final = environment
        self._persister: Final = persister
        self._replicas: Final = replicas
        self._brokers: Final = brokers
        self._beginning: Final[set[asyncio.Task[object]]] = set()

    def close(self) -> None:
        for task in self._beginning:
            task.cancel()

    # -- states begin ---------------------------------------------------------------------------------------------------------

    def begin(self, shard: Shard[GroupMachine], begin: BeginStates) -> None:
        """Begin the states that a heartbeat asked for.  The heartbeat does not wait; a later one gets the partitions."""
        task: asyncio.Task[object] = in_background(self._begin(shard, begin))
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)

    async def _begin(self, shard: Shard[GroupMachine], begin: BeginStates) -> dict[tuple[UUID, int], initialize.PartitionResult]:
        """Begin states.  Returns the outcome of each partition."""
        response = await self._persister.ask(begin.request)
        results = {(topic.topic_id, one.partition): one for topic in response.results for one in topic.partitions}
        done = _by_topic(where for where, result in results.items() if result.error_code == ErrorCode.NONE)
        failed = _by_topic(where for where, result in results.items() if result.error_code != ErrorCode.NONE)
        group_id = begin.request.group_id
        if shard.state is ShardState.ACTIVE:
            self._groups.run(shard, lambda now_ms: shard.machine.share_states_began(group_id, done))
        if shard.state is ShardState.ACTIVE:
            self._groups.run(shard, lambda now_ms: shard.machine.share_states_not_begun(group_id, failed))
        return results

    # -- offsets --------------------------------------------------------------------------------------------------------------

    async def alter_offsets(self, request: alter.AlterShareGroupOffsetsRequest) -> alter.AlterShareGroupOffsetsResponse:
        """Set a share group's offsets.

        Errors: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and those of `GroupMachine.alter_share_offsets`.
        """
        shard = self._groups.shard_for(request.group_id)
        altered: Altered | ErrorCode = await self._ask(
            request.group_id, lambda machine, token, now_ms: machine.alter_share_offsets(token, request, now_ms)
        )
        if isinstance(altered, ErrorCode) or isinstance(shard, ErrorCode):
            code = altered if isinstance(altered, ErrorCode) else ErrorCode.NOT_COORDINATOR
            return alter.AlterShareGroupOffsetsResponse(error_code=code, error_message=code.text, responses=[])
        if altered.begin is not None:
            results = await self._begin(shard, altered.begin)
            for topic in altered.response.responses:
                for partition in topic.partitions:
                    result = results.get((topic.topic_id, partition.partition_index))
                    if result is not None:
                        partition.error_code, partition.error_message = result.error_code, result.error_message
        return altered.response

    async def delete_offsets(self, request: delete.DeleteShareGroupOffsetsRequest) -> delete.DeleteShareGroupOffsetsResponse:
        """Delete a share group's offsets of topics.

        Errors: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, and those of `share_offsets.delete_offsets`.
        """
        deletion: Deletion | ErrorCode = await self._ask(
            request.group_id, lambda machine, token, now_ms: machine.delete_share_offsets(token, request)
        )
        if isinstance(deletion, ErrorCode):
            deletion = refusal(deletion)
        if deletion.error is not ErrorCode.NONE:
            return delete.DeleteShareGroupOffsetsResponse(error_code=deletion.error, error_message=deletion.message, responses=[])
        responses = list(deletion.unknown)
        if deletion.request is not None:
            answers = await self._delete_states(deletion)
            code = await self._forget(request.group_id, [topic_id for topic_id, error in answers.items() if error is ErrorCode.NONE])
            if code is not ErrorCode.NONE:
                return delete.DeleteShareGroupOffsetsResponse(error_code=code, error_message=code.text, responses=[])
            responses = [self._deleted(topic_id, error) for topic_id, error in answers.items()] + responses
        return delete.DeleteShareGroupOffsetsResponse(responses=responses)

    async def _delete_states(self, deletion: Deletion) -> dict[UUID, ErrorCode]:
        """Delete states.  Returns by topic NONE, or the first error of its partitions."""
        assert deletion.request is not None
        response = await self._persister.ask(deletion.request)
        return {
            topic.topic_id: next((ErrorCode.of(one.error_code) for one in topic.partitions if one.error_code), ErrorCode.NONE)
            for topic in response.results
        }

    async def _forget(self, group_id: str, topic_ids: list[UUID]) -> ErrorCode:
        code: ErrorCode = await self._ask(
            group_id, lambda machine, token, now_ms: machine.share_offsets_deleted(token, group_id, topic_ids)
        )
        return code

    def _deleted(self, topic_id: UUID, error: ErrorCode) -> delete.DeleteShareGroupOffsetsResponseTopic:
        topic = self._environment.topics.by_id(topic_id)
        return delete.DeleteShareGroupOffsetsResponseTopic(
            topic_name=topic.name if topic is not None else "",
            topic_id=topic_id,
            error_code=error,
            error_message=error.text if error is not ErrorCode.NONE else None,
        )

    async def describe_offsets(
        self, asked: describe.DescribeShareGroupOffsetsRequestGroup
    ) -> describe.DescribeShareGroupOffsetsResponseGroup:
        """The offsets of the named topics; without a list, those of all topics whose states have begun.

        Errors: INVALID_GROUP_ID (an empty one with topics), NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not asked.group_id and asked.topics:
            code = ErrorCode.INVALID_GROUP_ID
            return describe.DescribeShareGroupOffsetsResponseGroup(group_id="", topics=[], error_code=code, error_message=code.text)
        if asked.topics is None:
            begun: Partitions | ErrorCode = await self._ask(
                asked.group_id, lambda machine, token, now_ms: machine.share_partitions(token, asked.group_id)
            )
            if isinstance(begun, ErrorCode):
                return describe.DescribeShareGroupOffsetsResponseGroup(
                    group_id=asked.group_id, topics=[], error_code=begun, error_message=begun.text
                )
            wanted = {topic_id: sorted(partitions) for topic_id, partitions in begun.items()}
            unknown = []
        else:
            known = {each.topic_name: self._environment.topics.by_name(each.topic_name) for each in asked.topics}
            wanted = {topic.topic_id: each.partitions for each in asked.topics if (topic := known[each.topic_name]) is not None}
            unknown = [_unknown(each) for each in asked.topics if known[each.topic_name] is None]
        described = await self._describe(asked.group_id, wanted)
        return describe.DescribeShareGroupOffsetsResponseGroup(group_id=asked.group_id, topics=[*described, *unknown])

    async def _describe(self, group_id: str, wanted: Mapping[UUID, list[int]]) -> list[describe.DescribeShareGroupOffsetsResponseTopic]:
        names = {topic_id: topic.name for topic_id in wanted if (topic := self._environment.topics.by_id(topic_id)) is not None}
        request = summary.ReadShareGroupStateSummaryRequest(
            group_id=group_id,
            topics=[
                summary.ReadStateSummaryData(
                    topic_id=topic_id, partitions=[summary.PartitionData(partition=index, leader_epoch=0) for index in wanted[topic_id]]
                )
                for topic_id in names
            ],
        )
        response = await self._persister.ask(request)
        counted = [
            TopicPartition(names[topic.topic_id], one.partition)
            for topic in response.results
            for one in topic.partitions
            if one.error_code == ErrorCode.NONE and NO_OFFSET not in (one.start_offset, one.delivery_complete_count)
        ]
        ends = await self._ends(counted)
        return [
            describe.DescribeShareGroupOffsetsResponseTopic(
                topic_name=names[topic.topic_id],
                topic_id=topic.topic_id,
                partitions=[_described(one, ends.get(TopicPartition(names[topic.topic_id], one.partition))) for one in topic.partitions],
            )
            for topic in response.results
        ]

    async def _ends(self, wanted: Iterable[TopicPartition]) -> dict[TopicPartition, int | ErrorCode]:
        """The high watermarks of partitions led here and elsewhere.  Errors, as values: those of ListOffsets."""
        here, elsewhere = by_leader(wanted, self._brokers.leader_of, self._replicas.local_id)
        ends: dict[TopicPartition, int | ErrorCode] = {}
        for where in here:
            partition = self._replicas.hosted.get(where)
            is_led = partition is not None and partition.is_leader
            ends[where] = partition.log.high_watermark if partition is not None and is_led else ErrorCode.NOT_LEADER_OR_FOLLOWER
        for told in await asyncio.gather(*(self._ends_on(*each) for each in elsewhere.items())):
            ends |= told
        return ends

    async def _ends_on(self, broker_id: int, wanted: list[TopicPartition]) -> dict[TopicPartition, int | ErrorCode]:
        topics: dict[str, list[offsets.ListOffsetsPartition]] = {}
        for topic, index in wanted:
            topics.setdefault(topic, []).append(offsets.ListOffsetsPartition(partition_index=index, timestamp=LATEST))
        named = [offsets.ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()]
        try:
            response = await self._brokers.ask(broker_id, offsets.ListOffsetsRequest(replica_id=CONSUMER, topics=named))
        except (OSError, KafkaError) as error:
            LOG.info("broker %d does not tell where its partitions end: %s", broker_id, error)
            return dict.fromkeys(wanted, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return {
            TopicPartition(topic.name, one.partition_index): ErrorCode.of(one.error_code) if one.error_code else one.offset
            for topic in response.topics
            for one in topic.partitions
        }

    # -- deletion of groups --------------------------------------------------------------------------------------------------------

    async def delete_group(self, group_id: str) -> DeletableGroupResult:
        """Delete a group of any protocol; for a share group the states go first.

        Errors: those of `GroupMachine.delete_group` and of the states.
        """
        deletion: Deletion | ErrorCode = await self._ask(
            group_id, lambda machine, token, now_ms: machine.prepare_share_deletion(token, group_id)
        )
        code = deletion if isinstance(deletion, ErrorCode) else deletion.error
        if not isinstance(deletion, ErrorCode) and deletion.request is not None:
            code = next((error for error in (await self._delete_states(deletion)).values() if error), ErrorCode.NONE)
        if code is not ErrorCode.NONE:
            return DeletableGroupResult(group_id=group_id, error_code=code)
        answer: DeletableGroupResult | ErrorCode = await self._ask(
            group_id, lambda machine, token, now_ms: machine.delete_group(token, group_id)
        )
        return DeletableGroupResult(group_id=group_id, error_code=answer) if isinstance(answer, ErrorCode) else answer

    async def _ask(self, group_id: str, decide: Callable[[GroupMachine, Token, int], Outcome]) -> Any:
        """The machine's answer, or the ErrorCode of the reason why there is none."""
        return await answered(self._groups.ask(group_id, decide, refused=_code))


def _code(code: ErrorCode) -> Any:
    return code


def _by_topic(partitions: Iterable[tuple[UUID, int]]) -> dict[UUID, frozenset[int]]:
    by_topic: dict[UUID, set[int]] = {}
    for topic_id, partition in partitions:
        by_topic.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(indexes) for topic_id, indexes in by_topic.items()}


def _described(found: summary.PartitionResult, end: int | ErrorCode | None) -> describe.DescribeShareGroupOffsetsResponsePartition:
    """The answer for one partition with its lag, if `end` is known.

    The lag leaves out records behind the start offset that are done with (KIP-1226).
    """
    if found.error_code != ErrorCode.NONE:
        return describe.DescribeShareGroupOffsetsResponsePartition(
            partition_index=found.partition, start_offset=NO_OFFSET, leader_epoch=0, lag=NO_LAG
        )
    if isinstance(end, ErrorCode):
        return describe.DescribeShareGroupOffsetsResponsePartition(
            partition_index=found.partition, start_offset=0, leader_epoch=0, error_code=end, error_message=end.text
        )
    lag = NO_LAG if end is None else end - found.start_offset - found.delivery_complete_count
    return describe.DescribeShareGroupOffsetsResponsePartition(
        partition_index=found.partition, start_offset=found.start_offset, leader_epoch=found.leader_epoch, lag=lag
    )


def _unknown(asked: describe.DescribeShareGroupOffsetsRequestTopic) -> describe.DescribeShareGroupOffsetsResponseTopic:
    return describe.DescribeShareGroupOffsetsResponseTopic(
        topic_name=asked.topic_name,
        topic_id=ZERO_UUID,
        partitions=[
            describe.DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NO_OFFSET, leader_epoch=0)
            for index in asked.partitions
        ],
    )
