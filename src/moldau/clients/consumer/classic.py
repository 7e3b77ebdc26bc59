"""● A member of a group by the classic protocol: joins, syncs, keeps itself in with heartbeats, leaves.

With eager assignors the member gives every partition up before it joins.  With cooperative ones it gives up only the partitions that the
new assignment takes away, and joins again so that others get them (KIP-429).  The join waits for other members in the background.
Revocations and assignments happen in `step`, with the user's knowledge.

Source: AbstractCoordinator, ConsumerCoordinator; KIP-62, 345, 394, 429, 814.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.consumer.assignors import ClientAssignor, Subscriber, assign_range, assign_round_robin
from moldau.clients.consumer.member import MemberState, Owner
from moldau.clients.consumer.offsets import Identity
from moldau.clients.consumer.options import ConsumerOptions
from moldau.clients.consumer.sticky import (
    assign_cooperative_sticky,
    assign_sticky,
    cooperative_user_data,
    read_cooperative_user_data,
    read_sticky_user_data,
    sticky_user_data,
)
from moldau.clients.coordinators import MOVED, Coordinators
from moldau.clients.errors import ClientError, Fenced, error_of
from moldau.clients.view import ClusterView
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.consumer_protocol import TopicPartition as OwnedPartitions
from moldau.protocol.messages.heartbeat import HeartbeatRequest
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse, JoinGroupResponseMember
from moldau.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from moldau.protocol.stored import decode_newer_too, encode_versioned
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)

CONSUMER: Final = "consumer"
NO_MEMBER_ID: Final = ""
NO_GENERATION: Final = -1
EMBEDDED_VERSION: Final = 3
COOPERATIVE: Final = "cooperative-sticky"
STICKY: Final = "sticky"
ASSIGN: Final[Mapping[str, ClientAssignor]] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    STICKY: assign_sticky,
    COOPERATIVE: assign_cooperative_sticky,
}
"""Assignors by the name that members vote for."""


class ClassicMember:
    """A member of a classic group; see the module.

    It has connections of its own: a JoinGroup that waits for other members must not hold up a fetch.
    """

    def __init__(self, cluster: Cluster, options: ConsumerOptions, owner: Owner) -> None:
        assert options.group_id is not None
        self.state = MemberState.OUTSIDE
        self.member_id = NO_MEMBER_ID
        self.generation_id = NO_GENERATION
        self._identity = Identity(group_instance_id=options.group_instance_id)
        self._group_id: Final = options.group_id
        self._cluster = cluster.sibling()
        self._coordinators = Coordinators(self._cluster)
        self._options = options
        self._owner = owner
        self._is_cooperative = all(name == COOPERATIVE for name in options.assignors)
        self._protocol = options.assignors[0]
        self._joining: asyncio.Task[list[TopicPartition]] | None = None
        self._heart: asyncio.Task[None] | None = None
        self._polled_at = 0.0
        self._time = asyncio.get_running_loop().time
        self._target: frozenset[TopicPartition] | None = None
        self._gave_up = False
        self._had: tuple[TopicPartition, ...] = ()
        """The partitions of the last assignment, for stickiness."""
        self._assigned_over: Mapping[str, int] = {}
        """The partition counts that the leader's assignment was made of."""
        self._failure: KafkaError | None = None

    def identity(self) -> Identity:
        """The member of the last join, also after the group has thrown it out.

        The coordinator then refuses its commits.  A commit without a member would be taken from a transactional producer, though others
        have the partitions by now.
        """
        return self._identity

    def polled(self) -> None:
        self._polled_at = self._time()

    def subscription_changed(self) -> None:
        if self.state is MemberState.STABLE:
            self.state = MemberState.REBALANCING

    # ------------------------------------------------------------ in the user's poll

    async def step(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._joining is not None:
            if not self._joining.done():
                return
            await self._joined()
        elif self.state is MemberState.STABLE:
            await self._take_over()
        if self.state is MemberState.LOST:
            await self._owner.lose(self._owner.owned)
            self.state = MemberState.OUTSIDE
        if self.state in (MemberState.OUTSIDE, MemberState.REBALANCING):
            self._target = None
            await self._prepare()
            self.state = MemberState.JOINING
            self._joining = asyncio.get_running_loop().create_task(self._join(), name="join group")
            self._joining.add_done_callback(lambda _: self._owner.news())

    async def _prepare(self) -> None:
        """Give up what must not be read during a join."""
        owned = self._owner.owned
        topics = set(self._owner.subscribed())
        leaving = {one for one in owned if one.topic not in topics} if self._is_cooperative else owned
        if leaving:
            await self._owner.revoke(leaving)

    async def _joined(self) -> None:
        task, self._joining = self._joining, None
        assert task is not None
        try:
            assigned = frozenset(task.result())
        except (OSError, Unreachable) as error:
            LOG.info("group %s: %s", self._group_id, error)
            self.state = MemberState.OUTSIDE
            return
        except KafkaError as error:
            self.state = MemberState.OUTSIDE
            if error.code.retriable:
                LOG.info("group %s: %s", self._group_id, error)
                return
            if self._owner.owned:
                await self._owner.lose(self._owner.owned)
            raise
        if self.state is not MemberState.JOINING:
            return  # the partitions were lost while the member joined
        owned = self._owner.owned
        self.state = MemberState.STABLE
        self.polled()
        self._start_heart()
        taken_away = owned - assigned
        self._had = tuple(sorted(assigned))
        self._target, self._gave_up = assigned, bool(taken_away)
        if taken_away:
            await self._owner.revoke(taken_away)
        await self._take_over()

    async def _take_over(self) -> None:
        """Begin to read what was assigned.  After an error the next step goes on here."""
        if self._target is None:
            return
        missing = self._target - self._owner.owned
        if missing:
            await self._owner.assign(missing)
        self._target = None
        if self._gave_up and self._is_cooperative and self.state is MemberState.STABLE:
            self.state = MemberState.REBALANCING  # a second join gives others what this member gave up
            self._owner.news()

    # ------------------------------------------------------------ joining

    async def _join(self) -> list[TopicPartition]:
        """Wait for the next generation, and return this member's partitions.  Errors: KafkaError, OSError, Unreachable."""
        await self._stop_heart()
        while True:
            try:
                joined = await self._join_group()
                partitions = await self._sync(joined) if joined is not None else None
            except (OSError, Unreachable):
                await asyncio.sleep(self._options.retry_backoff_ms / 1000)
                raise
            if self._is_lost():
                return []
            if partitions is not None:
                return partitions

    def _is_lost(self) -> bool:
        return self.state is MemberState.LOST

    async def _join_group(self) -> JoinGroupResponse | None:
        """None: the group does not know the member any more, and the partitions that the member has are lost."""
        options = self._options
        while True:
            request = JoinGroupRequest(
                group_id=self._group_id,
                session_timeout_ms=options.session_timeout_ms,
                rebalance_timeout_ms=options.max_poll_interval_ms,
                member_id=self.member_id,
                group_instance_id=options.group_instance_id,
                protocol_type=CONSUMER,
                protocols=[JoinGroupRequestProtocol(name=name, metadata=self._metadata(name)) for name in options.assignors],
            )
            waits_s = options.max_poll_interval_ms / 1000
            response = await self._coordinators.ask(self._group_id, request, lambda one: one.error_code, extra_s=waits_s)
            code = ErrorCode.of(response.error_code)
            if code is ErrorCode.NONE:
                self.member_id, self.generation_id = response.member_id, response.generation_id
                self._identity = Identity(self.member_id, self.generation_id, options.group_instance_id)
                self._protocol = response.protocol_name or self._protocol
                return response
            if code is ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = response.member_id
            elif code is ErrorCode.UNKNOWN_MEMBER_ID:
                self._thrown_out()
                if self._is_lost():
                    return None
            elif code is not ErrorCode.REBALANCE_IN_PROGRESS:
                raise error_of(code, f"group {self._group_id}: {code.text}")

    def _thrown_out(self) -> None:
        """Join as a new member from now on.  What this one still has is lost: it may belong to others already."""
        self.member_id, self.generation_id = NO_MEMBER_ID, NO_GENERATION
        if self._owner.owned:
            self.state = MemberState.LOST

    def _metadata(self, name: str) -> bytes:
        owned = sorted(self._owner.owned)
        user_data = None
        if name == STICKY:
            user_data = sticky_user_data(self._had, self.generation_id)
        elif name == COOPERATIVE:
            user_data = cooperative_user_data(self.generation_id)
        subscription = ConsumerProtocolSubscription(
            topics=sorted(self._owner.subscribed()),
            user_data=user_data,
            owned_partitions=_as_owned(owned),
            generation_id=self.generation_id,
            rack_id=self._options.client_rack or None,
        )
        return encode_versioned(subscription, EMBEDDED_VERSION)

    async def _sync(self, joined: JoinGroupResponse) -> list[TopicPartition] | None:
        """This member's partitions; None: join again."""
        is_leader = joined.leader == self.member_id and not joined.skip_assignment
        request = SyncGroupRequest(
            group_id=self._group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=await self._assign(joined) if is_leader else [],
        )
        waits_s = self._options.max_poll_interval_ms / 1000
        response = await self._coordinators.ask(self._group_id, request, lambda one: one.error_code, extra_s=waits_s)
        code = ErrorCode.of(response.error_code)
        if code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            return None
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._thrown_out()
            return None
        if code is not ErrorCode.NONE:
            raise error_of(code, f"group {self._group_id}: {code.text}")
        if not response.assignment:
            return []
        assignment = decode_newer_too(ConsumerProtocolAssignment, response.assignment)
        return [TopicPartition(topic.topic, index) for topic in assignment.assigned_partitions for index in topic.partitions]

    async def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        protocol = joined.protocol_name or self._protocol
        subscribers = [_subscriber(member, protocol) for member in joined.members]
        wanted = sorted({topic for each in subscribers for topic in each.topics})
        view = await self._cluster.refresh(wanted)
        partitions = {topic: view.partitions_of(topic) for topic in wanted if view.partitions_of(topic)}
        self._assigned_over = _counts(view, wanted)
        assignment = ASSIGN[protocol](subscribers, partitions)
        return [SyncGroupRequestAssignment(member_id=member_id, assignment=_encoded(given)) for member_id, given in assignment.items()]

    # ------------------------------------------------------------ staying

    def _start_heart(self) -> None:
        if self._heart is None:
            self._heart = asyncio.get_running_loop().create_task(self._beat(), name="heartbeat")

    async def _beat(self) -> None:
        loop, options = asyncio.get_running_loop(), self._options
        looked_at = answered_at = loop.time()
        while self.state in (MemberState.STABLE, MemberState.REBALANCING):
            await asyncio.sleep(options.heartbeat_interval_ms / 1000)
            if loop.time() - self._polled_at > options.max_poll_interval_ms / 1000:
                LOG.warning(
                    "group %s: no poll for max.poll.interval.ms=%d: the member leaves", self._group_id, options.max_poll_interval_ms
                )
                self.state = MemberState.LOST
                await self._leave_quietly("no poll within max.poll.interval.ms")
                break
            try:
                await self._heartbeat()
                answered_at = loop.time()
                # A topic that is not there yet is looked for at every heartbeat.
                is_missing = 0 in self._assigned_over.values()
                if self._assigned_over and (is_missing or loop.time() - looked_at >= options.metadata_max_age_ms / 1000):
                    looked_at = loop.time()
                    view = await self._cluster.refresh(sorted(self._assigned_over))
                    if _counts(view, self._assigned_over) != self._assigned_over:
                        self.subscription_changed()
            except (OSError, Unreachable) as error:
                LOG.info("group %s: no heartbeat: %s", self._group_id, error)
            except KafkaError as error:
                LOG.info("group %s: no heartbeat: %s", self._group_id, error)
            except Exception as error:
                LOG.exception("group %s: the heartbeats failed", self._group_id)
                self._failure = ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {self._group_id}: the heartbeats failed: {error!r}")
                self.state = MemberState.LOST
                break
            if loop.time() - answered_at > options.session_timeout_ms / 1000:
                self.state = MemberState.LOST  # the coordinator has given the partitions to others by now
        self._owner.news()

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self._group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self._options.group_instance_id,
        )
        generation_id = self.generation_id
        within_s = self._options.session_timeout_ms / 1000
        try:
            response = await self._coordinators.ask(self._group_id, request, lambda one: one.error_code, within_s=within_s)
        except KafkaError as error:
            if error.code in MOVED:
                return
            raise
        if generation_id == self.generation_id:
            self.take_error(ErrorCode.of(response.error_code))

    def take_error(self, code: ErrorCode) -> None:
        """Act on an error of the coordinator that concerns this member."""
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.subscription_changed()
        elif code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            self.state = MemberState.LOST
            self.generation_id = NO_GENERATION
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = NO_MEMBER_ID
            if code is ErrorCode.FENCED_INSTANCE_ID:
                name = self._options.group_instance_id
                self._failure = Fenced(code, f"another member of group {self._group_id} has group.instance.id={name}")
        elif code is not ErrorCode.NONE:
            self._failure = error_of(code, f"group {self._group_id}: {code.text}")
        if code is not ErrorCode.NONE:
            self._owner.news()

    async def _stop_heart(self) -> None:
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)

    # ------------------------------------------------------------ leaving

    async def leave(self) -> None:
        """Leave the group.  A static member only goes silent: its place is kept for its session."""
        if self._joining is not None:
            self._joining.cancel()
            await asyncio.gather(self._joining, return_exceptions=True)
        await self._stop_heart()
        if self._options.group_instance_id is None:
            await self._leave_quietly("the consumer was closed")
        self.state = MemberState.OUTSIDE
        self._cluster.close()

    def stop(self) -> None:
        for task in (self._joining, self._heart):
            if task is not None:
                task.cancel()
        self._cluster.close()

    async def _leave_quietly(self, reason: str) -> None:
        if not self.member_id:
            return
        member_id, self.member_id, self.generation_id = self.member_id, NO_MEMBER_ID, NO_GENERATION
        request = LeaveGroupRequest(group_id=self._group_id, members=[MemberIdentity(member_id=member_id, reason=reason)])
        with suppress(OSError, Unreachable, KafkaError):
            node = await self._coordinators.node_of(self._group_id, within_s=self._options.request_timeout_ms / 1000)
            await self._cluster.send(request, node_id=node.node_id)


def _subscriber(member: JoinGroupResponseMember, protocol: str) -> Subscriber:
    subscription = decode_newer_too(ConsumerProtocolSubscription, member.metadata)
    owned = tuple(TopicPartition(one.topic, index) for one in subscription.owned_partitions for index in one.partitions)
    generation = subscription.generation_id
    if protocol == STICKY:
        had, generation = read_sticky_user_data(subscription.user_data)
        owned = tuple(had)
    elif protocol == COOPERATIVE and generation == NO_GENERATION:
        generation = read_cooperative_user_data(subscription.user_data)
    return Subscriber(member.member_id, member.group_instance_id, frozenset(subscription.topics), owned, generation)


def _counts(view: ClusterView, topics: Sequence[str] | Mapping[str, int]) -> dict[str, int]:
    return {topic: len(view.partitions_of(topic)) for topic in sorted(topics)}


def _as_owned(partitions: Sequence[TopicPartition]) -> list[OwnedPartitions]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return [OwnedPartitions(topic=topic, partitions=indexes) for topic, indexes in topics.items()]


def _encoded(partitions: Sequence[TopicPartition]) -> bytes:
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=_as_owned(partitions)), EMBEDDED_VERSION)
