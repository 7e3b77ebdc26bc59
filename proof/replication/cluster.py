"""● Simulated brokers that replicate: the parts that `moldau serve` runs between socket and file, without metadata quorum and clients.

    ReplicaCluster   the network, and a controller with leaders, epochs and in-sync sets; brokers hear of changes sooner or later
    ReplicaBroker    files in memory, logs, replicas, Fetch and similar APIs over a listener, fetchers and sender; one life after another

Everything that chance decides comes from one `random.Random`.
"""

import asyncio
import dataclasses
import random
from collections.abc import Iterable
from typing import Final, cast
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.loader import Loader
from moldau.net.listener import Listener
from moldau.net.transport import Address
from moldau.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.wire import AnyResponse, Request
from moldau.replication.config import ReplicationConfig
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.replication.replication import Replication
from moldau.replication.waits import ProduceWait
from moldau.server.coordinators.producer_ids import Allocate
from moldau.server.handlers import MODULES
from moldau.server.node.assembly import assemble
from moldau.server.node.config import NodeConfig
from moldau.server.node.log_mover import LogMover
from moldau.server.peers.brokers import NoBrokers
from moldau.server.requests.broker import Features, Leader
from moldau.server.requests.dispatch import Dispatcher, RequestContext
from moldau.server.requests.registry import apis_of
from moldau.storage.config import LogConfig
from moldau.storage.flush.flusher import Flusher
from moldau.storage.log import AppendResult, Log
from moldau.storage.manager import LogManager
from moldau.testing.clock import SimClock
from moldau.testing.files import MemoryFiles
from moldau.testing.loop import Machine, SimLoop
from moldau.testing.network import SimNetwork, Weather
from moldau.types import NO_LEADER, TopicPartition

PORT: Final = 9092
TOPIC: Final = "t"
TOPIC_ID: Final = UUID(int=9)
NODE: Final = NodeConfig.parse(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "log.dirs": "/data",
        "controller.quorum.bootstrap.servers": "localhost:9093",
    }
)


