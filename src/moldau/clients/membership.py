"""● One member of a classic consumer group: joins, syncs, keeps itself in with heartbeats, leaves.

    member = Membership(cluster, "group", lambda view: ["topic"])
    partitions = await member.join()
    …  `member.state` STABLE: these partitions are ours; REBALANCING: give them back and join again; LOST: they are gone already

It speaks the eager protocol: everything is given up before a rebalance, so no partition is read by two members that know of it.
Source: AbstractCoordinator, ConsumerCoordinator; KIP-62, 345, 394.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Final

from moldau.clients.assignors import CLIENT_ASSIGNORS, Assignment, Subscriber
from moldau.clients.cluster import RETRY_AFTER_S, Cluster, Unreachable
from moldau.clients.coordinators import MOVED, Coordinators
from moldau.clients.view import ClusterView
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.consumer_protocol import TopicPartition as OwnedPartitions
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.protocol.stored import decode_newer_too, encode_versioned
from moldau.types import TopicPartition

CONSUMER: Final = "consumer"
NO_MEMBER_ID: Final = ""
NO_GENERATION: Final = -1
EMBEDDED_VERSION: Final = 3
METADATA_AGE_S: Final = 30.0
STABLE_OFFSETS_WITHIN_S: Final = 60.0

Topics = Callable[[ClusterView], Collection[str]]
"""What a member wants to read, of the topics that there are."""


class MemberState(Enum):
    OUTSIDE = "outside"
    STABLE = "stable"
    REBALANCING = "rebalancing"
    LOST = "lost"
    """The group went on without us: nothing may be committed any more."""


@dataclass(frozen=True, slots=True)
class MembershipOptions:
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    group_instance_id: str | None = None


class Membership:
    """See the module.  It has connections of its own: a JoinGroup that waits for others must hold up no fetch."""

    def __init__(self, cluster: Cluster, group_id: str, topics: Topics, options: MembershipOptions = MembershipOptions()) -> None:
        self.group_id: Final = group_id
        self.state = MemberState.OUTSIDE
        self.member_id = NO_MEMBER_ID
        self.generation_id = NO_GENERATION
        self._cluster = cluster.sibling()
        self._coordinators = Coordinators(self._cluster)
        self._topics = topics
        self._options = options
        self._heart: asyncio.Task[None] | None = None
        self._polled_at = 0.0
        self._assigned_over: Mapping[str, int] = {}
        """As the leader: partition counts that the assignment was made of."""

    # ------------------------------------------------------------ joining

    async def join(self) -> list[TopicPartition]:
        """Waits for the next generation; what of it is ours.  Errors: KafkaError, OSError, Unreachable."""
        await self._stop_heart()
        while True:
            joined = await self._join_group()
            partitions = await self._sync(joined)
            if partitions is not None:
                self.state = MemberState.STABLE
                self.polled()
                self._heart = asyncio.get_running_loop().create_task(self._beat())
                return partitions

    async def _join_group(self) -> JoinGroupResponse:
        while True:
            view = await self._cluster.refresh()
            subscription = ConsumerProtocolSubscription(topics=sorted(self._topics(view)))
            metadata = encode_versioned(subscription, EMBEDDED_VERSION)
            options = self._options
            request = JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=options.session_timeout_ms,
                rebalance_timeout_ms=options.max_poll_interval_ms,
                member_id=self.member_id,
                group_instance_id=options.group_instance_id,
                protocol_type=CONSUMER,
                protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in CLIENT_ASSIGNORS],
            )
            waits_s = options.max_poll_interval_ms / 1000
            response = await self._coordinators.ask(self.group_id, request, lambda one: one.error_code, extra_s=waits_s)
            code = ErrorCode.of(response.error_code)
            if code is ErrorCode.NONE:
                self.member_id, self.generation_id = response.member_id, response.generation_id
                return response
            if code is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
            elif code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = NO_MEMBER_ID
            elif code is not ErrorCode.REBALANCE_IN_PROGRESS:
                raise KafkaError(code, f"group {self.group_id}: {code.text}")

    async def _sync(self, joined: JoinGroupResponse) -> list[TopicPartition] | None:
        """What is ours; None: join again."""
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=await self._assign(joined) if joined.leader == self.member_id and not joined.skip_assignment else [],
        )
        waits_s = self._options.max_poll_interval_ms / 1000
        response = await self._coordinators.ask(self.group_id, request, lambda one: one.error_code, extra_s=waits_s)
        code = ErrorCode.of(response.error_code)
        if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            return None
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = NO_MEMBER_ID
            return None
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"group {self.group_id}: {code.text}")
        if not response.assignment:
            return []
        assignment = decode_newer_too(ConsumerProtocolAssignment, response.assignment)
        return [TopicPartition(topic.topic, index) for topic in assignment.assigned_partitions for index in topic.partitions]

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        subscribers = [
            Subscriber(
                member.member_id,
                member.group_instance_id,
                frozenset(decode_newer_too(ConsumerProtocolSubscription, member.metadata).topics),
            )
            for member in joined.members
        ]
        view = await self._cluster.refresh()
        wanted = {topic for each in subscribers for topic in each.topics}
        partitions = {topic: view.partitions_of(topic) for topic in sorted(wanted) if view.partitions_of(topic)}
        self._assigned_over = _counts(view, wanted)
        assignment = CLIENT_ASSIGNORS[joined.protocol_name or ""](subscribers, partitions)
        return [SyncGroupRequestAssignment(member_id=member_id, assignment=_encoded(assignment, member_id)) for member_id in assignment]

    # ------------------------------------------------------------ staying

    def polled(self) -> None:
        """Its user is alive: without this the member leaves after `max_poll_interval_ms`."""
        self._polled_at = asyncio.get_running_loop().time()

    async def _beat(self) -> None:
        loop, options = asyncio.get_running_loop(), self._options
        looked_at = loop.time()
        while self.state is MemberState.STABLE:
            await asyncio.sleep(options.heartbeat_interval_ms / 1000)
            if loop.time() - self._polled_at > options.max_poll_interval_ms / 1000:
                self.state = MemberState.LOST
                await self._leave_group()
                return
            with suppress(OSError, Unreachable):  # the session time-out is the judge of how long that may last
                await self._heartbeat()
                if self._assigned_over and loop.time() - looked_at >= METADATA_AGE_S:
                    looked_at = loop.time()
                    if _counts(await self._cluster.refresh(), self._assigned_over) != self._assigned_over:
                        self.state = MemberState.REBALANCING

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
        )
        try:
            response = await self._coordinators.ask(self.group_id, request, lambda one: one.error_code)
        except KafkaError as error:
            if error.code in MOVED:
                return
            raise
        self._take_error(ErrorCode.of(response.error_code))

    def _take_error(self, code: ErrorCode) -> None:
        """What an answer of the coordinator says about us."""
        if code is ErrorCode.REBALANCE_IN_PROGRESS and self.state is MemberState.STABLE:
            self.state = MemberState.REBALANCING
        elif code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.state = MemberState.LOST
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = NO_MEMBER_ID

    async def _stop_heart(self) -> None:
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)

    # ------------------------------------------------------------ offsets

    async def committed(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Those of them that have an offset.  Waits for transactions that may still change one.  Errors: KafkaError."""
        if not partitions:
            return {}
        await self._cluster.refresh(sorted({one.topic for one in partitions}))
        topics = [
            OffsetFetchRequestTopics(name=topic, topic_id=self._cluster.view.topic_id_of(topic), partition_indexes=indexes)
            for topic, indexes in _by_topic(partitions).items()
        ]
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group_id, topics=topics)], require_stable=True)
        async with asyncio.timeout(STABLE_OFFSETS_WITHIN_S):
            while True:
                response = await self._coordinators.ask(self.group_id, request, lambda one: one.groups[0].error_code)
                group = response.groups[0]
                answers = {
                    TopicPartition(topic.name or self._cluster.view.names[topic.topic_id], one.partition_index): one
                    for topic in group.topics
                    for one in topic.partitions
                }
                codes = {ErrorCode.of(one.error_code) for one in answers.values()} | {ErrorCode.of(group.error_code)}
                failure = next((code for code in sorted(codes) if code not in (ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT)), None)
                if failure is not None:
                    raise KafkaError(failure, f"offsets of group {self.group_id}: {failure.text}")
                if ErrorCode.UNSTABLE_OFFSET_COMMIT not in codes:
                    return {one: answer.committed_offset for one, answer in answers.items() if answer.committed_offset >= 0}
                await asyncio.sleep(RETRY_AFTER_S)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """As this member of this generation.  Errors: KafkaError; after one that says so `state` is LOST."""
        if not offsets:
            return
        view = self._cluster.view
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=view.topic_id_of(topic),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=offsets[TopicPartition(topic, index)], committed_metadata=""
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in _by_topic(offsets).items()
        ]
        request = OffsetCommitRequest(
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
            topics=topics,
        )
        response = await self._coordinators.ask(self.group_id, request, lambda one: one.topics[0].partitions[0].error_code)
        for topic in response.topics:
            for one in topic.partitions:
                code = ErrorCode.of(one.error_code)
                if code is not ErrorCode.NONE:
                    self._take_error(code)
                    raise KafkaError(code, f"commit of group {self.group_id}: {code.text}")

    # ------------------------------------------------------------ leaving

    async def leave(self) -> None:
        """A static member just goes: its place is kept for its session."""
        await self._stop_heart()
        if self.member_id and self._options.group_instance_id is None and self.state is not MemberState.OUTSIDE:
            with suppress(OSError, Unreachable, KafkaError):
                await self._leave_group()
        self.state = MemberState.OUTSIDE
        self._cluster.close()

    async def _leave_group(self) -> None:
        identity = MemberIdentity(member_id=self.member_id, reason="the consumer was closed")
        request = LeaveGroupRequest(group_id=self.group_id, members=[identity])
        self.member_id = NO_MEMBER_ID
        await self._coordinators.ask(self.group_id, request, lambda one: one.error_code)


def _by_topic(partitions: Collection[TopicPartition] | Mapping[TopicPartition, int]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics


def _counts(view: ClusterView, topics: Collection[str]) -> dict[str, int]:
    return {topic: len(view.partitions_of(topic)) for topic in sorted(topics)}


def _encoded(assignment: Assignment, member_id: str) -> bytes:
    topics = [OwnedPartitions(topic=topic, partitions=indexes) for topic, indexes in _by_topic(assignment[member_id]).items()]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), EMBEDDED_VERSION)
