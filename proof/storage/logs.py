"""● Logs to test with: batches of every kind in a fixed order from a seed, and reading a log back record by record."""

import random
from collections.abc import Iterator
from typing import Final, NamedTuple

from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.protocol.records.control import build_end_txn_marker
from moldau.storage.config import LogConfig
from moldau.storage.files import Files
from moldau.storage.log import AppendResult, FetchData, Log
from moldau.storage.producers.state import AppendOrigin
from moldau.storage.time_search import TimestampOffset, first_record_at_or_after
from moldau.storage.validator import AppendFailure, Unexamined
from moldau.types import TopicPartition

NOW_MS: Final = 1_700_000_000_000
PARTITION: Final = TopicPartition("t", 0)
WHOLE: Final = 1 << 30


class Unreadable(Exception):
    """The log answered with an error."""


class SomeBatch(NamedTuple):
    """A batch as it comes to a leader."""

    content: bytes
    origin: AppendOrigin
    leader_epoch: int


class StoredRecord(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    is_control: bool


def batches_of_every_kind(seed: int, count: int, *, max_records: int = 5, max_value: int = 200) -> Iterator[SomeBatch]:
    """Plain, idempotent and transactional batches with every codec, markers that commit and abort, rising leader epochs."""
    choice = random.Random(seed)
    sequences = dict.fromkeys((100, 101, 200, 201), 0)
    opened: list[int] = []
    epoch = 0
    for number in range(count):
        if choice.random() < 0.05:
            epoch += choice.randrange(1, 3)
        if opened and choice.random() < 0.3:
            producer_id = opened.pop(choice.randrange(len(opened)))
            marker = build_end_txn_marker(
                is_commit=choice.random() < 0.5,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=3,
                timestamp_ms=NOW_MS + number,
            )
            yield SomeBatch(bytes(marker), AppendOrigin.COORDINATOR, epoch)
            continue
        producer_id = choice.choice([-1, 100, 101, 200, 201])
        records = [_a_record(choice, number, max_value) for _ in range(choice.randrange(1, max_records + 1))]
        has_producer = producer_id >= 0
        content = build_batch(
            records,
            codec=choice.choice(list(Codec)),
            producer_id=producer_id,
            producer_epoch=0 if has_producer else -1,
            base_sequence=sequences[producer_id] if has_producer else -1,
            is_transactional=producer_id >= 200,
        )
        if has_producer:
            sequences[producer_id] += len(records)
        if producer_id >= 200 and producer_id not in opened:
            opened.append(producer_id)
        yield SomeBatch(bytes(content), AppendOrigin.CLIENT, epoch)


def _a_record(choice: random.Random, number: int, max_value: int) -> NewRecord:
    key = None if choice.random() < 0.2 else b"key-%d" % choice.randrange(20)
    value = (
        None
        if choice.random() < 0.1
        else choice.randbytes(choice.randrange(max_value))
        if choice.random() < 0.5
        else b"v" * choice.randrange(max_value)
    )
    headers = [("trace", b"%d" % number), ("empty", None)] if choice.random() < 0.2 else []
    return NewRecord(NOW_MS + number * 10 + choice.randrange(5), key, value, headers)


def open_log(
    files: Files, directory: str, config: LogConfig, *, recovery_point: int = 0, clean: bool = False, log_start_offset: int = 0
) -> Log:
    log = Log.open(
        files,
        directory,
        PARTITION,
        config,
        now_ms=NOW_MS,
        recovery_point=recovery_point,
        clean=clean,
        log_start_offset=log_start_offset,
    )
    log.verifies_transactions = False
    return log


def append_as(origin: AppendOrigin, log: Log, content: bytearray, *, leader_epoch: int) -> AppendResult | AppendFailure:
    if origin is not AppendOrigin.CLIENT:
        return log.append_as_leader(content, leader_epoch=leader_epoch, now_ms=NOW_MS, origin=origin)
    result = log.append_from_client(content, leader_epoch=leader_epoch, now_ms=NOW_MS)
    assert not isinstance(result, Unexamined), "what is written here is light"
    return result


def append(log: Log, batch: SomeBatch) -> AppendResult:
    result = append_as(batch.origin, log, bytearray(batch.content), leader_epoch=batch.leader_epoch)
    assert isinstance(result, AppendResult), result
    return result


def offset_of_max_timestamp(log: Log) -> TimestampOffset | None:
    candidate = log.candidate_for_max_timestamp()
    return first_record_at_or_after(*candidate.search) if candidate is not None else None


def stored_bytes(log: Log, *, max_bytes: int = WHOLE) -> bytes:
    """Everything from the log's start to its end, as readers get it."""
    found = bytearray()
    offset = log.log_start_offset
    while True:
        data = log.read(offset, max_bytes)
        if not isinstance(data, FetchData):
            raise Unreadable(f"{log} at offset {offset}: {data.name}")
        if data.records is None:
            return bytes(found)
        raw = data.records.read()
        end = 0
        for position, header in batches(raw):
            end, offset = position + header.size, header.next_offset
        found += raw[:end]


def stored_records(log: Log) -> list[StoredRecord]:
    raw = memoryview(stored_bytes(log))
    found = []
    for position, header in batches(raw, strict=True):
        for record in records_of(raw[position : position + header.size]):
            if record.offset >= log.log_start_offset:
                key = None if record.key is None else bytes(record.key)
                value = None if record.value is None else bytes(record.value)
                found.append(StoredRecord(record.offset, key, value, header.is_control))
    return found
