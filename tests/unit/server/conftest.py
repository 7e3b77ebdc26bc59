"""A broker without a cluster behind it: real partitions on logs in memory, metadata that the test says."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.environment import NoTopics
from moldau.coordinator.share.config import ShareCoordinatorConfig
from moldau.coordinator.txn.config import TransactionConfig
from moldau.metadata.controller import Controller
from moldau.metadata.loader import Loader
from moldau.protocol.header import RequestHeader
from moldau.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.replication.share.config import SharePartitionConfig
from moldau.server.broker import Broker, Features, Leader
from moldau.server.coordinators import Coordinators
from moldau.server.dispatch import Client, RequestContext
from moldau.server.endpoints import Endpoint
from moldau.server.fetch_session import FetchSessionCache
from moldau.server.log_mover import LogMover
from moldau.server.node_config import NodeConfig
from moldau.server.producer_ids import ProducerIds
from moldau.server.share_partitions import SharePartitions
from moldau.server.share_session import ShareSessions
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.testing.files import MemoryFiles
from moldau.types import TopicPartition

NOW_MS = 1_700_000_000_000
LOCAL_ID = 1
PROPERTIES = {"process.roles": "broker,controller", "node.id": "1", "controller.listener.names": "CONTROLLER"} | {
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "log.dirs": "/data",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}


class StoppedClock:
    def __init__(self) -> None:
        self.wall_ms = NOW_MS
        self.steady_ms = 1_000

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.steady_ms

    def advance(self, elapsed_ms: int) -> None:
        self.wall_ms += elapsed_ms
        self.steady_ms += elapsed_ms


@dataclass
class SaidCluster:
    """What the test says about topics that exist."""

    ids: dict[str, UUID] = field(default_factory=dict)
    known: set[tuple[str, int]] = field(default_factory=set)
    finalized: Mapping[str, int] = field(default_factory=dict)

    def topic_name(self, topic_id: UUID) -> str | None:
        return next((name for name, known in self.ids.items() if known == topic_id), None)

    def has_partition(self, topic: str, index: int) -> bool:
        return (topic, index) in self.known

    def leader_of(self, topic: str, index: int, listener: str) -> Leader:
        return Leader(2, 9, Endpoint(listener, "two", 9092, "PLAINTEXT"), None)

    def features(self) -> Features:
        return Features({"group.version": range(2), "metadata.version": range(7, 31)}, self.finalized, 12)


@dataclass
class Harness:
    """The broker and the levers of the test."""

    broker: Broker
    cluster: SaidCluster
    clock: StoppedClock
    files: MemoryFiles
    flush_wanted: list[Log]

    def lead(self, topic: str, index: int = 0, *, epoch: int = 1, **options: str) -> Partition:
        """A partition led here, its topic known."""
        name = TopicPartition(topic, index)
        topic_id = self.cluster.ids.setdefault(topic, UUID(int=1000 + len(self.cluster.ids)))
        self.cluster.known.add(name)
        config = self.broker.config.log.override({key.replace("_", "."): value for key, value in options.items()})
        log = Log.open(self.files, f"/data/{name}", name, config, now_ms=NOW_MS, topic_id=topic_id)
        partition = self.broker.replicas.host(name, topic_id, log)
        partition.lead(leader_epoch=epoch, partition_epoch=1, replicas=(LOCAL_ID,), isr=(LOCAL_ID,), eligible=(LOCAL_ID,), now_ms=NOW_MS)
        return partition

    def flush(self) -> None:
        while self.flush_wanted:
            log = self.flush_wanted.pop()
            log.flush()
            self.broker.replicas.log_flushed(log)

    def context(self, request: Any, version: int | None = None, *, client_id: str | None = "test") -> RequestContext:
        version = max(type(request).VERSIONS) if version is None else version
        header = RequestHeader(type(request).API_KEY, version, 7, client_id)
        return RequestContext(header, Client(listener="PLAINTEXT", host="10.0.0.9", port=5), self.clock.now_ms())

    def call(self, handler: Callable[..., Any], request: Any, version: int | None = None, *, client_id: str | None = "test") -> Any:
        return handler(self.broker, self.context(request, version, client_id=client_id), request)


def records(*values: bytes, **options: Any) -> memoryview:
    return memoryview(build_batch([NewRecord(NOW_MS, None, value) for value in values], **options))


def make(**properties: str) -> Harness:
    files, clock, cluster = MemoryFiles(), StoppedClock(), SaidCluster()
    files.mkdir("/data")
    config = NodeConfig.parse(PROPERTIES | {key.replace("_", "."): value for key, value in properties.items()})
    wanted: list[Log] = []
    ids = count(101)

    async def allocate() -> range:
        return range(4000, 5000)

    replicas = ReplicaManager(
        local_id=LOCAL_ID, lag_time_max_ms=30_000, on_flush_wanted=wanted.append, on_earlier_timeout=lambda due_ms: None
    )
    producer_ids = ProducerIds(allocate)

    async def create_topic(topic: str, partition_count: int, replication_factor: int, configs: dict[str, str]) -> None:
        cluster.known.update((topic, index) for index in range(partition_count))

    async def create_topics(request: CreateTopicsRequest) -> CreateTopicsResponse:
        for topic in request.topics:
            await create_topic(topic.name, topic.num_partitions, topic.replication_factor, {})
        return CreateTopicsResponse(topics=[])

    coordinators = Coordinators(
        group_config=GroupCoordinatorConfig(),
        transaction_config=TransactionConfig(),
        share_config=ShareCoordinatorConfig(),
        topics=NoTopics(),
        clock=clock,
        new_uuid=lambda: UUID(int=next(ids)),
        replicas=replicas,
        producer_ids=producer_ids,
        create_topic=create_topic,
        create_topics=create_topics,
    )
    logs = LogManager(files, config.log_dirs, config.log, unique=lambda: UUID(int=next(ids)))
    shared = config.of(SharePartitionConfig)
    shares = SharePartitions(
        config=shared, replicas=replicas, clock=clock, states=coordinators.share_persister, group_values=lambda group_id: {}
    )
    broker = Broker(
        config=config,
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        controller=cast(Controller, None),
        loader=Loader(clock),
        files=files,
        clock=clock,
        cluster=cluster,
        replicas=replicas,
        logs=logs,
        mover=LogMover(files, clock, logs, at_once=1, bytes_per_second=lambda: inf, on_moved=lambda log: None),
        fetch_sessions=FetchSessionCache(config.server.max_incremental_fetch_session_cache_slots, lambda: next(ids)),
        producer_ids=producer_ids,
        coordinators=coordinators,
        shares=shares,
        share_sessions=ShareSessions(shared.max_share_sessions, shares.forget_group),
    )
    return Harness(broker, cluster, clock, files, wanted)


@pytest.fixture
def harness() -> Harness:
    return make()


class Orders(NoTopics):
    """One topic of three partitions, called orders."""

    def by_name(self, name: str) -> TopicView | None:
        return TopicView(UUID(int=101), name, 3) if name == "orders" else None


@pytest.fixture
def harness_with_orders(harness: Harness) -> Harness:
    """Its group coordinators know the topic of orders."""
    harness.broker.coordinators.group_environment.topics = Orders()
    return harness


@pytest.fixture
def harness_with() -> Callable[..., Harness]:
    return make


@pytest.fixture
def batch_of() -> Callable[..., memoryview]:
    return records
