"""● Lives with a share group (KIP-932): members on our own share consumer accept, release or reject what the producers of every life write.

Members die, and more members come.  The leaders of the shared partitions, the group's coordinator and the coordinator of share states are
nodes that are struck; their replicas are moved, too.

    python -m proof.fleet --share --seeds 100

What must hold: a record whose acceptance or rejection was confirmed is in no answer to a later fetch; no record is delivered more often
than allowed; in the end every record was accepted or rejected by a member, or has been delivered as often as allowed.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from moldau.clients.share import Acknowledge, ShareConsumer, SharedRecord
from moldau.errors import ErrorCode
from moldau.metadata.image import ResourceType
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.types import TopicPartition
from proof.fleet.clients import PARTITIONS, RETRY_AFTER_S, TOPIC, Operator
from proof.fleet.fleet import Fleet
from proof.fleet.grouped import Group, Grouped, Member
from proof.fleet.life import ALIVE_WITHIN_S, BETWEEN_LOOKS_S, Violated

GROUP: Final = "workers"
DELIVERIES: Final = 10
LOCK_MS: Final = 3000
CONFIGS: Final = {
    "share.auto.offset.reset": "earliest",
    "share.record.lock.duration.ms": str(LOCK_MS),
    "share.delivery.count.limit": str(DELIVERIES),
    "share.session.timeout.ms": "6000",
    "share.heartbeat.interval.ms": "700",
}
FINAL: Final = frozenset({Acknowledge.ACCEPT, Acknowledge.REJECT})
Place = tuple[int, int]
"""A partition of the topic, and an offset."""


class Workers(Group):
    """What is known of the group."""

    kind = "records of the share group confirmed"

    def __init__(self) -> None:
        super().__init__()
        self.confirmed: Final[dict[Place, float]] = {}
        """The records whose acceptance or rejection was confirmed, and when."""
        self.ended: Final[set[Place]] = set()
        """The records that some member accepted or rejected, or that were delivered as often as allowed."""

    def __repr__(self) -> str:
        return "the share group"

    @property
    def acknowledged(self) -> Sequence[Place]:
        return list(self.confirmed)


class Worker(Member):
    """One machine that works for the group."""

    def __init__(self, fleet: Fleet, group: Workers, host: str) -> None:
        super().__init__(fleet, host)
        self.group: Workers = group
        self._said: dict[Place, Acknowledge] = {}

    async def _live(self) -> None:
        options: dict[str, Any] = {
            "group_id": GROUP,
            "topics": [TOPIC],
            "on_acknowledged": self._on_acknowledged,
            "share_acknowledgement_mode": "explicit",
            "max_poll_records": self.chance.choice((5, 500)),
            "fetch_max_wait_ms": 500,
        }
        async with ShareConsumer(**self.connection(), **options) as consumer:
            while not self.group.is_over:
                for shared in await consumer.poll(wait_s=1.0):
                    self._work_on(consumer, shared)
                if self.chance.random() < 0.05:
                    await asyncio.sleep(self.chance.choice((1.0, LOCK_MS / 1000 + 1)))
                await consumer.commit()

    def _work_on(self, consumer: ShareConsumer, shared: SharedRecord) -> None:
        place = shared.record.partition, shared.record.offset
        confirmed = self.group.confirmed.get(place, shared.asked_at)
        if confirmed < shared.asked_at:
            self.fleet.on_wrong(f"{place} was confirmed at {confirmed:.3f} s, and delivered to a fetch of {shared.asked_at:.3f} s")
        if shared.delivery_count > DELIVERIES:
            self.fleet.on_wrong(f"{place} is delivered for the time {shared.delivery_count}")
        (kind,) = self.chance.choices((Acknowledge.ACCEPT, Acknowledge.REJECT, Acknowledge.RELEASE), (85, 5, 10))
        self._said[place] = kind
        consumer.acknowledge(shared, kind)
        if kind in FINAL or shared.delivery_count == DELIVERIES:
            self.group.ended.add(place)

    def _on_acknowledged(self, where: TopicPartition, offsets: list[int], code: ErrorCode) -> None:
        for offset in offsets:
            place = where.partition, offset
            if code is ErrorCode.NONE and self._said.get(place) in FINAL:
                self.group.confirmed.setdefault(place, self.fleet.loop.time())


class SharingOperator(Operator):
    """An operator who lets the group begin with the oldest record, and moves the replicas of coordinators, too."""

    async def create_topics(self) -> None:
        await super().create_topics()
        configs = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in CONFIGS.items()]
        resource = AlterConfigsResource(resource_type=ResourceType.GROUP, resource_name=GROUP, configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        while (response := await self.ask(self.anyone(), request)) is None or response.responses[0].error_code:  # noqa: ASYNC110  others may take it
            await asyncio.sleep(RETRY_AFTER_S)

    def _some_topic(self) -> str:
        return self.chance.choice((TOPIC, "__consumer_offsets", "__share_group_state"))


class Sharing(Grouped):
    """See the module."""

    def __init__(self, seed: int, **more: Any) -> None:
        super().__init__(seed, **more)
        self.group: Workers = Workers()

    def _new_operator(self) -> Operator:
        return SharingOperator(self.fleet)

    def _member(self, number: int) -> Worker:
        return Worker(self.fleet, self.group, f"10.0.7.{number}")

    async def _until_equal(self) -> None:
        until_s = self.loop.time() + ALIVE_WITHIN_S
        while left := self._left():
            if self.loop.time() > until_s:
                self._wrong(f"in the end nobody has accepted or rejected {left[:10]}")
                raise Violated
            await asyncio.sleep(BETWEEN_LOOKS_S)
        await self._end_members()
        await super()._until_equal()

    def _left(self) -> list[Place]:
        """The records that nobody has accepted or rejected.  Every offset is a record: no producer has transactions."""
        ends = {number: self._log_of(TopicPartition(TOPIC, number)).high_watermark for number in range(PARTITIONS)}
        return [(number, offset) for number, end in ends.items() for offset in range(end) if (number, offset) not in self.group.ended]
