"""● A broker without a cluster: its real handlers, coordinators, partitions and logs, in memory and on virtual time.

It has two topics, one partition of `__consumer_offsets` and one of `__transaction_state`.  Requests come as messages, not as bytes.  A sync
takes some milliseconds.  Markers travel from the coordinator to the partitions, and questions from the partitions to the coordinator, as
between two brokers.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast
from unittest.mock import patch
from uuid import UUID

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.outcome import ProducerIdAndEpoch
from moldau.coordinator.txn.state import IDLE
from moldau.errors import ErrorCode
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.loader import Loader
from moldau.net.channel import ChannelClosed
from moldau.net.later import Later
from moldau.protocol.header import RequestHeader
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
)
from moldau.protocol.wire import AnyResponse, Request
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.server.coordinators.transactions import Membership
from moldau.server.handlers import MODULES
from moldau.server.node.accepted import is_fixed
from moldau.server.node.assembly import assemble
from moldau.server.node.config import ROOMS, NodeConfig
from moldau.server.node.log_mover import LogMover
from moldau.server.peers.brokers import Brokers
from moldau.server.requests.broker import Features, Leader
from moldau.server.requests.dispatch import Api, Client, ConnectionClosed, RequestContext, refusal_of
from moldau.server.requests.registry import apis_of
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.testing.clock import EPOCH_MS, SimClock
from moldau.testing.files import MemoryFiles
from moldau.types import GROUP_TOPIC, NO_LEADER, SHARE_TOPIC, TRANSACTION_TOPIC, TopicPartition
from proof.transactions.schedules.wire import Link, Lost, Weather, Wire

DATA: Final = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0))
GROUP_OFFSETS: Final = TopicPartition(GROUP_TOPIC, 0)
TRANSACTION_STATE: Final = TopicPartition(TRANSACTION_TOPIC, 0)
SHARE_STATE: Final = TopicPartition(SHARE_TOPIC, 0)
INTERNAL_IDS: Final = {GROUP_TOPIC: UUID(int=997), TRANSACTION_TOPIC: UUID(int=998), SHARE_TOPIC: UUID(int=999)}
LONGEST_SYNC_S: Final = 0.02
BROKER_ID: Final = 1
IDS_OF_A_BROKER: Final = 1_000_000
"""The producer ids that one broker may give away."""
ANOTHER_BROKER_ID: Final = 2
OFFSET_FETCH_VERSION: Final = 9
PROPERTIES: Final = {
    "process.roles": "broker,controller",
    "node.id": str(BROKER_ID),
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "log.dirs": "/data",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}
APIS: Final[dict[int, Api]] = apis_of(MODULES, "broker")


class _Cluster:
    """The metadata: a few topics, which this broker leads if `leader_of` names no other leader and epoch."""

    version = 1

    def __init__(self, leader_id: int, leader_of: Callable[[TopicPartition], tuple[int, int]] | None) -> None:
        self.leader_id: Final = leader_id
        self._leader_of: Final = leader_of
        self._ids: Final = {topic: UUID(int=1000 + number) for number, topic in enumerate(dict.fromkeys(each.topic for each in DATA))}

    def topic_name(self, topic_id: UUID) -> str | None:
        return next((name for name, known in self._ids.items() if known == topic_id), None)

    def has_partition(self, topic: str, index: int) -> bool:
        return (topic, index) in (*DATA, GROUP_OFFSETS, TRANSACTION_STATE, SHARE_STATE)

    def leader_of(self, topic: str, index: int, listener: str) -> Leader:
        leader_id, epoch = (self.leader_id, 1) if self._leader_of is None else self._leader_of(TopicPartition(topic, index))
        return Leader(leader_id, epoch, None, None)

    def features(self) -> Features:
        return Features({}, {}, 1)

    def by_name(self, name: str) -> TopicView | None:
        if name in INTERNAL_IDS:
            return TopicView(INTERNAL_IDS[name], name, 1)
        topic_id = self._ids.get(name)
        return TopicView(topic_id, name, 2) if topic_id is not None else None

    def by_id(self, topic_id: UUID) -> TopicView | None:
        name = self.topic_name(topic_id)
        return self.by_name(name) if name is not None else None

    def names(self) -> list[str]:
        return list(self._ids)


class _NobodyAsks:
    """A controller that nobody may ask, because every topic exists."""

    async def ask(self, request: Request[AnyResponse], *, version: int | None = None) -> AnyResponse:
        raise AssertionError(f"{request} goes to no controller")

    async def forward(self, request: Request[AnyResponse], context: RequestContext) -> AnyResponse:
        return await self.ask(request)


class OverTheWire:
    """Other brokers, over a connection that breaks like any other.  Once there is a wire, they lead every partition with records."""

    def __init__(self) -> None:
        self.wire: Wire | None = None
        self._link: Link | None = None

    def leader_of(self, where: TopicPartition) -> int:
        if where == SHARE_STATE:
            return BROKER_ID
        return NO_LEADER if self.wire is None or where == TRANSACTION_STATE else ANOTHER_BROKER_ID

    async def ask(self, broker_id: int, request: Request[AnyResponse]) -> AnyResponse:
        assert self.wire is not None and isinstance(request, WriteTxnMarkersRequest)
        if self._link is None or self._link.is_given_up or self._link.is_closed:
            self._link = self.wire.connect()
        version = 2 if request.markers[0].transaction_version >= 2 else 1
        try:
            return cast(AnyResponse, await self._link.ask(lambda: request, version))
        except Lost as error:
            raise ChannelClosed(str(error)) from error


@contextmanager
def remote_coordinator(delay_s: Callable[[], float]) -> Iterator[None]:
    """Delay each question to a transaction's coordinator about a partition, and its answer, as if another broker asked."""
    ask = Membership._ask

    async def asked_from_afar(self: Membership, partition: Partition, *, adds: bool) -> ErrorCode:
        await asyncio.sleep(delay_s())
        code = await ask(self, partition, adds=adds)
        await asyncio.sleep(delay_s())
        return code

    with patch.object(Membership, "_ask", asked_from_afar):
        yield


