"""● A member of a group by the consumer protocol (KIP-848): the heartbeat carries everything, and the coordinator assigns partitions.

    heartbeat ──assignment──▶ target ──step: revoke──▶ told ──▶ assign what is new ──told──▶ …

Guarantee: the member gives up the partitions that the target takes away, with the user's knowledge, before it tells the coordinator.  It
reads added partitions only after that.  A fenced member loses all partitions at once and joins anew.  Source:
AbstractHeartbeatRequestManager, AbstractMembershipManager.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from random import Random
from typing import Final, NamedTuple
from uuid import UUID

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.consumer.member import MemberState, Owner
from moldau.clients.consumer.offsets import Identity
from moldau.clients.consumer.options import ConsumerOptions
from moldau.clients.coordinators import Coordinators
from moldau.clients.errors import ClientError, error_of
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from moldau.types import TopicPartition, usable_uuid, uuid_to_text

LOG: Final = logging.getLogger(__name__)

JOIN: Final = 0
LEAVE: Final = -1
LEAVE_STATIC: Final = -2
FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
FIRST_INTERVAL_MS: Final = 5_000


class Told(NamedTuple):
    """The content of a heartbeat that the coordinator keeps."""

    topics: tuple[str, ...]
    owned: frozenset[TopicPartition]


class HeartbeatMember:
    """A member of a group by the consumer protocol; see the module."""

    def __init__(self, cluster: Cluster, options: ConsumerOptions, owner: Owner, random: Random) -> None:
        assert options.group_id is not None
        self.state = MemberState.OUTSIDE
        self.member_id: Final = uuid_to_text(usable_uuid(lambda: UUID(int=random.getrandbits(128), version=4)))
        self.member_epoch = JOIN
        self._group_id: Final = options.group_id
        self._cluster = cluster.sibling()
        self._coordinators = Coordinators(self._cluster)
        self._options = options
        self._owner = owner
        self._task: asyncio.Task[None] | None = None
        self._beat_now = asyncio.Event()
        self._interval_s = FIRST_INTERVAL_MS / 1000
        self._target: frozenset[TopicPartition] | None = None
        """The partitions that the coordinator assigns to this member; None: those that it has."""
        self._assigned: Sequence[TopicPartitions] | None = None
        """The last assignment, while names of its topics are not known."""
        self._told: Told | None = None
        """The content of the last heartbeat: the next one carries only what has changed."""
        self._failure: KafkaError | None = None
        self._polled_at = 0.0
        self._time = asyncio.get_running_loop().time

    def identity(self) -> Identity:
        return Identity(self.member_id, self.member_epoch, self._options.group_instance_id, is_of_consumer_protocol=True)

    def polled(self) -> None:
        self._polled_at = self._time()

    def subscription_changed(self) -> None:
        self._beat_now.set()

    # ------------------------------------------------------------ in the user's poll

    async def step(self) -> None:
        if self._failure is not None:
            failure, self._failure = self._failure, None
            if self._owner.owned:
                await self._owner.lose(self._owner.owned)
            raise failure
        if self.state is MemberState.LOST:
            await self._owner.lose(self._owner.owned)
            self._target = None
            self.state = MemberState.OUTSIDE
            self._beat_now.set()
        if self._task is None:
            self.polled()
            self._task = asyncio.get_running_loop().create_task(self._run(), name="heartbeat")
        while self._target is not None and not self._is_lost():
            await self._reconcile(self._target)

    async def _reconcile(self, target: frozenset[TopicPartition]) -> None:
        owned = self._owner.owned
        if owned - target:
            await self._owner.revoke(owned - target)
        if self._target != target or self._is_lost():
            return  # the target changed while the user was told
        if target - self._owner.owned:
            await self._owner.assign(target - self._owner.owned)
        if self._target == target:
            self._target = None
        if not self._is_lost():
            self.state = MemberState.STABLE
        self._beat_now.set()

    def _is_lost(self) -> bool:
        return self.state is MemberState.LOST

    # ------------------------------------------------------------ staying

    async def _run(self) -> None:
        try:
            await self._stay()
        except Exception as error:
            LOG.exception("group %s: the heartbeats failed", self._group_id)
            self._failure = ClientError(ErrorCode.UNKNOWN_SERVER_ERROR, f"group {self._group_id}: the heartbeats failed: {error!r}")
            self._task = None  # the next step begins again
            self._lost()

    async def _stay(self) -> None:
        loop, options = asyncio.get_running_loop(), self._options
        while True:
            self._beat_now.clear()
            if self.state is not MemberState.LOST:
                if loop.time() - self._polled_at > options.max_poll_interval_ms / 1000:
                    if self.state is not MemberState.OUTSIDE:
                        LOG.warning(
                            "group %s: no poll for max.poll.interval.ms=%d: the member leaves", self._group_id, options.max_poll_interval_ms
                        )
                        self._lost()
                        await self._leave_quietly()
                else:
                    await self._beat()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._beat_now.wait()

    async def _beat(self) -> None:
        request, said = self._request()
        try:
            response = await self._coordinators.ask(
                self._group_id, request, lambda one: one.error_code, within_s=self._options.request_timeout_ms / 1000
            )
        except (OSError, Unreachable) as error:
            LOG.info("group %s: no heartbeat: %s", self._group_id, error)
            self._told = None
            await asyncio.sleep(self._options.retry_backoff_ms / 1000)
            self._beat_now.set()
        except KafkaError as error:
            if error.code.retriable:
                LOG.info("group %s: no heartbeat: %s", self._group_id, error)
            else:
                self._failure = error_of(error.code, error.detail)
                self._owner.news()
        else:
            self._told = said
            await self._take(response)

    def _request(self) -> tuple[ConsumerGroupHeartbeatRequest, Told]:
        options = self._options
        topics, owned = sorted(self._owner.subscribed()), self._owner.owned
        is_joining = self.member_epoch == JOIN
        said = Told(tuple(topics), owned)
        told = None if is_joining else self._told
        request = ConsumerGroupHeartbeatRequest(group_id=self._group_id, member_id=self.member_id, member_epoch=self.member_epoch)
        request.instance_id = options.group_instance_id
        if told is None:
            request.rack_id = options.client_rack or None
            request.rebalance_timeout_ms = options.max_poll_interval_ms
            request.server_assignor = options.group_remote_assignor
        if told is None or told.topics != said.topics:
            request.subscribed_topic_names = topics
        if told is None or told.owned != owned:
            request.topic_partitions = [] if is_joining else self._with_ids(owned)
        return request, said

    def _with_ids(self, partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(partitions):
            topics.setdefault(topic, []).append(index)
        view = self._cluster.view
        return [
            TopicPartitions(topic_id=view.topic_id_of(topic), partitions=indexes)
            for topic, indexes in topics.items()
            if topic in view.topics
        ]

    async def _take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        code = ErrorCode.of(response.error_code)
        if code in FENCED:
            self._lost()
            return
        if code.retriable and code is not ErrorCode.NONE:
            self._told = None
            return
        if code is not ErrorCode.NONE:
            self._failure = error_of(code, response.error_message or f"group {self._group_id}: {code.text}")
            self._lost()  # the member joins again only when its caller has heard of the error
            return
        self.member_epoch = response.member_epoch
        self._interval_s = max(response.heartbeat_interval_ms, 1) / 1000
        if self.state is MemberState.OUTSIDE:
            self.state = MemberState.JOINING
        if response.assignment is not None:
            self._assigned = response.assignment.topic_partitions
        if self._assigned is not None:
            await self._aim_at(self._assigned)

    async def _aim_at(self, assigned: Sequence[TopicPartitions]) -> None:
        """Make the target of the assigned topic ids.  After a later heartbeat ids that are not known now are looked up again.

        The coordinator tells an assignment once: what is forgotten here would be read by nobody.
        """
        if any(one.topic_id not in self._cluster.view.names for one in assigned):
            try:
                await self._cluster.refresh(sorted(self._owner.subscribed()))
            except (OSError, Unreachable, KafkaError) as error:
                LOG.info("group %s: the names of topics are not known: %s", self._group_id, error)
                return
        names = self._cluster.view.names
        if all(one.topic_id in names for one in assigned):
            self._assigned = None
        self._target = frozenset(
            TopicPartition(names[one.topic_id], index) for one in assigned if one.topic_id in names for index in one.partitions
        )
        self._owner.news()

    def _lost(self) -> None:
        self.state = MemberState.LOST
        self.member_epoch = JOIN
        self._told = None
        self._target = None
        self._assigned = None
        self._owner.news()

    # ------------------------------------------------------------ leaving

    async def leave(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self.member_epoch > JOIN:
            await self._leave_quietly()
        self.state = MemberState.OUTSIDE
        self._cluster.close()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._cluster.close()

    async def _leave_quietly(self) -> None:
        epoch = LEAVE if self._options.group_instance_id is None else LEAVE_STATIC
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self._options.group_instance_id
        )
        self.member_epoch = JOIN
        with suppress(OSError, Unreachable, KafkaError):
            within_s = self._options.request_timeout_ms / 1000
            await self._coordinators.ask(self._group_id, request, lambda one: one.error_code, within_s=within_s)
