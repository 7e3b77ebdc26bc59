"""● Produce: append record batches to partitions led here.

Versions       0-2 are advertised for an old librdkafka's sake and never served; 3-13.
Authorises     WRITE on each topic; WRITE on the transactional id of transactional batches.
Behaviour      Validation and append happen before this returns, so their order is that of requests.  acks=1 is answered at once, acks=all
               when the high watermark has passed the batch and, flush policy `ack`, it is on stable storage; acks=0 is not answered.
               The first batch of a transaction in a partition waits for the transaction's coordinator (KIP-890), many records that must
               be looked into or compressed anew for a process that does so; of very many batches each thousand is appended in a turn of
               its own.  What follows on the connection waits, too.  Of a partition that is named twice the records named last are
               written.  Records of a transaction on a connection that their producer has replaced by a newer one close that
               connection, up to version 11.
Version notes  8+ names the records that were refused and why; 10+ names the new leader (KIP-951); 12+ adds partitions to the
               transaction by itself (KIP-890); 13+ names topics by id (KIP-516).
Errors         UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, INVALID_TOPIC_EXCEPTION (an internal topic),
               INVALID_REQUIRED_ACKS, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND, REQUEST_TIMED_OUT,
               TRANSACTIONAL_ID_AUTHORIZATION_FAILED (a transactional batch without a transactional id), INVALID_TXN_STATE or
               TRANSACTION_ABORTABLE (a partition that is not part of the transaction), and those of `Log.append_from_client`.
Differs from Kafka: a partition without records (null) is refused with INVALID_RECORD; Kafka gives no answer at all.  A codec that does
               not exist (5, 6, 7) is refused with UNSUPPORTED_COMPRESSION_TYPE, by Kafka with UNKNOWN_SERVER_ERROR.  Bytes behind a batch
               are refused with INVALID_RECORD; Kafka cuts up to eleven of them off, and of more it checks the size.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from moldau.coordinator.outcome import ProducerIdAndEpoch
from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from moldau.protocol.records.batch import HEADER_SIZE, CorruptBatch, read_header
from moldau.protocol.records.compression import Codec
from moldau.replication.partition import ALL_IN_SYNC, Partition
from moldau.replication.waits import ProduceWait
from moldau.server.coordinators.topic import answered
from moldau.server.coordinators.transactions import Membership, fenced_as_known
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import ConnectionClosed, RequestContext
from moldau.server.requests.registry import handles
from moldau.storage.log import AppendResult
from moldau.storage.processes import WorkerDied
from moldau.storage.producers.state import VerificationGuard
from moldau.storage.validator import AppendFailure, Examined, Rules, Unexamined, examine
from moldau.types import NO_OFFSET, Records, TopicPartition

ADMIN_CLIENT_ID: Final = "__admin_client"
"""The one client that may write to internal topics."""
CURRENT_LEADER_VERSION: Final = 10
TOPIC_ID_VERSION: Final = 13
ATTRIBUTES_LOW_BYTE: Final = 22
TRANSACTIONAL_BIT: Final = 0x10
CODEC_BITS: Final = 0x07
MAGIC_BYTE: Final = 16
MAGIC: Final = 2
LENGTH_END: Final = 12
ZSTD_VERSION: Final = 7
ABORTABLE_VERSION: Final = 11
ADDS_TO_TRANSACTION_VERSION: Final = 12
COORDINATOR_IS_BUSY: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
PIECE: Final = 1_000
"""Batches that one turn of the loop appends: 25 to 50 ms."""
MALFORMED: Final = (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)
SMALLEST_LENGTH: Final = 14
"""The least length that a batch can name: that of an empty record of magic 0."""


class Told(AppendFailure):
    """A failure whose text the client gets."""


Unverified: TypeAlias = tuple[Partition, ProducerIdAndEpoch, int]
"""The partition of a batch, its producer, and its first sequence."""
Verified: TypeAlias = VerificationGuard | AppendFailure
Produced: TypeAlias = ProduceResponse | Later[ProduceResponse] | None

# Errors after which Kafka does not report the log's start: it did not get as far as the log.
WITHOUT_LOG_START: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUIRED_ACKS,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
)


# hot: 25 µs a request of one batch beside the write
@handles(ProduceRequest)
def produce(broker: Broker, context: RequestContext, request: ProduceRequest) -> Produced | Awaitable[ProduceResponse | None]:
    is_transactional = request.transactional_id is not None
    if not is_transactional and _has_transactional_batch(request):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    before = context.client.last_append
    appending = Appending(broker, context, request)
    unverified: list[Unverified] = []
    topics = request.topic_data
    is_long = (len(topics) > 1 or (len(topics) == 1 and len(topics[0].partition_data) > PIECE)) and _is_long(topics)
    if before is None:
        if is_transactional:
            unverified = _unverified(broker, context, request)
        if not unverified and not is_long:
            appending.append_all({})
            if not appending.unexamined:
                return appending.answer()
    mine = context.client.last_append = asyncio.Event()
    return _append_in_turn(appending, unverified, before, mine, is_long=is_long)


async def _append_in_turn(
    appending: "Appending", unverified: list[Unverified], before: asyncio.Event | None, mine: asyncio.Event, *, is_long: bool
) -> ProduceResponse | None:
    """Append what the loop cannot append at once: partitions new to a transaction, about which its coordinator is asked (KIP-890), heavy
    records, and very many batches.  Later requests on the same connection wait meanwhile: a producer numbers its batches, and has several
    on the way.
    """
    broker, context, request = appending.broker, appending.context, appending.request
    try:
        if before is not None:
            await before.wait()
            unverified = _unverified(broker, context, request) if request.transactional_id is not None else []
        if before is not None or unverified or is_long:
            await appending.append_in_pieces(await _verify(broker, context, request, unverified))
        await appending.append_examined()
    finally:
        mine.set()
        if context.client.last_append is mine:
            context.client.last_append = None
    produced = appending.answer()
    if isinstance(produced, Later):
        response: ProduceResponse = await answered(produced)
        return response
    return produced


class _Postponed(NamedTuple):
    """A batch whose records must be examined before it is appended; the answer goes to `slots[at]`."""

    slots: list[PartitionProduceResponse]
    at: int
    partition: Partition
    data: PartitionProduceData
    guard: VerificationGuard | None
    rules: Rules


class Appending:
    """One request on its way into the logs, and its answer."""

    __slots__ = ("_answers", "_failed", "_later", "_response", "_wait", "broker", "context", "request", "unexamined")

    def __init__(self, broker: Broker, context: RequestContext, request: ProduceRequest) -> None:
        self.broker: Final = broker
        self.context: Final = context
        self.request: Final = request
        self.unexamined: list[_Postponed] = []
        self._answers: list[TopicProduceResponse] = []
        self._response = ProduceResponse(responses=self._answers)
        self._wait: ProduceWait | None = None
        self._later: Later[ProduceResponse] | None = None
        self._failed = False

    def append_all(self, verified: Mapping[TopicPartition, Verified]) -> None:
        """`verified`: what a transaction's coordinator said of partitions that were asked about."""
        topics = self.request.topic_data
        if len(topics) > 1 or (topics and len(topics[0].partition_data) > 1):
            topics = _last_of_each(topics)
        for topic in topics:
            self._append(topic, topic.partition_data, verified)

    async def append_in_pieces(self, verified: Mapping[TopicPartition, Verified]) -> None:
        """Append as `append_all`; other connections have their turn between `PIECE` batches."""
        appended = 0
        for topic in _last_of_each(self.request.topic_data):
            slots: list[PartitionProduceResponse] | None = None
            for begin in range(0, len(topic.partition_data) or 1, PIECE):
                piece = topic.partition_data[begin : begin + PIECE]
                if appended + len(piece) > PIECE:
                    await asyncio.sleep(0)
                    appended = 0
                slots = self._append(topic, piece, verified, slots)
                appended += len(piece)

    def _append(
        self,
        topic: TopicProduceData,
        partition_data: list[PartitionProduceData],
        verified: Mapping[TopicPartition, Verified],
        slots: list[PartitionProduceResponse] | None = None,
    ) -> list[PartitionProduceResponse]:
        """The topic's answers, `slots` and those that are new.  `partition_data`: all of the topic's, or a piece."""
        if slots is None:
            slots = []
            self._answers.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=slots))
        broker, context = self.broker, self.context
        version, acks = context.header.api_version, self.request.acks
        hosted = broker.replicas.hosted
        name = topic.name if version < TOPIC_ID_VERSION else broker.cluster.topic_name(topic.topic_id)
        for data in partition_data:
            partition = hosted.get((name, data.index)) if name is not None else None
            if partition is None or not data.records or acks not in (ALL_IN_SYNC, 0, 1) or partition.is_internal or version < ZSTD_VERSION:
                refusal = _refusal(broker, context, name, data, acks=acks)
                if refusal is not None:
                    slots.append(_refused(data.index, refusal))
                    self._failed = True
                    continue
                assert partition is not None
            guard = verified.get(partition.topic_partition) if verified else None
            if isinstance(guard, AppendFailure):
                slots.append(_refused(data.index, guard))
                self._failed = True
                continue
            result = partition.append_from_client(data.records, acks=acks, now_ms=context.now_ms, guard=guard)  # type: ignore[arg-type]
            if isinstance(result, Unexamined):
                self.unexamined.append(_Postponed(slots, len(slots), partition, data, guard, result.rules))
                slots.append(PartitionProduceResponse(index=data.index, base_offset=NO_OFFSET))
                continue
            slots.append(self._answer_to(result, partition, data))
        return slots

    async def append_examined(self) -> None:
        """Append the batches that `append_all` left.

        The rules may change while records are examined: then they are examined again by the new rules.
        """
        while self.unexamined:
            postponed, self.unexamined = self.unexamined, []
            examined = await asyncio.gather(*map(self._examine, postponed))
            for one, said in zip(postponed, examined, strict=True):
                result: AppendResult | AppendFailure | Unexamined
                if isinstance(said, AppendFailure):
                    result = said
                else:
                    now_ms = self.broker.clock.now_ms()
                    result = one.partition.append_from_client(
                        one.data.records,  # type: ignore[arg-type]
                        acks=self.request.acks,
                        now_ms=now_ms,
                        guard=one.guard,
                        examined=said,
                    )
                if isinstance(result, Unexamined):
                    self.unexamined.append(one._replace(rules=result.rules))
                else:
                    one.slots[one.at] = self._answer_to(result, one.partition, one.data)

    async def _examine(self, one: _Postponed) -> Examined | AppendFailure:
        records = bytes(one.data.records)  # type: ignore[arg-type]  # a copy: it goes to another process
        try:
            return await self.broker.files.compute(examine, records, one.rules, self.broker.clock.now_ms())
        except WorkerDied as error:
            return AppendFailure(ErrorCode.KAFKA_STORAGE_ERROR, f"records for {one.partition.topic_partition} were not examined: {error}")

    def _answer_to(
        self, result: AppendResult | AppendFailure, partition: Partition, data: PartitionProduceData
    ) -> PartitionProduceResponse:
        if isinstance(result, AppendFailure):
            self._failed = True
            if result.error is ErrorCode.KAFKA_STORAGE_ERROR:
                self.broker.complain(result.detail)
            malformed = _malformed(data.records, result)
            return _refused(data.index, malformed) if malformed else _refused(data.index, result, partition.log.log_start_offset)
        slot = PartitionProduceResponse(
            index=data.index,
            base_offset=result.first_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )
        if self.request.acks == ALL_IN_SYNC and result.last_offset >= partition.acknowledged_offset:
            if self._wait is None:
                self._wait, self._later = _wait_for_acknowledgements(self.broker, self._response, self.request.timeout_ms)
            partition.await_acknowledgement(result.last_offset + 1, self._wait, slot)
        return slot

    def answer(self) -> Produced:
        """The answer.  Errors: ConnectionClosed if a request without an answer failed."""
        response = self._response
        if self.request.acks == 0:
            if self._failed:
                raise ConnectionClosed(f"a produce without acknowledgement failed: {_failures(response)}")
            return None
        if self._failed and self.context.header.api_version >= CURRENT_LEADER_VERSION:
            _name_leaders(self.broker, self.context, response)
        if self._wait is not None:
            self._wait.no_more()
        return response if self._later is None else self._later


