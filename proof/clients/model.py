"""● A whole cluster as clients see it, in a few hundred lines: brokers on a `SimNetwork` that share their logs, so replication is perfect.

    world = World(seed=7)                                   # a loop, a network, three brokers, one client machine
    world.cluster.create("orders", partition_count=2)
    world.run(test(world))

The model is strict where brokers are: leaders, epochs, sequences, versions.  `cluster.rules` bring the faults: a rule sees every request
before it is served.  It may answer in the broker's place, hold the answer back, or break the connection before or after the request took
effect.
"""

import asyncio
import logging
import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode
from moldau.net.connection import Connection, InvalidFrame, Reply, ReplyOrLater
from moldau.net.listener import Listener
from moldau.protocol.compiler import request_decoder
from moldau.protocol.header import RequestHeader, decode_request_header, encode_response
from moldau.protocol.messages import REQUESTS
from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.fetch import FetchableTopicResponse, FetchPartition, FetchRequest, FetchResponse, PartitionData
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from moldau.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from moldau.protocol.records.batch import batches, next_sequence, patch_offsets, read_header, records_of
from moldau.protocol.wire import Request, Response
from moldau.testing.clock import SimClock
from moldau.testing.loop import Machine, SimLoop
from moldau.testing.network import SimNetwork, Weather
from moldau.types import NO_LEADER, ZERO_UUID

T = TypeVar("T")

NO_LEADER_EPOCH: Final = -1
"""A fetch with this epoch is not compared with the leader's."""

PORT: Final = 9092
CLIENT: Final = "client"
REMEMBERED_BATCHES: Final = 5
LOOKS_AGAIN_S: Final = 0.1
"""A fetch that waits for records notices a new leader after so long."""


@dataclass(slots=True)
class ModelProducer:
    epoch: int
    written: list[tuple[int, int, int]] = field(default_factory=list)
    """(first sequence, last sequence, base offset) of the newest batches."""


@dataclass(slots=True)
class ModelPartition:
    leader: int
    leader_epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    next_offsets: list[int] = field(default_factory=list)
    """The offset behind each batch."""
    log_start_offset: int = 0
    end_offset: int = 0
    producers: dict[int, ModelProducer] = field(default_factory=dict)

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        """Append as a leader does.  Returns (code, base offset)."""
        header = read_header(data)
        producer = None
        if header.producer_id >= 0:
            producer = self.producers.get(header.producer_id)
            if producer is None:  # any sequence is a first one here, as in ProducerAppendInfo
                written = [(-1, header.base_sequence - 1, -1)] if header.base_sequence else []
                producer = self.producers[header.producer_id] = ModelProducer(header.producer_epoch, written)
            elif header.producer_epoch > producer.epoch:
                if header.base_sequence != 0:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
                producer = self.producers[header.producer_id] = ModelProducer(header.producer_epoch)
            if header.producer_epoch < producer.epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH, -1
            for first, last, base in producer.written:
                if (first, last) == (header.base_sequence, header.last_sequence):
                    return ErrorCode.NONE, base
            expected = next_sequence(producer.written[-1][1], 1) if producer.written else 0
            if header.base_sequence != expected:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        base = self.end_offset
        batch = bytearray(data)
        patch_offsets(batch, 0, base, self.leader_epoch)
        self.batches.append(bytes(batch))
        self.end_offset = base + header.last_offset_delta + 1
        self.next_offsets.append(self.end_offset)
        if producer is not None:
            producer.written = [*producer.written, (header.base_sequence, header.last_sequence, base)][-REMEMBERED_BATCHES:]
        return ErrorCode.NONE, base

    def read(self, offset: int, max_bytes: int) -> bytes:
        found = bytearray()
        for batch in self.batches[bisect_right(self.next_offsets, offset) :]:
            if found and len(found) + len(batch) > max_bytes:
                break
            found += batch
        return bytes(found)

    @property
    def values(self) -> list[bytes | None]:
        """The values of all records for consumers, in order."""
        return [
            None if record.value is None else bytes(record.value)
            for batch in self.batches
            if not read_header(batch).is_control
            for record in records_of(batch)
        ]


@dataclass(slots=True)
class ModelTopic:
    topic_id: UUID
    partitions: list[ModelPartition]


@dataclass(slots=True)
class Seen:
    """One request that arrived."""

    node_id: int
    header: RequestHeader
    request: Request[Any]


@dataclass(slots=True)
class Verdict:
    """The effect of a rule on a request.

    `answer` is given instead of serving the request.  `drop_before` breaks the connection before the request is served, `drop_after` breaks
    it instead of answering.  The answer waits for `delay_s`.
    """

    answer: Response | None = None
    drop_before: bool = False
    drop_after: bool = False
    delay_s: float = 0.0


