"""● A broker without a cluster: its real handlers, coordinators, partitions and logs, on memory and virtual time.

Two topics, one partition of `__consumer_offsets` and one of `__transaction_state`.  Requests come as messages, not as bytes; a sync takes
some milliseconds; markers go from the coordinator to the partitions, and questions from there to the coordinator, as between two brokers.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast
from unittest.mock import patch
from uuid import UUID

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.outcome import ProducerIdAndEpoch
from moldau.coordinator.share.config import ShareCoordinatorConfig
from moldau.coordinator.txn.config import TransactionConfig
from moldau.coordinator.txn.coordinator import Markers
from moldau.coordinator.txn.state import IDLE
from moldau.errors import ErrorCode
from moldau.metadata.controller import Controller
from moldau.metadata.loader import Loader
from moldau.net.later import Later
from moldau.protocol.header import RequestHeader
from moldau.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.replication.share.config import SharePartitionConfig
from moldau.server.broker import Broker, Features, Leader
from moldau.server.coordinators import Coordinators
from moldau.server.dispatch import Api, Client, ConnectionClosed, RequestContext, refusal_of
from moldau.server.fetch_session import FetchSessionCache
from moldau.server.handlers import MODULES
from moldau.server.handlers.registry import apis_of
from moldau.server.log_mover import LogMover
from moldau.server.node_config import NodeConfig
from moldau.server.producer_ids import ProducerIds
from moldau.server.share_partitions import SharePartitions
from moldau.server.share_session import ShareSessions
from moldau.server.transactions import Membership
from moldau.server.txn_markers import FINAL_REFUSALS, AppendedMarker, MarkerWriter
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.testing.clock import EPOCH_MS, SimClock
from moldau.testing.files import MemoryFiles
from moldau.testing.txn_schedules.wire import Link, Lost, Weather, Wire
from moldau.types import GROUP_TOPIC, TRANSACTION_TOPIC, TopicPartition

DATA: Final = (TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 0))
GROUP_OFFSETS: Final = TopicPartition(GROUP_TOPIC, 0)
TRANSACTION_STATE: Final = TopicPartition(TRANSACTION_TOPIC, 0)
LONGEST_SYNC_S: Final = 0.02
BROKER_ID: Final = 1
OFFSET_FETCH_VERSION: Final = 9
CONFIG: Final = NodeConfig.parse(
    {
        "process.roles": "broker,controller",
        "node.id": str(BROKER_ID),
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "log.dirs": "/data",
        "controller.quorum.bootstrap.servers": "localhost:9093",
    }
)
APIS: Final[dict[int, Api]] = apis_of(MODULES, "broker")


class _Cluster:
    """The metadata: a few topics, all led here."""

    version = 1

    def __init__(self) -> None:
        self._ids: Final = {topic: UUID(int=1000 + number) for number, topic in enumerate(dict.fromkeys(each.topic for each in DATA))}

    def topic_name(self, topic_id: UUID) -> str | None:
        return next((name for name, known in self._ids.items() if known == topic_id), None)

    def has_partition(self, topic: str, index: int) -> bool:
        return (topic, index) in (*DATA, GROUP_OFFSETS, TRANSACTION_STATE)

    def leader_of(self, topic: str, index: int, listener: str) -> Leader:
        return Leader(BROKER_ID, 1, None, None)

    def features(self) -> Features:
        return Features({}, {}, 1)

    def by_name(self, name: str) -> TopicView | None:
        topic_id = self._ids.get(name)
        return TopicView(topic_id, name, 2) if topic_id is not None else None

    def by_id(self, topic_id: UUID) -> TopicView | None:
        name = self.topic_name(topic_id)
        return self.by_name(name) if name is not None else None

    def names(self) -> list[str]:
        return list(self._ids)


class RemoteMarkers(MarkerWriter):
    """Markers by WriteTxnMarkers over a connection that breaks like any other, and is tried again on the next."""

    wire: Wire
    _link: Link | None = None

    def _write(self, topic_partition: TopicPartition, markers: Markers, coordinator_epoch: int) -> asyncio.Future[ErrorCode]:
        return asyncio.ensure_future(self._ask(topic_partition, markers, coordinator_epoch))

    async def _ask(self, topic_partition: TopicPartition, markers: Markers, coordinator_epoch: int) -> ErrorCode:
        version = 2 if markers.client_version >= 2 else 1

        def make() -> WriteTxnMarkersRequest:
            topic = WritableTxnMarkerTopic(name=topic_partition.topic, partition_indexes=[topic_partition.partition])
            return WriteTxnMarkersRequest(
                markers=[
                    WritableTxnMarker(
                        producer_id=markers.producer_id,
                        producer_epoch=markers.producer_epoch,
                        transaction_result=markers.is_commit,
                        topics=[topic],
                        coordinator_epoch=coordinator_epoch,
                        transaction_version=markers.client_version,
                    )
                ]
            )

        if self._link is None or self._link.is_given_up or self._link.is_closed:
            self._link = self.wire.connect()
        try:
            response = await self._link.ask(make, version)
        except Lost:
            return ErrorCode.NETWORK_EXCEPTION
        code = ErrorCode.of(response.markers[0].topics[0].partitions[0].error_code)
        return ErrorCode.NONE if code in FINAL_REFUSALS else code


@contextmanager
def remote_coordinator(delay_s: Callable[[], float]) -> Iterator[None]:
    """Whoever asks a transaction's coordinator about a partition waits for the way there and back, as from another broker."""
    ask = Membership._ask

    async def asked_from_afar(self: Membership, partition: Partition, *, adds: bool) -> ErrorCode:
        await asyncio.sleep(delay_s())
        code = await ask(self, partition, adds=adds)
        await asyncio.sleep(delay_s())
        return code

    with patch.object(Membership, "_ask", asked_from_afar):
        yield


