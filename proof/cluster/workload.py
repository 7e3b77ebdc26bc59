"""● Clients of a simulated cluster.  They create topics, send, poll and seek through `net/channel`, and note the answers.

A client does one thing at a time.  Some clients produce idempotently and try again until they know the outcome; the others try once.  The
meaning of an answer is decided here: only a refusal that a broker makes before it appends counts as failed for certain; any other answer
that is no success is unknown.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel
from moldau.net.framing import ReceiveBuffers
from moldau.net.transport import Network
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from moldau.protocol.records.batch import batches, records_of, verify_crc
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.testing.checker import ALL, HighWatermark, History, Operation, Outcome, Poll, Read, Send
from moldau.testing.clock import EPOCH_MS
from moldau.types import ZERO_UUID, FileSlice

TIMEOUT_S: Final = 10.0
GIVE_UP_AFTER_S: Final = 60.0
RETRY_AFTER_S: Final = 0.2
FETCH_WAIT_MS: Final = 500
LAST_VERSION_WITH_NAMES: Final = 12
LATEST: Final = -1
BEFORE_THE_APPEND: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
    }
)
EXPECTED: Final = BEFORE_THE_APPEND | {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.INCONSISTENT_TOPIC_ID,
    ErrorCode.INVALID_REPLICATION_FACTOR,  # for a topic to create, while the only broker is fenced
}
"""The errors that a client may meet while a broker comes and goes.  Any other code is a violation."""


@dataclass(slots=True)
class Topics:
    """Topics that exist for certain, with their ids."""

    ids: dict[str, UUID] = field(default_factory=dict)
    partitions: int = 2

    def keys(self) -> list[str]:
        return [f"{topic}-{partition}" for topic in self.ids for partition in range(self.partitions)]


@dataclass(slots=True)
class Notes:
    """The notes of all clients of one round."""

    topics: Topics = field(default_factory=Topics)
    history: History = field(default_factory=History)
    violations: list[str] = field(default_factory=list)
    next_value: int = 0
    broker_life: int = 0
    """The number of the broker's starts.  Each start makes a new leader epoch, which a fetch response does not name."""
    done: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Successes by kind of operation.  A run in which an operation never succeeds proves nothing of it."""

    def value(self) -> int:
        self.next_value += 1
        return self.next_value

    def count_error(self, what: str, code: int, detail: str = "") -> None:
        error = ErrorCode.of(code)
        self.done[f"{what}: {error.name}"] += 1
        if error not in EXPECTED:
            self.violations.append(f"{what} was answered with {error.name} {detail}")


@dataclass(slots=True)
class _ProducerId:
    producer_id: int
    epoch: int
    sequences: dict[str, int] = field(default_factory=lambda: defaultdict(int))


class Client:
    """One client; in the history it is one process."""

    def __init__(self, number: int, network: Network, address: tuple[str, int], notes: Notes, choice: random.Random) -> None:
        self.number = number
        self.is_idempotent = choice.random() < 0.5
        self.uses_names = choice.random() < 0.3
        self.think_s = choice.choice((0.05, 0.3))
        self._network = network
        self._address = address
        self._notes = notes
        self._choice = choice
        self._loop = asyncio.get_running_loop()
        self._buffers = ReceiveBuffers()
        self._channel: Channel | None = None
        self._producer: _ProducerId | None = None
        self._positions: dict[str, int] = {}
        self._has_sought = False
        self._life_at_start = 0

    # life

    async def run(self, until_s: float) -> None:
        self._positions = {}  # the topics of the round before are gone
        while self._loop.time() < until_s:
            await self._one()
            await asyncio.sleep(self._choice.expovariate(1 / self.think_s))

    async def _one(self) -> None:
        keys = self._notes.topics.keys()
        dice = self._choice.random()
        if not keys or dice < 0.01:
            await self.create_topic()
        elif dice < 0.50:
            # Often the first partition, so that clients meet there.
            await self.send(keys[0] if self._choice.random() < 0.4 else self._choice.choice(keys))
        elif dice < 0.95 and self._positions:
            await self.poll()
        else:
            await self.assign(self._choice.sample(keys, self._choice.randint(1, min(4, len(keys)))))

    async def channel(self) -> Channel:
        """Errors: OSError, KafkaError."""
        if self._channel is None or self._channel.is_closed:
            host, port = self._address
            name = f"client-{self.number}"
            self._channel = await Channel.connect(self._network, host, port, client_id=name, timeout_s=TIMEOUT_S, buffers=self._buffers)
        return self._channel

    def close(self) -> None:
        if self._channel is not None:
            self._channel.abort()

    def now_ms(self) -> float:
        return self._loop.time() * 1000

    # topics

    async def create_topic(self) -> None:
        topics = self._notes.topics
        name = f"t{len(topics.ids)}-{self.number}-{self._notes.value()}"
        wanted = CreatableTopic(name=name, num_partitions=topics.partitions, replication_factor=1, assignments=[], configs=[])
        try:
            response = await (await self.channel()).send(CreateTopicsRequest(topics=[wanted], timeout_ms=5000))
        except (OSError, KafkaError):
            return
        (result,) = response.topics
        if result.error_code:
            self._notes.count_error("create", result.error_code, result.error_message or "")
        else:
            self._notes.done["create"] += 1
            topics.ids[name] = result.topic_id

    async def missing_topics(self) -> list[str]:
        """The created topics that are missing, or no longer the same.  Errors: OSError, KafkaError."""
        ids = self._notes.topics.ids
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ids], allow_auto_topic_creation=False)
        response = await (await self.channel()).send(asked)
        there = {topic.name: topic.topic_id for topic in response.topics if not topic.error_code}
        return [name for name, topic_id in ids.items() if there.get(name) != topic_id]

    async def delete_topics(self) -> None:
        """Delete all topics.  New ones are made when they are needed.  Errors: OSError, KafkaError."""
        topics = self._notes.topics
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in topics.ids], timeout_ms=5000)
        response = await (await self.channel()).send(request)
        for result in response.responses:
            if result.error_code:
                self._notes.count_error("delete", result.error_code, result.error_message or "")
            else:
                self._notes.done["delete"] += 1
        topics.ids.clear()

    # sending

    async def send(self, key: str) -> None:
        start_ms = self.now_ms()
        values = [self._notes.value() for _ in range(self._choice.choice((1, 1, 1, 2, 5)))]
        acks = ALL if self.is_idempotent or self._choice.random() < 0.8 else 1
        outcome, base_offset = await (self._send_until_known(key, values) if self.is_idempotent else self._send_once(key, values, acks))
        sends = tuple(Send(key, value, base_offset + index if base_offset >= 0 else None, acks) for index, value in enumerate(values))
        self._notes.history.operations.append(Operation(self.number, sends, outcome, start_ms, self.now_ms()))
        self._notes.done[f"send {outcome.name}"] += 1

    async def _send_once(self, key: str, values: Sequence[int], acks: int) -> tuple[Outcome, int]:
        response = await self._produce(key, build_batch([self._record(value) for value in values]), acks)
        return _meaning(response)

    async def _send_until_known(self, key: str, values: Sequence[int]) -> tuple[Outcome, int]:
        """Send the same batch with the same sequence again and again.  The batch must be there once, whatever happened."""
        producer = self._producer or await self._init_producer()
        if producer is None:
            return Outcome.FAIL, -1
        sequence = producer.sequences[key]
        records = [self._record(value) for value in values]
        give_up_s = self._loop.time() + GIVE_UP_AFTER_S
        while True:
            batch = build_batch(records, producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=sequence)
            outcome, base_offset = _meaning(await self._produce(key, batch, ALL))
            if outcome is Outcome.OK:
                producer.sequences[key] = sequence + len(values)
                return outcome, base_offset
            if self._loop.time() > give_up_s:
                self._producer = None
                return Outcome.INFO, -1
            await asyncio.sleep(RETRY_AFTER_S)

    async def _init_producer(self) -> _ProducerId | None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        try:
            response = await (await self.channel()).send(request)
        except (OSError, KafkaError):
            return None
        if response.error_code:
            self._notes.count_error("init producer id", response.error_code)
            return None
        self._producer = _ProducerId(response.producer_id, response.producer_epoch)
        return self._producer

    async def _produce(self, key: str, batch: bytearray, acks: int) -> PartitionProduceResponse | None:
        """The broker's answer; None if nobody knows what became of the batch."""
        topic, _, partition = key.rpartition("-")
        data = TopicProduceData(
            name=topic, topic_id=self._notes.topics.ids[topic], partition_data=[PartitionProduceData(index=int(partition), records=batch)]
        )
        request = ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[data])
        try:
            response = await (await self.channel()).send(request, LAST_VERSION_WITH_NAMES if self.uses_names else None)
        except OSError:
            return None
        (answered,) = response.responses[0].partition_responses
        if answered.error_code:
            self._notes.count_error("send", answered.error_code, answered.error_message or "")
        return answered

    def _record(self, value: int) -> NewRecord:
        return NewRecord(value=value.to_bytes(8, "big") + bytes(self._choice.randrange(200)), timestamp=EPOCH_MS + int(self.now_ms()))

    # reading

    async def assign(self, keys: Sequence[str], *, to_beginning: bool | None = None) -> None:
        """Begin to read these partitions, from the start or from the end."""
        if to_beginning is None:
            to_beginning = self._choice.random() < 0.7
        positions = dict.fromkeys(keys, 0)
        if not to_beginning:
            try:
                positions = {key: await self.end_offset(key) for key in keys}
            except (OSError, KafkaError):
                return
        self._positions = positions
        self._has_sought = True

    async def end_offset(self, key: str) -> int:
        """Errors: OSError, KafkaError."""
        topic, _, partition = key.rpartition("-")
        asked = ListOffsetsPartition(partition_index=int(partition), timestamp=LATEST)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[asked])])
        response = await (await self.channel()).send(request)
        (answered,) = response.topics[0].partitions
        if answered.error_code:
            self._notes.count_error("list offsets", answered.error_code)
            raise KafkaError(ErrorCode.of(answered.error_code))
        return answered.offset

    async def poll(self) -> bool:
        """Fetch once from all assigned partitions.  Returns whether anything came."""
        start_ms = self.now_ms()
        self._life_at_start = self._notes.broker_life
        try:
            channel = await self.channel()
            response = await channel.send(self._fetch_request(), LAST_VERSION_WITH_NAMES if self.uses_names else None)
        except (OSError, KafkaError):
            return False
        if response.error_code:
            self._notes.count_error("fetch", response.error_code)
            return False
        names = {topic_id: name for name, topic_id in self._notes.topics.ids.items()}
        reads: list[Read] = []
        for topic in response.responses:
            for partition in topic.partitions:
                reads += self._take(f"{topic.topic or names[topic.topic_id]}-{partition.partition_index}", partition, start_ms)
        operation = Operation(self.number, (Poll(tuple(reads)),), Outcome.OK, start_ms, self.now_ms(), repositions=self._has_sought)
        self._notes.history.operations.append(operation)
        self._has_sought = False
        self._notes.done["poll"] += 1
        return bool(reads)

    def _fetch_request(self) -> FetchRequest:
        by_topic: dict[str, list[FetchPartition]] = defaultdict(list)
        for key, position in self._positions.items():
            topic, _, partition = key.rpartition("-")
            max_bytes = self._choice.choice((1, 500, 5000, 1 << 20))
            by_topic[topic].append(FetchPartition(partition=int(partition), fetch_offset=position, partition_max_bytes=max_bytes))
        return FetchRequest(
            max_wait_ms=FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[
                FetchTopic(topic=topic, topic_id=self._notes.topics.ids[topic], partitions=partitions)
                for topic, partitions in by_topic.items()
            ],
        )

    def _take(self, key: str, partition: PartitionData, start_ms: float) -> list[Read]:
        if partition.error_code:
            self._notes.count_error("fetch", partition.error_code)
            if partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                # Begin again as auto.offset.reset=earliest does: only records that a power loss took can have led here.
                self._positions[key] = 0
                self._has_sought = True
            return []
        if partition.last_stable_offset > partition.high_watermark:
            self._notes.violations.append(f"{key}: last stable offset {partition.last_stable_offset} above {partition.high_watermark}")
        life = self._notes.broker_life
        if life == self._life_at_start:
            self._notes.history.watermarks.append(HighWatermark(key, life, partition.high_watermark, start_ms, self.now_ms()))
        reads = self._reads(key, partition)
        for read in reads:
            if read.offset >= partition.high_watermark:
                self._notes.violations.append(f"{key}: offset {read.offset} was read, the high watermark is {partition.high_watermark}")
        if reads:
            self._positions[key] = reads[-1].offset + 1
        return reads

    def _reads(self, key: str, partition: PartitionData) -> list[Read]:
        records = partition.records
        assert not isinstance(records, FileSlice)
        reads: list[Read] = []
        if records:
            view = memoryview(records)
            for position, header in batches(view):
                if header.size <= len(view) - position and not verify_crc(view, position, header):
                    self._notes.violations.append(
                        f"{key}: the batch at offset {header.base_offset} was served with a CRC that does not fit"
                    )
                    break
                for record in records_of(view[position : position + header.size]):
                    if record.offset >= self._positions[key] and record.value is not None:
                        reads.append(Read(key, record.offset, int.from_bytes(record.value[:8], "big")))
        return reads

    async def read_everything(self, until_s: float) -> bool:
        """Read every partition from its start to its end.  Returns whether the end was reached in time."""
        self.uses_names = not self.uses_names
        await self.assign(self._notes.topics.keys(), to_beginning=True)
        ends: dict[str, int] = {}
        while self._loop.time() < until_s:
            try:
                ends = ends or {key: await self.end_offset(key) for key in self._positions}
            except (OSError, KafkaError):
                await asyncio.sleep(RETRY_AFTER_S)
                continue
            if all(self._positions[key] >= end for key, end in ends.items()):
                return True
            if not await self.poll():
                await asyncio.sleep(RETRY_AFTER_S)
        return False


def _meaning(response: PartitionProduceResponse | None) -> tuple[Outcome, int]:
    if response is None:
        return Outcome.INFO, -1
    if not response.error_code:
        return Outcome.OK, response.base_offset
    return (Outcome.FAIL if response.error_code in BEFORE_THE_APPEND else Outcome.INFO), -1