Rule = Callable[[Seen], Verdict | None]


class ModelCluster:
    """See the module."""

    def __init__(self, world: "World", broker_count: int, versions: Mapping[int, tuple[int, int]] | None = None) -> None:
        self.world = world
        self.topics: dict[str, ModelTopic] = {}
        self.rules: list[Rule] = []
        self.followers: random.Random | None = None
        """Decides which fetches a leader sends to another broker, and how far that one has come (KIP-392); None: leaders serve all."""
        self.seen: list[Seen] = []
        self.machines = {node_id: Machine(f"broker-{node_id}") for node_id in range(1, broker_count + 1)}
        self.connections: dict[int, set[Connection]] = defaultdict(set)
        self._versions = versions or {}
        self._next_producer_id = 1000
        self._appended: dict[int, asyncio.Future[None]] = {}
        """Node → what its fetches wait for.  No two nodes share one: an append would wake the tasks of a dead machine."""
        for node_id, machine in self.machines.items():
            world.network.add(machine)
            world.loop.start(machine, self._serve(node_id))

    async def _serve(self, node_id: int) -> None:
        def dispatch(connection: Connection, frame: memoryview) -> ReplyOrLater:
            return self._dispatch(node_id, connection, frame)

        await Listener(self.world.network, dispatch).start("", PORT)

    # ------------------------------------------------------------ what tests do

    def create(self, name: str, partition_count: int = 1) -> ModelTopic:
        nodes = sorted(self.machines)
        partitions = [ModelPartition(nodes[index % len(nodes)]) for index in range(partition_count)]
        topic = self.topics[name] = ModelTopic(UUID(int=self.world.random.getrandbits(128) | 1 << 100), partitions)
        return topic

    def partition(self, topic: str, index: int) -> ModelPartition:
        return self.topics[topic].partitions[index]

    def move(self, topic: str, index: int, leader: int) -> None:
        partition = self.partition(topic, index)
        partition.leader = leader
        partition.leader_epoch += 1

    def kill(self, node_id: int, *, silently: bool) -> None:
        """End the broker.  Others lead its partitions at once."""
        machine = self.machines[node_id]
        self._appended.pop(node_id, None)
        self.world.loop.kill(machine)
        self.world.network.crash(machine, silently=silently)
        alive = [other for other, one in self.machines.items() if one.is_alive]
        for topic in self.topics.values():
            for partition in topic.partitions:
                if partition.leader == node_id:
                    partition.leader = self.world.random.choice(alive) if alive else NO_LEADER
                    partition.leader_epoch += 1

    def restart(self, node_id: int) -> None:
        machine = self.machines[node_id] = Machine(f"broker-{node_id}")
        self.world.network.revive(machine)
        self.world.loop.start(machine, self._serve(node_id))
        for topic in self.topics.values():
            for partition in topic.partitions:
                if partition.leader == NO_LEADER:
                    partition.leader = node_id
                    partition.leader_epoch += 1

    def count(self, request: type[Request[Any]]) -> int:
        return sum(isinstance(seen.request, request) for seen in self.seen)

    # ------------------------------------------------------------ serving

    def _dispatch(self, node_id: int, connection: Connection, frame: memoryview) -> ReplyOrLater:
        header, body = decode_request_header(frame)
        request_class = REQUESTS[header.api_key]
        if header.api_version not in request_class.VERSIONS:
            raise InvalidFrame(f"{request_class.__name__} version {header.api_version}")
        # A copy, because records are kept longer than the frame, and tests look at a request later.
        request = request_decoder(request_class, header.api_version)(memoryview(bytes(body)))
        seen = Seen(node_id, header, request)
        self.seen.append(seen)
        verdict = next((found for rule in self.rules if (found := rule(seen)) is not None), Verdict())
        if verdict.drop_before:
            raise InvalidFrame("a rule breaks the connection")
        response = verdict.answer or self._serve_request(seen)
        if verdict.drop_after:
            if not isinstance(response, Response):
                response.close()
            raise InvalidFrame("a rule breaks the connection")
        if isinstance(request, ProduceRequest) and request.acks == 0:
            return None
        if isinstance(response, Response) and not verdict.delay_s:
            return encode_response(response, version=header.api_version, correlation_id=header.correlation_id)
        return self._answer_later(header, response, verdict.delay_s)

    async def _answer_later(self, header: RequestHeader, response: Response | Coroutine[Any, Any, Response], delay_s: float) -> Reply:
        if not isinstance(response, Response):
            response = await response
        await asyncio.sleep(delay_s)
        return encode_response(response, version=header.api_version, correlation_id=header.correlation_id)

    def _serve_request(self, seen: Seen) -> Response | Coroutine[Any, Any, Response]:
        serve = getattr(self, "_on_" + type(seen.request).__name__)
        answer: Response | Coroutine[Any, Any, Response] = serve(seen, seen.request)
        return answer

    def _on_ApiVersionsRequest(self, seen: Seen, request: ApiVersionsRequest) -> Response:
        keys = []
        for key in SERVED:
            low, high = self._versions.get(key, (REQUESTS[key].VERSIONS[0], REQUESTS[key].VERSIONS[-1]))
            keys.append(ApiVersion(api_key=key, min_version=low, max_version=high))
        return ApiVersionsResponse(api_keys=keys)

    def _on_MetadataRequest(self, seen: Seen, request: MetadataRequest) -> Response:
        ids = {topic.topic_id: name for name, topic in self.topics.items()}
        names = list(self.topics) if request.topics is None else [one.name or ids.get(one.topic_id) for one in request.topics]
        brokers = [
            MetadataResponseBroker(node_id=node_id, host=machine.host, port=PORT, rack=None)
            for node_id, machine in self.machines.items()
            if machine.is_alive
        ]
        found = [self._described(name) for name in names if name is not None]
        return MetadataResponse(brokers=brokers, cluster_id="model", controller_id=1, topics=found)

    def _described(self, name: str) -> MetadataResponseTopic:
        topic = self.topics.get(name)
        if topic is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, partitions=[])
        partitions = [
            MetadataResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE if one.leader == NO_LEADER else 0,
                partition_index=index,
                leader_id=one.leader,
                leader_epoch=one.leader_epoch,
                replica_nodes=sorted(self.machines),
                isr_nodes=sorted(self.machines),
            )
            for index, one in enumerate(topic.partitions)
        ]
        return MetadataResponseTopic(name=name, topic_id=topic.topic_id, partitions=partitions)

    def _name_of(self, name: str, topic_id: UUID) -> str | None:
        if topic_id == ZERO_UUID:
            return name if name in self.topics else None
        return next((known for known, topic in self.topics.items() if topic.topic_id == topic_id), None)

    def _led(self, node_id: int, name: str | None, index: int) -> ModelPartition | ErrorCode:
        if name is None or index >= len(self.topics[name].partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        partition = self.topics[name].partitions[index]
        return partition if partition.leader == node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER

    # producers

    def _on_InitProducerIdRequest(self, seen: Seen, request: InitProducerIdRequest) -> Response:
        self._next_producer_id += 1
        return InitProducerIdResponse(producer_id=self._next_producer_id, producer_epoch=0)

    def _on_ProduceRequest(self, seen: Seen, request: ProduceRequest) -> Response:
        topics = []
        for topic in request.topic_data:
            name = self._name_of(topic.name, topic.topic_id)
            answers = [self._produce(seen, name, one) for one in topic.partition_data]
            topics.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
        return ProduceResponse(responses=topics)

    def _produce(self, seen: Seen, name: str | None, data: PartitionProduceData) -> PartitionProduceResponse:
        partition = self._led(seen.node_id, name, data.index)
        if isinstance(partition, ErrorCode):
            return PartitionProduceResponse(index=data.index, error_code=partition, base_offset=-1)
        assert isinstance(data.records, memoryview)
        code, base_offset = partition.append(bytes(data.records))
        if (waiting := self._appended.pop(seen.node_id, None)) is not None:
            waiting.set_result(None)
        return PartitionProduceResponse(index=data.index, error_code=code, base_offset=base_offset)

    # consumers

    async def _on_FetchRequest(self, seen: Seen, request: FetchRequest) -> Response:
        loop = self.world.loop
        until = loop.time() + request.max_wait_ms / 1000
        while True:
            responses, size = [], 0
            is_failed = False
            for topic in request.topics:
                name = self._name_of(topic.topic, topic.topic_id)
                answers = [self._fetch(seen, name, one) for one in topic.partitions]
                size += sum(len(one.records) for one in answers if one.records is not None)
                is_failed = is_failed or any(one.error_code or one.preferred_read_replica != NO_LEADER for one in answers)
                responses.append(FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers))
            if size >= request.min_bytes or is_failed or loop.time() >= until:
                return FetchResponse(responses=responses)
            await self._until_appended(seen.node_id, min(LOOKS_AGAIN_S, until - loop.time()))

    async def _until_appended(self, node_id: int, within_s: float) -> None:
        if node_id not in self._appended:
            self._appended[node_id] = self.world.loop.create_future()
        await asyncio.wait([self._appended[node_id]], timeout=within_s)

    def _fetch(self, seen: Seen, name: str | None, asked: FetchPartition) -> PartitionData:
        partition = self._led(seen.node_id, name, asked.partition)
        if self.followers is not None and name is not None:
            told = self._fetch_with_followers(self.followers, seen.node_id, self.partition(name, asked.partition), asked)
            if told is not None:
                return told
        if isinstance(partition, ErrorCode):
            return PartitionData(
                partition_index=asked.partition, error_code=partition, high_watermark=-1, aborted_transactions=None, records=None
            )
        code = ErrorCode.NONE
        if not partition.log_start_offset <= asked.fetch_offset <= partition.end_offset:
            code = ErrorCode.OFFSET_OUT_OF_RANGE
        return PartitionData(
            partition_index=asked.partition,
            error_code=code,
            high_watermark=partition.end_offset,
            last_stable_offset=partition.end_offset,
            log_start_offset=partition.log_start_offset,
            aborted_transactions=None,
            records=b"" if code else partition.read(asked.fetch_offset, asked.partition_max_bytes),
        )

    def _fetch_with_followers(
        self, choice: random.Random, node_id: int, partition: ModelPartition, asked: FetchPartition
    ) -> PartitionData | None:
        """The answer of a leader that names a follower, or of a follower; None: as without followers.

        A follower may be dead, or behind the consumer.
        """
        others = [each for each in self.machines if each != partition.leader]
        if asked.current_leader_epoch not in (NO_LEADER_EPOCH, partition.leader_epoch):
            return None  # a follower would refuse that, too
        if partition.leader == NO_LEADER or not others or not partition.log_start_offset <= asked.fetch_offset <= partition.end_offset:
            return None
        answer = PartitionData(
            partition_index=asked.partition,
            high_watermark=partition.end_offset,
            last_stable_offset=partition.end_offset,
            log_start_offset=partition.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if node_id == partition.leader:
            if choice.random() < 0.5:
                return None
            answer.preferred_read_replica = choice.choice(others)
        elif choice.random() < 0.3:
            answer.error_code = choice.choice((ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.OFFSET_NOT_AVAILABLE))
        else:
            answer.records = partition.read(asked.fetch_offset, asked.partition_max_bytes)
        return answer

    def _on_ListOffsetsRequest(self, seen: Seen, request: ListOffsetsRequest) -> Response:
        topics = [
            ListOffsetsTopicResponse(name=topic.name, partitions=[self._list_offset(seen, topic.name, one) for one in topic.partitions])
            for topic in request.topics
        ]
        return ListOffsetsResponse(topics=topics)

    def _list_offset(self, seen: Seen, name: str, asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
        partition = self._led(seen.node_id, name if name in self.topics else None, asked.partition_index)
        if isinstance(partition, ErrorCode):
            return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=partition)
        offset, timestamp = partition.end_offset, -1
        if asked.timestamp == -2:
            offset = partition.log_start_offset
        elif asked.timestamp >= 0:
            later = (
                (record.offset, record.timestamp)
                for batch in partition.batches
                for _, header in batches(batch)
                if not header.is_control
                for record in records_of(batch)
                if record.timestamp >= asked.timestamp
            )
            offset, timestamp = next(later, (-1, -1))
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, offset=offset, timestamp=timestamp, leader_epoch=partition.leader_epoch
        )