class Room:
    """See the module.  Make it on a running loop.

    `logs`: those of a cluster's other rooms, which replicate perfectly: all have the same logs.  Such a room leads nothing at first.
    `ends_waits`: fetches without records end in time; with share groups they always do.
    `brokers`: the other rooms, and the leader and leader epoch of each partition as this broker knows them.
    """

    def __init__(
        self,
        choice: random.Random,
        *,
        properties: Mapping[str, str],
        has_share_groups: bool = False,
        broker_id: int = BROKER_ID,
        logs: Mapping[TopicPartition, Log] | None = None,
        ends_waits: bool = False,
        brokers: tuple[Brokers, Callable[[TopicPartition], tuple[int, int]]] | None = None,
    ) -> None:
        config = NodeConfig.parse({**PROPERTIES, "node.id": str(broker_id), **properties})
        self._broker_id: Final = broker_id
        self._choice: Final = choice
        self._loop: Final = asyncio.get_running_loop()
        self.clock: Final = SimClock(self._loop)
        self._files: Final = MemoryFiles()
        self._files.mkdir("/data")
        self._syncing: set[Log] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._next_block = (broker_id - 1) * IDS_OF_A_BROKER
        self.failures: list[str] = []
        cluster = _Cluster(broker_id, None if brokers is None else brokers[1])
        self._waits: asyncio.TimerHandle | None = None
        replicas = ReplicaManager(
            local_id=broker_id,
            lag_time_max_ms=30_000,
            on_flush_wanted=self._sync_soon,
            on_earlier_timeout=self._end_waits_at if has_share_groups or ends_waits else lambda due_ms: None,
        )
        ids = random.Random(broker_id)
        self._brokers: Final = OverTheWire()
        self.broker: Final = assemble(
            config=config,
            cluster_id="5L6g3nShT-eMCtK--X86sw",
            schema=ConfigSchema(config.properties, ROOMS, node_id=BROKER_ID, is_fixed=is_fixed),
            files=self._files,
            clock=self.clock,
            random=ids,
            controller=_NobodyAsks(),
            allocate_producer_ids=self._allocate,
            loader=Loader(self.clock),
            cluster=cluster,
            replicas=replicas,
            brokers=self._brokers if brokers is None else brokers[0],
            logs=cast(LogManager, None),
            mover=cast(LogMover, None),
        )
        self.coordinators: Final = self.broker.coordinators
        self.coordinators.topics_changed(cluster, (), ())

        def new_uuid() -> UUID:
            return UUID(int=ids.getrandbits(128))

        for name in (*DATA, GROUP_OFFSETS, TRANSACTION_STATE, *([SHARE_STATE] if has_share_groups else [])):
            view = cluster.by_name(name.topic)
            topic_id = new_uuid() if view is None else view.topic_id
            if logs is not None:
                replicas.host(name, topic_id, logs[name])
            else:
                log = Log.open(self._files, f"/data/{name}", name, config.log, now_ms=EPOCH_MS, topic_id=topic_id)
                self._lead(replicas.host(name, topic_id, log), 1)

    def send_markers_over(self, wire: Wire) -> None:
        self._brokers.wire = wire

    def partition(self, name: TopicPartition) -> Partition:
        return self.broker.replicas.hosted[name]

    # requests

    def serve(self, link: Link, request: Any, version: int, answer: Callable[[Any], None]) -> None:
        """Serve a request as `Dispatcher` does, without the bytes."""
        api = APIS[type(request).API_KEY]
        header = RequestHeader(api.request.API_KEY, version, 1, "schedule")
        client = Client(listener="PLAINTEXT", host="10.0.0.9", port=5, connection_number=link.number)
        context = RequestContext(header, client, self.clock.now_ms())
        try:
            said = api.handle(self.broker, context, request)
        except ConnectionClosed:
            link.close()
            return
        except Exception as error:
            answer(self._refusal(error, context, request))
            return
        if isinstance(said, Later):
            said.then(answer, lambda error: answer(self._refusal(error, context, request)))
        elif isinstance(said, Awaitable):
            task = self._loop.create_task(self._answer_later(link, said, context, request, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            answer(said)

    async def _answer_later(
        self, link: Link, said: Awaitable[Any], context: RequestContext, request: Any, answer: Callable[[Any], None]
    ) -> None:
        try:
            answer(await said)
        except ConnectionClosed:
            link.close()
        except Exception as error:
            answer(self._refusal(error, context, request))

    def _refusal(self, error: Exception, context: RequestContext, request: Any) -> Any:
        refusal = refusal_of(error, context, request)
        if isinstance(error, AssertionError):
            self.failures.append(f"{type(request).__name__} failed: {error!r}")
        return refusal

    async def answers_offset_fetch(self, group: str) -> bool:
        """Whether a request for stable offsets is answered within a second."""
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        answered = self._loop.create_future()
        wire = Wire(self.serve, self._choice, Weather(slow_chance=0.0), is_replayable=lambda _: False)
        self.serve(wire.connect(), OffsetFetchRequest(groups=[asked], require_stable=True), OFFSET_FETCH_VERSION, answered.set_result)
        await asyncio.sleep(1.0)
        return answered.done()

    # faults

    def fail_over(self, name: TopicPartition) -> None:
        """Make the broker lead a partition anew, so that its coordinator starts from the log."""
        partition = self.partition(name)
        self._lead(partition, partition.leader_epoch + 1)

    def take_over(self, name: TopicPartition, epoch: int) -> None:
        """Lead a partition that another room led."""
        self._lead(self.partition(name), epoch)
        self._sync_soon(self.partition(name).log)  # what the other one has not synced yet

    def follow(self, name: TopicPartition, leader_id: int, epoch: int) -> None:
        partition = self.partition(name)
        partition.follow(leader_id=leader_id, leader_epoch=epoch, partition_epoch=epoch, replicas=(leader_id,), isr=(leader_id,))
        self.coordinators.leadership_changed(partition)

    def _lead(self, partition: Partition, epoch: int) -> None:
        partition.lead(
            leader_epoch=epoch,
            partition_epoch=epoch,
            replicas=(self._broker_id,),
            isr=(self._broker_id,),
            eligible={self._broker_id: 1},
            now_ms=self.clock.monotonic_ms(),
        )
        self.coordinators.leadership_changed(partition)

    def _sync_soon(self, log: Log) -> None:
        if log not in self._syncing:
            self._syncing.add(log)
            self._loop.call_later(self._choice.random() * LONGEST_SYNC_S, self._sync, log)

    def _sync(self, log: Log) -> None:
        self._syncing.discard(log)
        log.flush()
        self.broker.replicas.log_flushed(log)

    def _end_waits_at(self, due_ms: int) -> None:
        """Answer fetches whose time is over.  Else a share member's heartbeats, which are on the same connection, wait for records."""
        if self._waits is not None:
            self._waits.cancel()
        self._waits = self._loop.call_later(max(0, due_ms - self.clock.monotonic_ms()) / 1000, self._end_waits)

    def _end_waits(self) -> None:
        self._waits = None
        timeouts = self.broker.replicas.timeouts
        timeouts.expire(self.clock.monotonic_ms())
        due_ms = timeouts.next_due_ms()
        if due_ms is not None and self._waits is None:
            self._end_waits_at(due_ms)

    async def _allocate(self) -> range:
        self._next_block += 1000
        return range(self._next_block, self._next_block + 1000)

    # questions of the verdict

    def committed_offset(self, group: str, partition: TopicPartition) -> int | None:
        (shard,) = self.coordinators.groups.active_shards()
        found = shard.machine.offsets.committed(group).get(partition)
        return found.offset if found is not None else None

    def closed_coordinators(self) -> list[str]:
        return [topic.topic for topic in (self.coordinators.groups, self.coordinators.transactions) if not topic.active_shards()]

    def pending_groups(self, groups: list[str]) -> list[str]:
        (shard,) = self.coordinators.groups.active_shards()
        return [group for group in groups if shard.machine.offsets.has_pending(group)]

    def open_producers(self) -> list[ProducerIdAndEpoch]:
        (shard,) = self.coordinators.transactions.active_shards()
        return [
            ProducerIdAndEpoch(each.producer_id, each.producer_epoch)
            for each in shard.machine.transactions.values()
            if each.state not in IDLE
        ]