def _unverified(broker: Broker, context: RequestContext, request: ProduceRequest) -> list[Unverified]:
    """The batches whose transaction is not known to be open in their partition.  Errors: ConnectionClosed."""
    asked = []
    for topic in request.topic_data:
        name = topic.name if context.version < TOPIC_ID_VERSION else broker.cluster.topic_name(topic.topic_id)
        for data in topic.partition_data:
            partition = broker.replicas.hosted.get((name, data.index)) if name is not None else None
            records = data.records
            if partition is None or not partition.is_leader or not isinstance(records, memoryview) or len(records) < HEADER_SIZE:
                continue  # the append refuses it
            try:
                header = read_header(records)
            except CorruptBatch:
                continue
            producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch)
            if header.producer_id >= 0 and header.is_transactional and not partition.log.producers.has_open_transaction(*producer):
                asked.append((partition, producer, header.base_sequence))
    return asked


async def _verify(
    broker: Broker, context: RequestContext, request: ProduceRequest, asked: list[Unverified]
) -> dict[TopicPartition, Verified]:
    """Ask for all at once: their coordinator writes them together."""
    adds = context.version >= ADDS_TO_TRANSACTION_VERSION
    transactional_id = request.transactional_id or ""
    found = await asyncio.gather(
        *[
            Membership(broker, transactional_id, producer).of(partition, adds=adds, sequence=sequence)
            for partition, producer, sequence in asked
        ]
    )
    verified: dict[TopicPartition, Verified] = {}
    for (partition, _, _), said in zip(asked, found, strict=True):
        if isinstance(said, ErrorCode):
            verified[partition.topic_partition] = _not_verified(said, context.version)
        elif said is not None:
            verified[partition.topic_partition] = said
    return verified