SERVED: Final = tuple(key for key, request in REQUESTS.items() if hasattr(ModelCluster, f"_on_{request.__name__}"))
"""The keys of the APIs that the model has."""


class World:
    """A loop, a network, a model cluster, and a machine for the client."""

    def __init__(self, seed: int = 0, *, broker_count: int = 3, weather: Weather | None = None) -> None:
        self.random = random.Random(seed)
        self.loop = SimLoop()
        self.network = SimNetwork(self.loop, self.random.getrandbits(64), weather)
        self.clock = SimClock(self.loop)
        self.client = Machine(CLIENT)
        self.network.add(self.client)
        self.cluster = ModelCluster(self, broker_count)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{machine.host}:{PORT}" for machine in self.cluster.machines.values())

    def connect(self) -> Cluster:
        return Cluster.connect(self.bootstrap, network=self.network)

    def run(self, work: Coroutine[Any, Any, T], *, within_s: float = 3600) -> T:
        """Run `work` on the client's machine, within so much virtual time.  An exception that the loop caught is a failure."""

        async def limited() -> T:
            async with asyncio.timeout(within_s):
                return await work

        logging.disable()  # every connection that a rule breaks would be logged
        try:
            result = self.loop.run_until_complete(self.loop.start(self.client, limited()))
        finally:
            logging.disable(logging.NOTSET)
        assert not self.loop.failures, self.loop.failures
        return result
