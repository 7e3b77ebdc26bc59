"""◇ Writes record batches of magic 2, as Kafka's own producer does (base timestamp = the first record's).

Guarantee: `RecordBatchBuilder.build` and `recompressed` return one whole batch with a valid CRC, in a buffer of its own that may be
patched.
Called by producers' accumulators, coordinators, the controller's log, and by the broker where it writes a batch anew.

Source: KIP-98.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from moldau.protocol.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    read_header,
)
from moldau.protocol.records.compression import DEFAULT_MAX_BYTES, Buffer, Codec, compress, decompress
from moldau.protocol.varint import write_signed
from moldau.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP

_CRC: Final = Struct(">I")
_CRC_AT: Final = CRC_START - 4
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_AT: Final = 43
_ATTRIBUTES: Final = b"\x00"  # a record's attributes: Kafka defines none yet


class NewRecord(NamedTuple):
    """A record to write.  `offset` None: the one after the record before.  Compaction keeps offsets, and so leaves gaps."""

    timestamp: int
    key: Buffer | None = None
    value: Buffer | None = None
    headers: Sequence[tuple[str, Buffer | None]] = ()
    offset: int | None = None


class BatchOptions(NamedTuple):
    """The fields of a batch's header beside those that its records determine."""

    base_offset: int = 0
    codec: Codec = Codec.NONE
    level: int | None = None
    leader_epoch: int = -1
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    log_append_time_ms: int | None = None
    last_offset: int | None = None
    delete_horizon_ms: int | None = None

    @property
    def attributes(self) -> int:
        return (
            self.codec
            | (LOG_APPEND_TIME if self.log_append_time_ms is not None else 0)
            | (TRANSACTIONAL if self.is_transactional else 0)
            | (CONTROL if self.is_control else 0)
            | (DELETE_HORIZON if self.delete_horizon_ms is not None else 0)
        )


DEFAULTS: Final = BatchOptions()


class RecordBatchBuilder:
    """A batch in the making: call `append` for each record, then `build` once."""

    __slots__ = ("_base_timestamp", "_count", "_last_delta", "_max_timestamp", "_options", "_records")

    def __init__(self, options: BatchOptions = DEFAULTS) -> None:
        self._options = options
        self._records = bytearray()
        self._count = 0
        self._last_delta = -1
        self._base_timestamp = options.delete_horizon_ms
        self._max_timestamp = NO_TIMESTAMP

    def __len__(self) -> int:
        """The number of records so far."""
        return self._count

    @property
    def size(self) -> int:
        """The size of the batch so far in bytes, before compression."""
        return HEADER_SIZE + len(self._records)

    @property
    def next_offset(self) -> int:
        return self._options.base_offset + self._last_delta + 1

    def append(self, record: NewRecord) -> int:
        """Add a record.  Returns its offset.  Errors: ValueError for an offset that is not above the last one."""
        if self._base_timestamp is None:
            self._base_timestamp = record.timestamp
        self._max_timestamp = max(self._max_timestamp, record.timestamp)
        delta = self._last_delta + 1 if record.offset is None else record.offset - self._options.base_offset
        assert delta > self._last_delta, f"offset {record.offset} is not above {self.next_offset - 1}, the record's before it"
        body = encode_record_body(record, record.timestamp - self._base_timestamp, delta)
        self._records += write_signed(len(body))
        self._records += body
        self._last_delta = delta
        self._count += 1
        return self._options.base_offset + delta

    def build(self) -> bytearray:
        return self.sealing()()

    def sealing(self) -> Callable[[], bytearray]:
        """Compresses and checksums the batch.  Any thread may call the function that is returned; the builder is used up."""
        options = self._options
        last_delta = self._last_delta if options.last_offset is None else options.last_offset - options.base_offset
        assert last_delta >= self._last_delta, f"a batch cannot end at {options.last_offset}, before its last record"
        return partial(
            seal_batch,
            self._records,
            options,
            count=self._count,
            base_timestamp=NO_TIMESTAMP if self._base_timestamp is None else self._base_timestamp,
            max_timestamp=self._max_timestamp,
            last_delta=last_delta,
        )


def seal_batch(
    records: Buffer, options: BatchOptions, *, count: int, base_timestamp: int, max_timestamp: int, last_delta: int | None = None
) -> bytearray:
    """The batch around encoded records.  `last_delta` None: the offsets have no gaps."""
    payload = records if options.codec is Codec.NONE else compress(options.codec, records, options.level)
    batch = bytearray(HEADER_SIZE)
    HEADER.pack_into(
        batch,
        0,
        options.base_offset,
        HEADER_SIZE - LOG_OVERHEAD + len(payload),
        options.leader_epoch,
        MAGIC,
        0,
        options.attributes,
        count - 1 if last_delta is None else last_delta,
        base_timestamp,
        max_timestamp if options.log_append_time_ms is None else options.log_append_time_ms,
        options.producer_id,
        options.producer_epoch,
        options.base_sequence,
        count,
    )
    batch += payload
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))
    return batch


def stamp_producer(batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Write the producer's id, epoch and sequence into a batch, over the former ones.  The CRC is computed anew."""
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[CRC_START:]))


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    log_append_time_ms: int | None = None,
    last_offset: int | None = None,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """One batch of all records.  The arguments are those of `BatchOptions`."""
    builder = RecordBatchBuilder(
        BatchOptions(
            base_offset,
            codec,
            level,
            leader_epoch,
            producer_id,
            producer_epoch,
            base_sequence,
            is_transactional,
            is_control,
            log_append_time_ms,
            last_offset,
            delete_horizon_ms,
        )
    )
    for record in records:
        builder.append(record)
    return builder.build()


def recompressed(batch: Buffer, codec: Codec, level: int | None = None, *, max_bytes: int = DEFAULT_MAX_BYTES) -> bytearray:
    """The same records, byte for byte, behind the same header, with another codec.

    Errors: CorruptBatch when they cannot be decompressed, ExpandsTooFar when they have more than `max_bytes`.
    """
    header = read_header(batch)
    payload = compress(codec, decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size], max_bytes), level)
    attributes = header.attributes & ~CODEC_MASK | codec
    length = HEADER_SIZE - LOG_OVERHEAD + len(payload)
    rebuilt = bytearray(HEADER_SIZE)
    HEADER.pack_into(rebuilt, 0, *header._replace(batch_length=length, attributes=attributes))
    rebuilt += payload
    _CRC.pack_into(rebuilt, _CRC_AT, crc32c(memoryview(rebuilt)[CRC_START:]))
    return rebuilt


def encode_record_body(record: NewRecord, timestamp_delta: int, offset_delta: int) -> bytes:
    """A record without its length.  Source: DefaultRecord.writeTo."""
    _, key, value, headers, _ = record
    body = [_ATTRIBUTES, write_signed(timestamp_delta), write_signed(offset_delta), *_nullable(key), *_nullable(value)]
    body.append(write_signed(len(headers)))
    for name, content in headers:
        body += (*_nullable(name.encode("utf-8", "surrogateescape")), *_nullable(content))
    return b"".join(body)


def _nullable(value: Buffer | None) -> tuple[Buffer, ...]:
    return (b"\x01",) if value is None else (write_signed(len(value)), value)
