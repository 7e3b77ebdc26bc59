"""● Lives with a share group (KIP-932): members on our own share consumer accept, release or reject what the producers of every life write.

Members die, and more members come.  The leaders of the shared partitions, the group's coordinator and the coordinator of share states are
nodes that are struck; their replicas are moved, too.

    python -m proof.fleet --share --seeds 100

What must hold: a record whose acceptance or rejection was confirmed is in no answer to a later fetch; no record is delivered more often
than allowed; in the end every record was accepted or rejected by a member, or has been delivered as often as allowed.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from moldau.clients.cluster import Unreachable
from moldau.clients.share import Acknowledge, ShareConsumer, SharedRecord
from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.image import ResourceType
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.testing.loop import Machine
from moldau.types import TopicPartition
from proof.fleet.clients import PARTITIONS, RETRY_AFTER_S, TOPIC, Apart, Operator
from proof.fleet.fleet import COMPACTING, Fleet
from proof.fleet.life import ALIVE_WITHIN_S, BETWEEN_LOOKS_S, FAULTS, Fault, Life, User, Violated

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
MOST_MEMBERS: Final = 3
Place = tuple[int, int]
"""A partition of the topic, and an offset."""


class Workers:
    """What is known of the group."""

    kind = "records of the share group confirmed"

    def __init__(self) -> None:
        self.confirmed: Final[dict[Place, float]] = {}
        """The records whose acceptance or rejection was confirmed, and when."""
        self.ended: Final[set[Place]] = set()
        """The records that some member accepted or rejected, or that were delivered as often as allowed."""
        self.is_to_end = False
        """Whether the producers end.  The members end later, when nothing is left: see `is_over`."""
        self.is_over = False

    def __repr__(self) -> str:
        return "the share group"

    @property
    def acknowledged(self) -> Sequence[Place]:
        return list(self.confirmed)


class Worker(Apart):
    """One machine that works for the group."""

    def __init__(self, fleet: Fleet, group: Workers, host: str) -> None:
        super().__init__(fleet, host)
        self.group: Final = group
        self._said: dict[Place, Acknowledge] = {}

    async def run(self) -> None:
        while not self.group.is_over:
            with suppress(KafkaError, OSError, Unreachable):
                await self._live()
            await asyncio.sleep(RETRY_AFTER_S)

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


class Sharing(Life):
    """See the module."""

    properties = COMPACTING

    def __init__(self, seed: int, **more: Any) -> None:
        super().__init__(seed, **more)
        self.group: Final = Workers()
        self.workers: Final[dict[Worker, asyncio.Task[None]]] = {}
        """Every member that ever was, and its work."""

    def _new_operator(self) -> Operator:
        return SharingOperator(self.fleet)

    def _faults(self) -> Sequence[Fault]:
        return (*FAULTS, Sharing._worker_dies, Sharing._worker_comes)

    def _begin_more_work(self) -> None:
        for _ in range(2):
            self._new_worker()

    def _new_worker(self) -> None:
        worker = Worker(self.fleet, self.group, f"10.0.7.{len(self.workers) + 1}")
        self.workers[worker] = self.loop.start(worker.machine, worker.run())

    def _living(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.machine.is_alive]

    async def _worker_dies(self) -> None:
        if living := self._living():
            worker = self.chance.choice(living)
            self.loop.kill(worker.machine)
            self.fleet.network.crash(worker.machine, silently=self.chance.random() < 0.5)
            self.loop.call_later(self._a_while(), self._new_worker)

    async def _worker_comes(self) -> None:
        if len(self._living()) < MOST_MEMBERS:
            self._new_worker()

    def _users(self) -> Sequence[User]:
        return [*self.producers, self.group]

    def _machines(self) -> list[Machine]:
        return [*super()._machines(), *(worker.machine for worker in self.workers)]

    async def _until_equal(self) -> None:
        until_s = self.loop.time() + ALIVE_WITHIN_S
        while left := self._left():
            if self.loop.time() > until_s:
                self._wrong(f"in the end nobody has accepted or rejected {left[:10]}")
                raise Violated
            await asyncio.sleep(BETWEEN_LOOKS_S)
        self.group.is_over = True
        await self._within(ALIVE_WITHIN_S, self.loop.create_task(self._all_workers()), "the members could not end")
        await super()._until_equal()

    def _left(self) -> list[Place]:
        """The records that nobody has accepted or rejected.  Every offset is a record: no producer has transactions."""
        ends = {number: self._log_of(TopicPartition(TOPIC, number)).high_watermark for number in range(PARTITIONS)}
        return [(number, offset) for number, end in ends.items() for offset in range(end) if (number, offset) not in self.group.ended]

    async def _all_workers(self) -> None:
        await asyncio.gather(*(self.workers[worker] for worker in self._living()))
