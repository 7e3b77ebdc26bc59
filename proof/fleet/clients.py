"""● The users of the cluster: idempotent producers that never give a batch up, and an operator who moves replicas, leaders and voters."""

import asyncio
import random
from typing import Any, Final, NamedTuple
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel
from moldau.net.framing import ReceiveBuffers
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.wire import AnyResponse, Request
from moldau.testing.clock import EPOCH_MS
from moldau.testing.loop import Machine
from proof.fleet.fleet import CLUSTER_ID, PORT, Fleet, Member, host_of

TOPIC: Final = "t"
PARTITIONS: Final = 2
TIMEOUT_S: Final = 2.0
RETRY_AFTER_S: Final = 0.1
THINK_S: Final = 0.15
EXPECTED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""The errors that a producer may meet, and after which it can try again.  Any other code is a violation."""


class Acknowledged(NamedTuple):
    partition: int
    offset: int
    value: int


class Client:
    """One machine with connections to all brokers."""

    def __init__(self, fleet: Fleet, host: str) -> None:
        self.fleet: Final = fleet
        self.chance: Final = random.Random(fleet.chance.getrandbits(64))
        self.machine: Final = Machine(host)
        self._buffers: Final = ReceiveBuffers()
        self._channels: dict[int, Channel] = {}
        self._silent: int | None = None
        """The broker that did not answer last.  The next question goes to another one, as with Kafka's clients."""
        fleet.network.add(self.machine)

    async def ask(self, broker_id: int, request: Request[AnyResponse]) -> AnyResponse | None:
        """The answer; None if nobody knows what became of the request."""
        try:
            channel = self._channels.get(broker_id)
            if channel is None or channel.is_closed:
                network, host = self.fleet.network, host_of(broker_id)
                channel = await Channel.connect(
                    network, host, PORT, client_id=self.machine.host, timeout_s=TIMEOUT_S, buffers=self._buffers
                )
                self._channels[broker_id] = channel
            answer = await channel.send(request)
        except (OSError, KafkaError):
            self._silent = broker_id
            return None
        self._silent = None
        return answer

    def anyone(self) -> int:
        return self.chance.choice([one for one in self.fleet.shape.broker_ids if one != self._silent])


