"""A broker without a cluster behind it: real partitions on logs in memory, and metadata that the test decides."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

import pytest

from moldau.coordinator.group.assignors.model import TopicView
from moldau.coordinator.group.environment import NoTopics
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.loader import Loader
from moldau.protocol.header import RequestHeader
from moldau.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.server.node.accepted import is_fixed
from moldau.server.node.assembly import assemble
from moldau.server.node.config import ROOMS, NodeConfig
from moldau.server.node.log_mover import LogMover
from moldau.server.peers.brokers import NoBrokers
from moldau.server.requests.broker import Broker, Features, Leader
from moldau.server.requests.dispatch import Client, RequestContext
from moldau.server.requests.endpoints import Endpoint
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
    """A cluster that has the topics that the test says."""

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


class SaidController:
    """A controller that creates topics when asked, and decides nothing else."""

    def __init__(self, cluster: SaidCluster) -> None:
        self._cluster = cluster

    async def ask(self, request: Any, *, version: int | None = None) -> Any:
        assert isinstance(request, CreateTopicsRequest), request
        for topic in request.topics:
            self._cluster.known.update((topic.name, index) for index in range(topic.num_partitions))
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name) for topic in request.topics])

    async def forward(self, request: Any, context: RequestContext) -> Any:
        return await self.ask(request)


@dataclass
class Harness:
    """The broker and the levers of the test."""

    broker: Broker
    cluster: SaidCluster
    clock: StoppedClock
    files: MemoryFiles
    flush_wanted: list[Log]

    def lead(self, topic: str, index: int = 0, *, epoch: int = 1, **options: str) -> Partition:
        """Leads a partition here and makes its topic known."""
        name = TopicPartition(topic, index)
        topic_id = self.cluster.ids.setdefault(topic, UUID(int=1000 + len(self.cluster.ids)))
        self.cluster.known.add(name)
        config = self.broker.config.log.override({key.replace("_", "."): value for key, value in options.items()})
        log = Log.open(self.files, f"/data/{name}", name, config, now_ms=NOW_MS, topic_id=topic_id)
        partition = self.broker.replicas.host(name, topic_id, log)
        partition.lead(leader_epoch=epoch, partition_epoch=1, replicas=(LOCAL_ID,), isr=(LOCAL_ID,), eligible={LOCAL_ID: 1}, now_ms=NOW_MS)
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
    random = Random(101)

    async def allocate() -> range:
        return range(4000, 5000)

    replicas = ReplicaManager(
        local_id=LOCAL_ID, lag_time_max_ms=30_000, on_flush_wanted=wanted.append, on_earlier_timeout=lambda due_ms: None
    )
    logs = LogManager(files, config.log_dirs, config.log, unique=lambda: UUID(int=random.getrandbits(128)))
    broker = assemble(
        config=config,
        cluster_id="5L6g3nShT-eMCtK--X86sw",
        schema=ConfigSchema(config.properties, ROOMS, node_id=LOCAL_ID, is_fixed=is_fixed),
        files=files,
        clock=clock,
        random=random,
        controller=SaidController(cluster),
        allocate_producer_ids=allocate,
        loader=Loader(clock),
        cluster=cluster,
        replicas=replicas,
        brokers=NoBrokers(),
        logs=logs,
        mover=LogMover(files, clock, logs, at_once=1, on_moved=lambda log: None),
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
    """A broker whose group coordinators know the topic of orders."""
    harness.broker.coordinators.group_environment.topics = Orders()
    return harness


@pytest.fixture
def harness_with() -> Callable[..., Harness]:
    return make


@pytest.fixture
def batch_of() -> Callable[..., memoryview]:
    return records