@dataclasses.dataclass(slots=True)
class Said:
    """The metadata of one partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader_id: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0


class ReplicaBroker:
    """See the module."""

    def __init__(self, cluster: "ReplicaCluster", broker_id: int) -> None:
        self.id: Final = broker_id
        self.cluster: Final = cluster
        self.files = MemoryFiles()
        self.machine = Machine(f"broker-{broker_id}")
        self.is_up = False
        self.is_ready = False
        self.epoch = 0
        """The broker epoch; each life has another one."""
        self.replicas: ReplicaManager
        self.logs: LogManager
        self.flusher: Flusher
        self.replication: Replication
        self.listener: Listener

    def __repr__(self) -> str:
        return f"broker {self.id}{'' if self.is_up else ', down'}"

    def partition(self, number: int = 0) -> Partition:
        return self.replicas.hosted[TOPIC, number]

    def log(self, number: int = 0) -> Log:
        return self.partition(number).log

    # Its lives

    def start(self) -> "asyncio.Task[None]":
        """Start on the files that are on its disk."""
        self.cluster.epochs += 1
        self.epoch = self.cluster.epochs
        self.is_up, self.is_ready = True, False
        self.machine = Machine(f"broker-{self.id}")
        self.cluster.network.revive(self.machine)
        return self.cluster.loop.start(self.machine, self._live())

    async def _live(self) -> None:
        cluster = self.cluster
        choice = random.Random(cluster.choice.getrandbits(64))
        if not self.files.exists("/data"):
            self.files.mkdir("/data")
            self.files.sync_dir("/")
        self.logs = LogManager(self.files, ["/data"], cluster.log_config, unique=lambda: UUID(int=choice.getrandbits(128)))
        self.logs.open(cluster.clock.now_ms())
        self.logs.load_all(lambda topic: cluster.log_config, cluster.clock.now_ms())
        self.replicas = replicas = ReplicaManager(
            local_id=self.id,
            lag_time_max_ms=cluster.config.lag_time_max_ms,
            on_flush_wanted=self._want_flush,
            on_earlier_timeout=self._arm_timeouts,
        )
        self.flusher = Flusher(self.files, on_flushed=replicas.log_flushed)
        self.replication = Replication(
            replicas,
            config=cluster.config,
            network=cluster.network,
            clock=cluster.clock,
            logs=self.logs,
            alter_partition=self._alter_partition,
            endpoint_of=lambda broker_id: Address(f"broker-{broker_id}", PORT),
            broker_epoch=lambda: self.epoch,
            want_flush=self.flusher.want,
            note_starts=self._note_starts,
        )
        apis = apis_of(MODULES, "broker")
        broker = assemble(
            config=NODE,
            cluster_id="",
            schema=ConfigSchema(NODE.properties, node_id=self.id),
            files=self.files,
            clock=cluster.clock,
            random=choice,
            controller=_NoController(),
            allocate_producer_ids=cast("Allocate", None),
            loader=Loader(cluster.clock),
            cluster=_SeenFrom(self),
            replicas=replicas,
            brokers=NoBrokers(),
            logs=self.logs,
            mover=cast("LogMover", None),
            apis={"": apis},
        )
        self.listener = Listener(cluster.network, Dispatcher(broker, apis).dispatch)
        await self.listener.start(self.machine.host, PORT)
        self.replication.start()
        self.is_ready = True
        for number in range(len(cluster.partitions)):
            self.apply(number)

    def _want_flush(self, log: Log) -> None:
        self.flusher.want(log)

    async def _alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        choice = self.cluster.choice
        await asyncio.sleep(choice.random() * 0.01)
        response = self.cluster.alter_partition(request)
        await asyncio.sleep(choice.random() * 0.01)
        return response

    async def _note_starts(self) -> None:
        await self.files.run(self.logs.write_checkpoints)

    def _arm_timeouts(self, due_ms: int) -> None:
        loop = asyncio.get_running_loop()

        def expire() -> None:
            timeouts = self.replicas.timeouts
            timeouts.expire(self.cluster.clock.monotonic_ms())
            next_due_ms = timeouts.next_due_ms()
            if next_due_ms is not None:
                loop.call_at(max(next_due_ms / 1000, loop.time() + 0.001), expire)

        loop.call_at(due_ms / 1000, expire)

    def die(self, *, with_power: bool) -> None:
        """Stop everything at once.  After a power failure the disk keeps any part of the data that was not synced."""
        self.is_up = self.is_ready = False
        self.cluster.loop.kill(self.machine)
        self.cluster.network.crash(self.machine, silently=with_power)
        if with_power:
            self.files.crash(self.cluster.choice)
        self.files.held_locks.clear()

    def lose_disk(self) -> None:
        assert not self.is_up
        self.files = MemoryFiles()

    # What it does

    def apply(self, number: int) -> None:
        """Apply the controller's decision about a partition."""
        if not self.is_ready:
            return
        cluster, said = self.cluster, self.cluster.partitions[number]
        where = TopicPartition(TOPIC, number)
        if self.id not in said.replicas:
            if self.replicas.remove(where) is not None:
                self.logs.delete([where], cluster.clock.now_ms())
            return
        partition = self.replicas.hosted.get((TOPIC, number))
        if partition is None:
            log = self.logs.get(where) or self.logs.get_or_create(
                where, cluster.log_config, now_ms=cluster.clock.now_ms(), topic_id=TOPIC_ID
            )
            log.verifies_transactions = False
            partition = self.replicas.host(where, TOPIC_ID, log)
        self.replicas.apply(
            partition,
            leader_id=said.leader_id,
            leader_epoch=said.leader_epoch,
            partition_epoch=said.partition_epoch,
            replicas=said.replicas,
            isr=said.isr,
            eligible=cluster.eligible(),
            now_ms=cluster.clock.monotonic_ms(),
        )
        partition.take_eligible(cluster.eligible(), cluster.clock.monotonic_ms())

    def append(self, *values: bytes, number: int = 0, acks: int = -1, on_acknowledged: "asyncio.Future[int] | None" = None) -> int:
        """Append one batch.  Returns the offset of its first record.  `on_acknowledged` gets the error code."""
        partition = self.partition(number)
        now_ms = self.cluster.clock.now_ms()
        batch = build_batch([NewRecord(value=value, timestamp=now_ms) for value in values])
        result = partition.append_from_client(batch, acks=acks, now_ms=now_ms)
        assert isinstance(result, AppendResult), result
        if on_acknowledged is not None:
            slot = _Slot()

            def done() -> None:
                on_acknowledged.set_result(slot.error_code)

            if partition.await_acknowledgement(result.last_offset + 1, ProduceWait(done), slot):
                on_acknowledged.set_result(ErrorCode.NONE)
        return result.first_offset

    async def delete_records(self, offset: int, number: int = 0) -> tuple[int, int]:
        """Delete the records before `offset`.  Returns the error code and the low watermark once the request is answered."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        partition, slot = self.partition(number), _Slot()
        partition.delete_records_before(offset)
        partition.await_deletion(offset, ProduceWait(lambda: done.set_result(None)), slot)
        await done
        return slot.error_code, slot.low_watermark


@dataclasses.dataclass(slots=True)
class _Slot:
    error_code: int = 0
    low_watermark: int = -1


class _NoController:
    """A controller that refuses everything, because no client asks it here."""

    async def ask(self, request: Request[AnyResponse], *, version: int | None = None) -> AnyResponse:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    async def forward(self, request: Request[AnyResponse], context: RequestContext) -> AnyResponse:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)


class _SeenFrom:
    """The cluster's metadata as a `ClusterView`."""

    def __init__(self, broker: ReplicaBroker) -> None:
        self._cluster: Final = broker.cluster

    def topic_name(self, topic_id: UUID) -> str | None:
        return TOPIC if topic_id == TOPIC_ID else None

    def has_partition(self, topic: str, index: int) -> bool:
        return topic == TOPIC and 0 <= index < len(self._cluster.partitions)

    def leader_of(self, topic: str, index: int, listener: str) -> Leader:
        said = self._cluster.partitions[index]
        return Leader(said.leader_id, said.leader_epoch, None, None)

    def features(self) -> Features:
        return Features({}, {}, 0)