class Producer(Client):
    """A client that sends one batch to one partition at a time, again and again with the same sequence until the batch is acknowledged."""

    kind = "acknowledged"

    def __init__(self, fleet: Fleet, number: int) -> None:
        super().__init__(fleet, f"10.0.1.{number + 1}")
        self.number: Final = number
        self.partition: Final = number % PARTITIONS
        self.acknowledged: list[Acknowledged] = []
        self.is_to_end = False
        self._leader = self._epoch = -1
        self._topic_id = UUID(int=0)

    def __repr__(self) -> str:
        return f"producer {self.number}"

    async def run(self) -> None:
        producer = await self._producer_id()
        sequence = 0
        while not self.is_to_end:
            count = self.chance.choice((1, 1, 3))
            values = [self.number * 1_000_000 + sequence + each for each in range(count)]
            records = [NewRecord(value=b"%d" % value + bytes(self.chance.randrange(100)), timestamp=EPOCH_MS) for value in values]
            while (offset := await self._send(producer, sequence, records)) is None:  # noqa: ASYNC110  it asks the next broker
                await asyncio.sleep(RETRY_AFTER_S)
            self.acknowledged += [Acknowledged(self.partition, offset + each, value) for each, value in enumerate(values)]
            sequence += count
            await asyncio.sleep(self.chance.expovariate(1 / THINK_S))

    async def _producer_id(self) -> tuple[int, int]:
        while True:
            response = await self.ask(self.anyone(), InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
            if response is not None and not response.error_code:
                return response.producer_id, response.producer_epoch
            await asyncio.sleep(RETRY_AFTER_S)

    async def _send(self, producer: tuple[int, int], sequence: int, records: list[NewRecord]) -> int | None:
        """The offset of the batch, or None if the batch is not acknowledged yet."""
        if self._leader < 0:
            await self._look_for_leader()
            if self._leader < 0:
                return None
        batch = build_batch(records, producer_id=producer[0], producer_epoch=producer[1], base_sequence=sequence)
        data = PartitionProduceData(index=self.partition, records=batch)
        topic = TopicProduceData(name=TOPIC, topic_id=self._topic_id, partition_data=[data])
        response = await self.ask(self._leader, ProduceRequest(acks=-1, timeout_ms=1500, topic_data=[topic]))
        if response is None:
            self._leader = -1
            return None
        (answered,) = response.responses[0].partition_responses
        code = ErrorCode.of(answered.error_code)
        if code is ErrorCode.NONE:
            return answered.base_offset
        if code not in EXPECTED:
            self.fleet.on_wrong(f"a batch of sequence {sequence} for partition {self.partition} was answered with {code.name}")
        self._leader = -1
        return None

    async def _look_for_leader(self) -> None:
        """Find the leader of the newest known epoch, as Kafka's clients do: a broker that is cut off may name a former leader."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
        response = await self.ask(self.anyone(), request)
        for topic in () if response is None else response.topics:
            self._topic_id = topic.topic_id
            for partition in topic.partitions:
                if partition.partition_index == self.partition and partition.leader_epoch >= self._epoch:
                    self._leader, self._epoch = partition.leader_id, partition.leader_epoch


class Apart:
    """A machine with one of our own clients, which begins anew after every error."""

    def __init__(self, fleet: Fleet, host: str) -> None:
        self.fleet: Final = fleet
        self.machine: Final = Machine(host)
        self.chance: Final = random.Random(fleet.chance.getrandbits(64))
        fleet.network.add(self.machine)

    def options(self) -> dict[str, Any]:
        return {**self.connection(), "clock": self.fleet.members[1].clock, "random": self.chance}

    def connection(self) -> dict[str, Any]:
        servers = ",".join(f"{host_of(one)}:{PORT}" for one in self.fleet.shape.broker_ids)
        return {"servers": servers, "network": self.fleet.network, "request_timeout_ms": 2000}


class Operator(Client):
    """A client that gives the orders that an administrator may give at any time."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet, "10.0.2.1")

    may_remove_voters = True
    unanswered_removals = 0
    """The removals of voters that may still come: they were asked for, and nobody has answered."""

    async def create_topics(self) -> None:
        await self.create_topic(TOPIC)

    async def create_topic(self, name: str) -> None:
        wanted = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=3, assignments=[], configs=[])
        while True:
            response = await self.ask(self.anyone(), CreateTopicsRequest(topics=[wanted], timeout_ms=5000))
            if response is not None and response.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return
            await asyncio.sleep(RETRY_AFTER_S)

    async def reassign(self) -> None:
        """Move the replicas of a partition to three brokers, in any order, or cancel a move that goes on."""
        replicas = self.chance.sample(self.fleet.shape.broker_ids, 3)
        topic = self._some_topic()
        asked = ReassignablePartition(
            partition_index=self.chance.randrange(PARTITIONS), replicas=None if self.chance.random() < 0.2 else replicas
        )
        request = AlterPartitionReassignmentsRequest(timeout_ms=5000, topics=[ReassignableTopic(name=topic, partitions=[asked])])
        await self.ask(self.anyone(), request)

    def _some_topic(self) -> str:
        return TOPIC

    async def elect_preferred(self) -> None:
        wanted = [TopicPartitions(topic=TOPIC, partitions=list(range(PARTITIONS)))]
        await self.ask(self.anyone(), ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=5000))

    async def remove_some_voter(self) -> None:
        if self.may_remove_voters:
            await self.remove_voter(self.fleet.members[self.chance.choice(self.fleet.shape.controller_ids)])

    async def remove_voter(self, member: Member) -> None:
        """Remove a voter.  The voter joins again by itself."""
        request = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=member.id, voter_directory_id=member.directory_id)
        self.unanswered_removals += 1
        if await self.ask(self.anyone(), request) is not None:
            self.unanswered_removals -= 1

    async def do_something(self) -> Any:
        await self.chance.choice((self.reassign, self.reassign, self.elect_preferred, self.remove_some_voter))()