class Room:
    """See the module.  Made on a running loop."""

    def __init__(self, choice: random.Random, *, transaction: TransactionConfig) -> None:
        self._choice: Final = choice
        self._loop: Final = asyncio.get_running_loop()
        self.clock: Final = SimClock(self._loop)
        self._files: Final = MemoryFiles()
        self._files.mkdir("/data")
        self._syncing: set[Log] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._next_block = 0
        self.failures: list[str] = []
        cluster = _Cluster()
        numbers = iter(range(1, 1 << 30))

        def new_uuid() -> UUID:
            return UUID(int=next(numbers))

        replicas = ReplicaManager(
            local_id=BROKER_ID, lag_time_max_ms=30_000, on_flush_wanted=self._sync_soon, on_earlier_timeout=lambda due_ms: None
        )
        producer_ids = ProducerIds(self._allocate)
        self.coordinators: Final = Coordinators(
            group_config=GroupCoordinatorConfig.load({"offsets.topic.num.partitions": "1"}),
            transaction_config=transaction,
            share_config=ShareCoordinatorConfig.load({}),
            topics=cluster,
            clock=self.clock,
            new_uuid=new_uuid,
            replicas=replicas,
            producer_ids=producer_ids,
            create_topic=self._no_topic,
            create_topics=self._no_topics,
        )
        shared = CONFIG.of(SharePartitionConfig)
        shares = SharePartitions(
            config=shared, replicas=replicas, clock=self.clock, states=self.coordinators.share_persister, group_values=lambda group_id: {}
        )
        self.broker: Final = Broker(
            config=CONFIG,
            cluster_id="5L6g3nShT-eMCtK--X86sw",
            controller=cast(Controller, None),
            loader=Loader(self.clock),
            files=self._files,
            clock=self.clock,
            cluster=cluster,
            replicas=replicas,
            logs=cast(LogManager, None),
            mover=cast(LogMover, None),
            fetch_sessions=FetchSessionCache(10, lambda: next(numbers)),
            producer_ids=producer_ids,
            coordinators=self.coordinators,
            shares=shares,
            share_sessions=ShareSessions(shared.max_share_sessions, shares.forget_group),
        )
        for name in (*DATA, GROUP_OFFSETS, TRANSACTION_STATE):
            log = Log.open(self._files, f"/data/{name}", name, CONFIG.log, now_ms=EPOCH_MS, topic_id=new_uuid())
            self._lead(replicas.host(name, new_uuid(), log), 1)

    def send_markers_over(self, wire: Wire) -> None:
        writer = RemoteMarkers(self.broker.replicas, self.clock, lambda _: True, cast(AppendedMarker, self.coordinators._marker_appended))
        writer.wire = wire
        self.coordinators.markers = writer  # type: ignore[misc]  # final for everybody else

    def partition(self, name: TopicPartition) -> Partition:
        return self.broker.replicas.hosted[name]

    # requests

    def serve(self, link: Link, request: Any, version: int, answer: Callable[[Any], None]) -> None:
        """As `Dispatcher` does it, without the bytes."""
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
            said.then(answer)
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
        """Whether a client that wants stable offsets is told within a second."""
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        answered = self._loop.create_future()
        wire = Wire(self.serve, self._choice, Weather(slow_chance=0.0), is_replayable=lambda _: False)
        self.serve(wire.connect(), OffsetFetchRequest(groups=[asked], require_stable=True), OFFSET_FETCH_VERSION, answered.set_result)
        await asyncio.sleep(1.0)
        return answered.done()

    # faults

    def fail_over(self, name: TopicPartition) -> None:
        """The partition is led anew: its coordinator starts from the log."""
        partition = self.partition(name)
        self._lead(partition, partition.leader_epoch + 1)

    def _lead(self, partition: Partition, epoch: int) -> None:
        partition.lead(
            leader_epoch=epoch,
            partition_epoch=epoch,
            replicas=(BROKER_ID,),
            isr=(BROKER_ID,),
            eligible=(BROKER_ID,),
            now_ms=self.clock.now_ms(),
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

    async def _allocate(self) -> range:
        self._next_block += 1000
        return range(self._next_block, self._next_block + 1000)

    async def _no_topic(self, topic: str, partition_count: int, replication_factor: int, configs: dict[str, str]) -> None:
        raise AssertionError(f"{topic} is there")

    async def _no_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        raise AssertionError("there are no streams groups here")

    # what the verdict asks

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
