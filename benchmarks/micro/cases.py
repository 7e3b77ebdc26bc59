"""● What each hot function is timed with: one small record, a batch of 64 KiB, a fetch of four partitions.

A case makes its arguments once and returns the call to time.  Files lie in a temporary folder, so that an append is a real write to the
page cache.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from benchmarks import frames
from moldau.net.connection import Connection, ConnectionLimits
from moldau.net.framing import Framing, ReceiveBuffers
from moldau.net.socket_transport import SocketTransport
from moldau.net.transport import Address
from moldau.protocol.compiler import decoder
from moldau.protocol.header import decode_request_header, encode_response
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse
from moldau.protocol.records.batch import HEADER_SIZE, patch_offsets, read_header, verify_crc
from moldau.protocol.records.structure import are_plain_records, check_structure
from moldau.protocol.varint import read_unsigned
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Isolation, Partition
from moldau.server.handlers.fetch import fetch
from moldau.server.handlers.produce import produce
from moldau.server.node.config import NodeConfig
from moldau.server.requests.dispatch import Api, Client, Dispatcher, RequestContext
from moldau.server.requests.fetch_session import FetchSessionCache
from moldau.storage.config import LogConfig
from moldau.storage.files import SystemFiles
from moldau.storage.log import Log
from moldau.storage.validator import check_client_batch
from moldau.types import TopicPartition

Call = Callable[[], object]
NOW_MS = int(time.time() * 1000)
TOPIC_ID = UUID(int=1)
PROPERTIES = {"process.roles": "broker,controller", "node.id": "1", "controller.listener.names": "CONTROLLER", "log.dirs": "/none"}
PROPERTIES |= {"listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "controller.quorum.voters": "1@127.0.0.1:1"}
BATCH = frames.record_batch([b"x" * 100], NOW_MS)
BIG_BATCH = frames.record_batch([b"x" * 1024] * 64, NOW_MS)
FRAME = frames.produce_request("topic", [BATCH])
FETCH = frames.fetch_request("topic", [0] * 4, partition_bytes=1 << 20)[4:]


class Bench:
    """Four partitions of one topic, led here, in files of their own."""

    def __init__(self, folder: Path) -> None:
        self.files = SystemFiles()
        self.replicas = ReplicaManager(
            local_id=1, lag_time_max_ms=30_000, on_flush_wanted=lambda _: None, on_earlier_timeout=lambda _: None
        )
        self.partitions = [self.partition(folder, index) for index in range(4)]
        clock = SimpleNamespace(now_ms=lambda: NOW_MS, monotonic_ms=lambda: 0)
        cluster = SimpleNamespace(has_partition=lambda *_: True)
        sessions = FetchSessionCache(1000, lambda: 1)
        config = NodeConfig.parse(PROPERTIES)
        self.broker: Any = SimpleNamespace(config=config, replicas=self.replicas, clock=clock, cluster=cluster, fetch_sessions=sessions)
        self.client = Client(listener="PLAINTEXT", host="127.0.0.1", port=1)

    def partition(self, folder: Path, index: int) -> Partition:
        where = TopicPartition("topic", index)
        path = folder / str(where)
        path.mkdir()
        config = LogConfig.load({})
        log = Log.open(
            self.files, str(path), where, config, now_ms=NOW_MS, recovery_point=0, log_start_offset=0, clean=True, topic_id=TOPIC_ID
        )
        partition = self.replicas.host(where, TOPIC_ID, log)
        partition.lead(leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,), eligible={}, now_ms=NOW_MS)
        return partition

    def filled(self) -> "Bench":
        """With 4 MiB in each partition."""
        for partition in self.partitions:
            for _ in range(64):
                partition.append_from_client(bytearray(BIG_BATCH), acks=1, now_ms=NOW_MS)
        return self

    def context(self, frame: bytes) -> RequestContext:
        header, _ = decode_request_header(memoryview(frame))
        return RequestContext(header, self.client, NOW_MS)


@contextmanager
def bench() -> Iterator[Bench]:
    with TemporaryDirectory(prefix="moldau-micro-") as folder:
        yield Bench(Path(folder))


class NoTransport:
    """A transport that takes everything written to it and drops it."""

    peer = Address("127.0.0.1", 1)
    buffered = 0

    def write(self, parts: object) -> None:
        pass


def produce_response() -> ProduceResponse:
    slot = PartitionProduceResponse(index=0, error_code=0, base_offset=1)
    return ProduceResponse(responses=[TopicProduceResponse(name="topic", partition_responses=[slot])])


def case_header(_: Bench) -> Call:
    frame = memoryview(FRAME)[4:]
    return lambda: decode_request_header(frame)


def case_response(_: Bench) -> Call:
    response = produce_response()
    return lambda: encode_response(response, version=9, correlation_id=7)


def case_framing(_: Bench) -> Call:
    buffers = ReceiveBuffers()
    buffers.shared[: len(FRAME)] = FRAME
    framing = Framing(1 << 20, buffers)
    return lambda: framing.received(len(FRAME))


def a_connection() -> Connection:
    buffers = ReceiveBuffers()
    buffers.shared[: len(FRAME)] = FRAME
    answer = b"x" * 60
    return Connection(NoTransport(), lambda *_: [answer], limits=ConnectionLimits(), buffers=buffers)  # type: ignore[arg-type]


def case_connection(_: Bench) -> Call:
    connection = a_connection()
    return lambda: connection.received(len(FRAME))


def case_readable(_: Bench) -> Call:
    turn = 0

    def recv_into(_: memoryview) -> int:
        nonlocal turn
        turn += 1
        if turn % 2:
            return len(FRAME)
        raise BlockingIOError

    transport = SocketTransport(None, SimpleNamespace(recv_into=recv_into, fileno=lambda: -1), Address("127.0.0.1", 1))  # type: ignore[arg-type]
    transport._receiver = a_connection()
    transport._is_reading = True
    return transport._on_readable


def case_read_unsigned(_: Bench) -> Call:
    view = memoryview(b"\xac\x02")
    return lambda: read_unsigned(view, 0)


def case_read_header(_: Bench) -> Call:
    return lambda: read_header(BATCH)


def case_verify_crc(_: Bench) -> Call:
    view, header = memoryview(BIG_BATCH), read_header(BIG_BATCH)
    return lambda: verify_crc(view, 0, header)


def case_patch(_: Bench) -> Call:
    view = bytearray(BATCH)
    return lambda: patch_offsets(view, 0, 7, 1)


def case_check(at: Bench) -> Call:
    rules = at.partitions[0].log._rules
    view = memoryview(bytearray(BATCH))
    return lambda: check_client_batch(view, rules)


def case_structure(_: Bench) -> Call:
    header = read_header(BIG_BATCH)
    return lambda: check_structure(BIG_BATCH, header)


def case_plain_records(_: Bench) -> Call:
    return lambda: are_plain_records(BIG_BATCH, HEADER_SIZE, len(BIG_BATCH), 64)


def case_log_append(at: Bench) -> Call:
    log = at.partitions[0].log
    return lambda: log.append_from_client(bytearray(BATCH), leader_epoch=0, now_ms=NOW_MS)


def case_segment_append(at: Bench) -> Call:
    log = at.partitions[0].log
    header = read_header(BATCH)
    return lambda: log.active_segment.append(BATCH, header)


def case_log_read(at: Bench) -> Call:
    log = at.filled().partitions[0].log
    return lambda: log.read(64, 1 << 20, limit_offset=log.high_watermark)


def case_position(at: Bench) -> Call:
    segment = at.filled().partitions[0].log.active_segment
    return lambda: segment.position_of(65)


def case_partition_append(at: Bench) -> Call:
    partition = at.partitions[0]
    return lambda: partition.append_from_client(bytearray(BATCH), acks=1, now_ms=NOW_MS)


def case_partition_read(at: Bench) -> Call:
    partition = at.filled().partitions[0]
    return lambda: partition.read(64, 1 << 20, Isolation.HIGH_WATERMARK, min_one_batch=True)


def case_produce(at: Bench) -> Call:
    header, body = decode_request_header(memoryview(FRAME)[4:])
    context, read = RequestContext(header, at.client, NOW_MS), decoder(ProduceRequest, header.api_version)
    request = read(body)
    data = request.topic_data[0].partition_data[0]

    def call() -> object:
        data.records = memoryview(bytearray(BATCH))  # the call before has patched the offsets of its batch
        return produce(at.broker, context, request)

    return call


def case_fetch(at: Bench) -> Call:
    header, body = decode_request_header(memoryview(FETCH))
    context, read = at.filled().context(FETCH), decoder(FetchRequest, header.api_version)
    request = read(body)
    return lambda: fetch(at.broker, context, request)


def case_dispatch(at: Bench) -> Call:
    handle: Any = produce
    dispatcher = Dispatcher(at.broker, {ProduceRequest.API_KEY: Api(ProduceRequest, handle)})
    connection: Any = SimpleNamespace(session=at.client)
    frame = FRAME[4:]
    return lambda: dispatcher.dispatch(connection, memoryview(bytearray(frame)))


CASES: dict[str, Callable[[Bench], Call]] = {
    "net.connection.Connection.received": case_connection,
    "net.framing.Framing.received": case_framing,
    "net.socket_transport.SocketTransport._on_readable": case_readable,
    "protocol.varint.read_unsigned": case_read_unsigned,
    "protocol.header.decode_request_header": case_header,
    "protocol.header.encode_response": case_response,
    "protocol.records.batch.read_header": case_read_header,
    "protocol.records.batch.verify_crc": case_verify_crc,
    "protocol.records.batch.patch_offsets": case_patch,
    "protocol.records.structure.check_structure": case_structure,
    "protocol.records.structure.are_plain_records": case_plain_records,
    "replication.partition.Partition.append_from_client": case_partition_append,
    "replication.partition.Partition.read": case_partition_read,
    "server.requests.dispatch.Dispatcher.dispatch": case_dispatch,
    "server.handlers.fetch.fetch": case_fetch,
    "server.handlers.produce.produce": case_produce,
    "storage.log.Log.append_from_client": case_log_append,
    "storage.log.Log.read": case_log_read,
    "storage.segment.Segment.append": case_segment_append,
    "storage.segment.Segment.position_of": case_position,
    "storage.validator.check_client_batch": case_check,
}