def _not_verified(said: ErrorCode, version: int) -> AppendFailure:
    code = _as_produce_says(said, version)
    if code is ErrorCode.INVALID_TXN_STATE:
        return Told(code, "Partition was not added to the transaction")
    if code is ErrorCode.NOT_ENOUGH_REPLICAS:
        return Told(code, f"The partition could not be verified as part of the transaction: {said.name}")
    return AppendFailure(code, said.text)


def _as_produce_says(code: ErrorCode, version: int) -> ErrorCode:
    """Source: AddPartitionsToTxnManager, ReplicaManager.handleProduceAppend."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION:
        return ErrorCode.INVALID_TXN_STATE
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version >= ADDS_TO_TRANSACTION_VERSION:
        return code
    # Errors after which clients of every version try again.
    return ErrorCode.NOT_ENOUGH_REPLICAS if code in COORDINATOR_IS_BUSY else fenced_as_known(code)


def _wait_for_acknowledgements(broker: Broker, response: ProduceResponse, timeout_ms: int) -> tuple[ProduceWait, Later[ProduceResponse]]:
    timeouts = broker.replicas.timeouts

    def done() -> None:
        timeouts.discard(wait)
        later.complete(response)

    wait = ProduceWait(done, expects_more=True)
    later: Later[ProduceResponse] = Later(lambda: timeouts.discard(wait))
    timeouts.add(wait, broker.clock.monotonic_ms() + max(0, timeout_ms))
    return wait, later


def _last_of_each(topics: list[TopicProduceData]) -> list[TopicProduceData]:
    """For a partition that is named twice, its last entry: the request has one answer for it."""
    count = 0
    last: dict[tuple[str, UUID], dict[int, PartitionProduceData]] = {}
    for topic in topics:
        count += len(topic.partition_data)
        last.setdefault((topic.name, topic.topic_id), {}).update((data.index, data) for data in topic.partition_data)
    if count == sum(map(len, last.values())):
        return topics
    return [TopicProduceData(name=name, topic_id=topic_id, partition_data=list(data.values())) for (name, topic_id), data in last.items()]


def _is_long(topics: list[TopicProduceData]) -> bool:
    """Whether they have more batches than one turn of the loop should append."""
    count = 0
    for topic in topics:
        count += len(topic.partition_data)
    return count > PIECE


def _has_transactional_batch(request: ProduceRequest) -> bool:
    for topic in request.topic_data:
        for data in topic.partition_data:
            records = data.records
            if isinstance(records, memoryview) and len(records) > ATTRIBUTES_LOW_BYTE and records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT:
                return True
    return False


def _refusal(broker: Broker, context: RequestContext, name: str | None, data: PartitionProduceData, *, acks: int) -> AppendFailure | None:
    """The reason not to try a partition; None if it may be tried."""
    if name is None:
        return AppendFailure(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has that id")
    if not broker.cluster.has_partition(name, data.index):
        return AppendFailure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name}-{data.index}")
    if not data.records:
        return AppendFailure(
            ErrorCode.INVALID_RECORD, f"Produce requests with version {context.version} must have at least one record batch per partition"
        )
    if context.version < ZSTD_VERSION and _codec_of(data) == Codec.ZSTD:
        return AppendFailure(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce version {ZSTD_VERSION}")
    malformed = _malformed(data.records)
    if malformed is not None:
        return malformed
    if acks not in (ALL_IN_SYNC, 0, 1):
        return AppendFailure(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks} has to be -1, 0 or 1")
    if broker.is_internal(name) and context.header.client_id != ADMIN_CLIENT_ID:
        return AppendFailure(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
    if (name, data.index) not in broker.replicas.hosted:
        return AppendFailure(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker has no replica of {name}-{data.index}")
    return None


def _codec_of(data: PartitionProduceData) -> int:
    records = data.records
    return records[ATTRIBUTES_LOW_BYTE] & CODEC_BITS if isinstance(records, memoryview) and len(records) > ATTRIBUTES_LOW_BYTE else 0


def _malformed(records: Records | None, failure: AppendFailure | None = None) -> AppendFailure | None:
    """The reason why the bytes are not one batch of magic 2; None if they are.  Kafka checks this before the partition.

    With `failure`, only if the failure is due to such bytes.  Source: ProduceRequest.validateRecords, ByteBufferLogInputStream.
    """
    if not isinstance(records, memoryview) or (failure is not None and (failure.error not in MALFORMED or failure.record_errors)):
        return None
    size = int.from_bytes(records[8:12], "big", signed=True)
    if len(records) >= LENGTH_END and size < SMALLEST_LENGTH:
        return Told(ErrorCode.CORRUPT_MESSAGE, f"A batch says that it is {size} bytes long; the shortest ones are {SMALLEST_LENGTH}")
    if len(records) > MAGIC_BYTE and records[MAGIC_BYTE] > MAGIC:
        return Told(ErrorCode.CORRUPT_MESSAGE, f"A batch is of the unknown magic {records[MAGIC_BYTE]}; it has to be {MAGIC}")
    if len(records) < HEADER_SIZE or records[MAGIC_BYTE] != MAGIC or size + LENGTH_END != len(records):
        return AppendFailure(ErrorCode.INVALID_RECORD, f"The bytes are not exactly one whole batch of magic {MAGIC}")
    return None


def _refused(index: int, failure: AppendFailure, log_start_offset: int = NO_OFFSET) -> PartitionProduceResponse:
    """A partition's answer with an error.  `log_start_offset`: that of a log that has refused the records."""
    return PartitionProduceResponse(
        index=index,
        error_code=failure.error,
        base_offset=NO_OFFSET,
        log_start_offset=NO_OFFSET if failure.error in WITHOUT_LOG_START else log_start_offset,
        record_errors=[BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text) for at, text in failure.record_errors],
        error_message=failure.detail if failure.record_errors or isinstance(failure, Told) else None,
    )


def _name_leaders(broker: Broker, context: RequestContext, response: ProduceResponse) -> None:
    """Name the right leaders to a client that asked the wrong broker (KIP-951)."""
    nodes: dict[int, NodeEndpoint] = {}
    for topic in response.responses:
        for slot in topic.partition_responses:
            if slot.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            leader = broker.cluster.leader_of(_name_of(broker, topic.name, topic.topic_id), slot.index, context.client.listener)
            slot.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
            if leader.endpoint is not None:
                nodes[leader.leader_id] = NodeEndpoint(
                    node_id=leader.leader_id, host=leader.endpoint.host, port=leader.endpoint.port, rack=leader.rack
                )
    response.node_endpoints = list(nodes.values())


def _name_of(broker: Broker, name: str, topic_id: UUID) -> str:
    return name or broker.cluster.topic_name(topic_id) or ""


def _failures(response: ProduceResponse) -> str:
    return ", ".join(
        f"{topic.name or topic.topic_id}-{slot.index}: {ErrorCode.of(slot.error_code).name}"
        for topic in response.responses
        for slot in topic.partition_responses
        if slot.error_code
    )