class ReplicaCluster:
    """See the module."""

    def __init__(
        self,
        loop: SimLoop,
        choice: random.Random,
        *,
        brokers: int = 3,
        partitions: int = 1,
        properties: dict[str, str] | None = None,
        weather: Weather | None = None,
    ) -> None:
        options = {"min.insync.replicas": "2", **(properties or {})}
        self.loop: Final = loop
        self.choice: Final = choice
        self.clock: Final = SimClock(loop)
        self.log_config: Final = LogConfig.load(options)
        self.config: Final = ReplicationConfig.load(options)
        self.network: Final = SimNetwork(loop, choice.getrandbits(32), weather)
        self.epochs = 100
        self.brokers: Final = {number: ReplicaBroker(self, number) for number in range(1, brokers + 1)}
        everybody = tuple(self.brokers)
        self.partitions: Final = [Said(everybody, everybody) for _ in range(partitions)]

    async def start(self) -> None:
        """Start all brokers, and elect a leader for every partition."""
        for broker in self.brokers.values():
            await broker.start()
        for number, said in enumerate(self.partitions):
            self.elect(number, said.replicas[number % len(said.replicas)])

    def eligible(self) -> dict[int, int]:
        return {broker.id: broker.epoch for broker in self.brokers.values() if broker.is_up}

    def leader(self, number: int = 0) -> ReplicaBroker:
        return self.brokers[self.partitions[number].leader_id]

    # What the controller does

    def elect(self, number: int, leader_id: int) -> None:
        """Make a broker the leader.  A leader that was not in sync is alone in the new in-sync set."""
        said = self.partitions[number]
        said.leader_id = leader_id
        said.leader_epoch += 1
        if leader_id != NO_LEADER and leader_id not in said.isr:
            said.isr = (leader_id,)
        self.commit(number)

    def set_isr(self, number: int, isr: Iterable[int]) -> None:
        self.partitions[number].isr = tuple(isr)
        self.commit(number)

    def commit(self, number: int) -> None:
        self.partitions[number].partition_epoch += 1
        for broker in self.brokers.values():
            if broker.is_up:
                delay_s = self.choice.random() * (0.3 if self.choice.random() < 0.1 else 0.01)
                self.loop.start(broker.machine, _after(delay_s, broker, number))

    def broker_died(self, broker_id: int) -> None:
        """Fence a broker.  It leaves the in-sync sets in which it is not the last one, and leads nothing any more."""
        for number, said in enumerate(self.partitions):
            others = tuple(each for each in said.isr if each != broker_id)
            if broker_id in said.isr and others:
                said.isr = others
            if said.leader_id == broker_id:
                alive = [each for each in said.isr if self.brokers[each].is_up]
                self.elect(number, self.choice.choice(alive) if alive else NO_LEADER)
            else:
                self.commit(number)

    def broker_is_back(self, broker_id: int) -> None:
        for number, said in enumerate(self.partitions):
            if said.leader_id == NO_LEADER and broker_id in said.isr:
                self.elect(number, broker_id)
            else:
                self.commit(number)

    def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Errors: KafkaError."""
        if request.broker_epoch != self.brokers[request.broker_id].epoch:
            raise KafkaError(ErrorCode.STALE_BROKER_EPOCH)
        topics = []
        for topic in request.topics:
            answers = [self._alter(request.broker_id, asked) for asked in topic.partitions]
            topics.append(AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=answers))
        return AlterPartitionResponse(topics=topics)

    def _alter(self, broker_id: int, asked: AlterPartitionRequestPartitionData) -> AlterPartitionResponsePartitionData:
        said = self.partitions[asked.partition_index]
        error = ErrorCode.NONE
        if asked.leader_epoch != said.leader_epoch or broker_id != said.leader_id:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif asked.partition_epoch != said.partition_epoch:
            error = ErrorCode.INVALID_UPDATE_VERSION
        elif not all(self._may_be_in_sync(each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs):
            error = ErrorCode.INELIGIBLE_REPLICA
        else:
            self.set_isr(asked.partition_index, [each.broker_id for each in asked.new_isr_with_epochs])
        return AlterPartitionResponsePartitionData(
            partition_index=asked.partition_index,
            error_code=error,
            leader_id=said.leader_id,
            leader_epoch=said.leader_epoch,
            isr=list(said.isr),
            partition_epoch=said.partition_epoch,
        )

    def _may_be_in_sync(self, broker_id: int, broker_epoch: int) -> bool:
        broker = self.brokers[broker_id]
        return broker.is_up and broker_epoch in (-1, broker.epoch)


async def _after(delay_s: float, broker: ReplicaBroker, number: int) -> None:
    await asyncio.sleep(delay_s)
    broker.apply(number)
