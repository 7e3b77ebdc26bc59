"""● Lives with a topic that forgets: it is deleted and created again under its name, its records are deleted, and its segments grow old.

    python -m proof.fleet --forget --seeds 100

A producer writes to the topic whenever there is one.  What must hold, beside the promises of every life: the producer gets on once all is
healed, whatever became of the topic before; at the end no broker has logs of a former topic, or of a replica that
was moved away.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from moldau.errors import ErrorCode
from moldau.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.testing.clock import EPOCH_MS
from moldau.types import ZERO_UUID
from proof.fleet.clients import PARTITIONS, RETRY_AFTER_S, THINK_S, TOPIC, Client, Operator
from proof.fleet.fleet import Fleet
from proof.fleet.life import BETWEEN_LOOKS_S, SETTLED_WITHIN_S, Life, User, Violated

FLEETING: Final = "fleeting"
STRAY: Final = "-stray"
"""The end of the name of a directory that a start has set aside: its topic was deleted while the broker was away."""
CONFIGS: Final = {"segment.ms": "400", "retention.ms": "2500", "file.delete.delay.ms": "500"}


class Forgetter(Client):
    """A client that knows the fleeting topic."""

    async def look(self) -> MetadataResponseTopic | None:
        """The topic as some broker knows it; None without an answer, or without the topic."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=FLEETING)], allow_auto_topic_creation=False)
        response = await self.ask(self.anyone(), request)
        return None if response is None or response.topics[0].error_code else response.topics[0]


class FleetingProducer(Forgetter):
    """A producer that sends a batch to some partition, and another one whatever the answer is."""

    kind = "acknowledged in a fleeting topic"

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, "10.0.5.1")
        self.acknowledged: Final[list[int]] = []
        self.is_to_end = False

    def __repr__(self) -> str:
        return "the producer of the fleeting topic"

    async def run(self) -> None:
        while not self.is_to_end:
            topic = await self.look()
            is_written = topic is not None and await self._send(topic)
            await asyncio.sleep(self.chance.expovariate(1 / THINK_S) if is_written else RETRY_AFTER_S)

    async def _send(self, topic: MetadataResponseTopic) -> bool:
        partition = self.chance.choice(topic.partitions)
        if partition.leader_id < 0:
            return False
        batch = build_batch([NewRecord(value=self.chance.randbytes(50), timestamp=EPOCH_MS)] * self.chance.choice((1, 3)))
        data = TopicProduceData(
            name=FLEETING, topic_id=topic.topic_id, partition_data=[PartitionProduceData(index=partition.partition_index, records=batch)]
        )
        response = await self.ask(partition.leader_id, ProduceRequest(acks=-1, timeout_ms=1500, topic_data=[data]))
        if response is None:
            return False
        (answered,) = response.responses[0].partition_responses
        if answered.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
            self.fleet.on_wrong(f"a batch for the fleeting topic was answered with {answered.error_message}")
        if not answered.error_code:
            self.acknowledged.append(answered.base_offset)
        return not answered.error_code


class ForgettingOperator(Forgetter, Operator):
    """An operator who deletes and creates the fleeting topic, deletes its records, and moves its replicas, too: to other brokers, or to
    another log directory."""

    async def create_topics(self) -> None:
        await super().create_topics()
        while not await self.create():  # noqa: ASYNC110  the next broker may do it
            await asyncio.sleep(RETRY_AFTER_S)

    def _some_topic(self) -> str:
        return self.chance.choice((TOPIC, FLEETING, FLEETING))

    async def create(self) -> bool:
        """Create the fleeting topic.  Returns whether it is there."""
        configs = [CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items()]
        wanted = CreatableTopic(name=FLEETING, num_partitions=PARTITIONS, replication_factor=3, assignments=[], configs=configs)
        response = await self.ask(self.anyone(), CreateTopicsRequest(topics=[wanted], timeout_ms=5000))
        return response is not None and response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)

    async def delete_and_create(self) -> None:
        await self.ask(self.anyone(), DeleteTopicsRequest(topics=[DeleteTopicState(name=FLEETING, topic_id=ZERO_UUID)], timeout_ms=5000))
        await asyncio.sleep(self.chance.choice((0.0, 0.05, 1.0)))
        for _ in range(self.chance.choice((1, 5))):
            if await self.create():
                break
            await asyncio.sleep(RETRY_AFTER_S)

    async def delete_records(self) -> None:
        topic = await self.look()
        if topic is None:
            return
        partition = self.chance.choice(topic.partitions)
        if partition.leader_id < 0:
            return
        asked = DeleteRecordsPartition(
            partition_index=partition.partition_index, offset=self.chance.choice((-1, self.chance.randrange(60)))
        )
        await self.ask(
            partition.leader_id, DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=FLEETING, partitions=[asked])], timeout_ms=3000)
        )

    async def move_to_a_directory(self) -> None:
        """Tell a broker in which of its log directories a replica is to be."""
        moved = AlterReplicaLogDirTopic(name=self.chance.choice((TOPIC, FLEETING)), partitions=[self.chance.randrange(PARTITIONS)])
        wanted = AlterReplicaLogDir(path=self.chance.choice(self.fleet.folders), topics=[moved])
        await self.ask(self.anyone(), AlterReplicaLogDirsRequest(dirs=[wanted]))

    async def do_something(self) -> None:
        orders = (super().do_something, self.delete_and_create, self.delete_records, self.move_to_a_directory)
        await self.chance.choice(orders)()


class Forgetting(Life):
    """See the module."""

    def __init__(self, seed: int, **more: Any) -> None:
        super().__init__(seed, **more)
        self.producer: Final = FleetingProducer(self.fleet)

    def _new_operator(self) -> ForgettingOperator:
        return ForgettingOperator(self.fleet)

    def _begin_more_work(self) -> None:
        self.working.append(self.loop.start(self.producer.machine, self.producer.run()))

    def _users(self) -> Sequence[User]:
        return [*self.producers, self.producer]

    async def _heal(self) -> None:
        operator = self._new_operator()
        self.loop.start(operator.machine, operator.create_topics())  # nobody else creates the topic, should it be deleted now
        await super()._heal()

    async def _until_equal(self) -> None:
        await super()._until_equal()
        until_s = self.loop.time() + SETTLED_WITHIN_S
        while left := self._left_over():
            if self.loop.time() > until_s:
                self._wrong(f"in the end there are still {left}")
                raise Violated
            await asyncio.sleep(BETWEEN_LOOKS_S)

    def _left_over(self) -> list[str]:
        """The directories of the fleeting topic's partitions that their broker does not host, and has not set aside either."""
        found = []
        for member in self.fleet.brokers:
            assert member.broker is not None
            hosted = {f"{topic}-{number}" for topic, number in member.broker.replicas.hosted}
            for folder in self.fleet.folders:
                names = member.files.listdir(folder)
                mine = [name for name in names if name.startswith(f"{FLEETING}-") and not name.endswith(STRAY)]
                found += [f"{member}: {folder}/{name}" for name in mine if name not in hosted]
        return found
