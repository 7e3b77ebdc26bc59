"""◇ The leader's checks of a client's batch before it becomes part of the log, and the one way in which a batch is rebuilt.

    check_client_batch     header and CRC, on the view that came from the network: its cost does not depend on the number of records
                           but for those of a short, plain batch, through which it walks
    wants_examination      where that is not enough: keys of compacted topics, timestamps that may be out of bounds, another codec;
                           records that must be decompressed, or are too many, to see whether they can be read (log.record.validation);
                           and more records than the bytes can hold, so that nobody moves a log on by offsets that have no records
    examine                looks into the records, compresses them anew; heavy ones are left to a process of its own (`examine_if_light`)

A failure is a value: an error code, a text, and which records it is about.
Source: LogValidator, UnifiedLog.analyzeAndValidateRecords, ProduceRequest.validateRecords.
"""

from contextlib import suppress
from typing import Final, NamedTuple

from crc32c import crc32c

from moldau.config import MAX_LONG
from moldau.errors import ErrorCode
from moldau.protocol.records.batch import (
    CODEC_MASK,
    CONTROL,
    CRC_START,
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    UnsupportedMagic,
    read_header,
    records_of,
)
from moldau.protocol.records.builder import recompressed
from moldau.protocol.records.compression import DEFAULT_MAX_BYTES, Buffer, Codec
from moldau.protocol.records.corrupt import ExpandsTooFar
from moldau.protocol.records.structure import are_plain_records, check_each_record, check_structure
from moldau.storage.cleaner.skim import skim
from moldau.storage.config import LogConfig
from moldau.types import NO_TIMESTAMP

KEYLESS: Final = "Compacted topic cannot accept message without key"
RECORD_ERRORS_NAMED: Final = 3
LIGHT_RECORDS: Final = 2_000
LIGHT_BYTES: Final = 64 * 1024
LIGHT_PLAIN_BYTES: Final = 1024 * 1024
"""The most bytes that the loop may examine itself: some milliseconds of work, decompressed bytes included."""
WALKED_RECORDS: Final = {"structure": (1 << 31) - 1, "small": 8, "header": 0}
SMALLEST_RECORD: Final = 7
"""Bytes: its length, attributes, two deltas, two lengths that say null, and no headers."""
DENSEST: Final = 128
"""Records are taken to be compressed to no less than a part in so many: each has an offset of its own, which leaves something."""


class AppendFailure(NamedTuple):
    """A failed append: nothing was written.  `record_errors`: (index within the batch, its error)."""

    error: ErrorCode
    detail: str
    record_errors: tuple[tuple[int, str], ...] = ()


class Rules(NamedTuple):
    """The part of a log's options that an append looks at, in the form that costs least."""

    max_message_bytes: int
    segment_bytes: int
    codec: Codec | None
    """None: as the producer compressed it."""
    level: int | None
    is_compacted: bool
    log_append_time: bool
    before_max_ms: int
    after_max_ms: int
    walked_records: int
    """Batches of up to so many records are walked through; see log.record.validation."""

    @classmethod
    def of(cls, config: LogConfig) -> "Rules":
        codec = None if config.compression_type == "producer" else Codec.from_name(config.compression_type)
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        level = levels.get(codec) if codec is not None else None
        return cls(
            config.max_message_bytes,
            config.segment_bytes,
            codec,
            None if level == -1 and codec is Codec.GZIP else level,
            config.is_compacted,
            config.message_timestamp_type == "LogAppendTime",
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
            WALKED_RECORDS[config.record_validation],
        )


class Examined(NamedTuple):
    """A batch whose records are as `rules` want them; `rebuilt` where it had to be compressed anew."""

    rules: Rules
    rebuilt: bytearray | None


class Unexamined(NamedTuple):
    """A batch that is not appended yet.  The caller has it examined by these rules, beside the loop, and calls again."""

    rules: Rules


def check_client_batch(records: memoryview | bytearray, rules: Rules) -> BatchHeader | AppendFailure:  # hot: 3 µs + CRC
    """The header of the one batch that a client may send for a partition, or why it is refused.

    Errors: INVALID_RECORD, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE.
    """
    try:
        header = read_header(records)
    except CorruptBatch as error:
        return _unreadable(records, error)
    size = header.batch_length + 12
    if size != len(records):
        return _not_one_batch(size, len(records))
    if header.base_offset != 0:
        return AppendFailure(ErrorCode.INVALID_RECORD, f"The base offset of a produced batch should be 0, but it is {header.base_offset}")
    if size > rules.max_message_bytes:
        return too_large(size, rules.max_message_bytes)
    with memoryview(records)[CRC_START:] as covered:
        if crc32c(covered) != header.crc:
            return AppendFailure(ErrorCode.CORRUPT_MESSAGE, "Record batch is corrupt: its CRC does not fit its bytes")
    count = header.records_count
    attributes = header.attributes
    if count <= 0 or header.last_offset_delta + 1 != count:
        return AppendFailure(
            ErrorCode.INVALID_RECORD, f"Inconsistent batch: last offset delta {header.last_offset_delta} and {count} records declared"
        )
    if attributes & CONTROL:
        return AppendFailure(ErrorCode.INVALID_RECORD, "Clients are not allowed to write control records")
    if attributes & CODEC_MASK > Codec.ZSTD:
        return AppendFailure(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Codec {attributes & CODEC_MASK} is unknown")
    if header.producer_id >= 0 and header.base_sequence < 0:
        return AppendFailure(
            ErrorCode.INVALID_RECORD, f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id}"
        )
    if count <= rules.walked_records and count <= LIGHT_RECORDS and not attributes & CODEC_MASK:
        if are_plain_records(records, HEADER_SIZE, size, count):
            return header
        try:
            check_each_record(records, HEADER_SIZE, size, header)
        except CorruptBatch as error:
            return AppendFailure(ErrorCode.INVALID_RECORD, f"Record batch cannot be read: {error}")
    return header


def wants_examination(header: BatchHeader, rules: Rules, now_ms: int) -> bool:
    """Whether the header is not enough: an option asks for what only the records tell, or for another codec."""
    if rules.codec is not None and header.attributes & CODEC_MASK != rules.codec:
        return True
    return _must_walk(header, rules) or rules.is_compacted or _must_look_closely(header, rules, now_ms)


def _must_walk(header: BatchHeader, rules: Rules) -> bool:
    """Through records that `check_client_batch` has not walked through."""
    count = header.records_count
    return count <= rules.walked_records and (count > LIGHT_RECORDS or bool(header.attributes & CODEC_MASK))


def is_light(header: BatchHeader, *, is_compressing: bool) -> bool:
    """Whether a loop may look into the records, as far as the header tells: nobody knows yet how far compressed ones expand."""
    return header.records_count <= LIGHT_RECORDS and not (is_compressing and header.batch_length > LIGHT_BYTES)


def examine_if_light(records: Buffer, header: BatchHeader, rules: Rules, now_ms: int) -> Examined | AppendFailure | Unexamined:
    """`examine`, unless that would keep a loop from others for longer than some milliseconds."""
    if is_light(header, is_compressing=rules.codec is not None or bool(header.attributes & CODEC_MASK)):
        with suppress(ExpandsTooFar):
            return examine(records, rules, now_ms, LIGHT_PLAIN_BYTES)
    return Unexamined(rules)


def examine(
    records: Buffer, rules: Rules, now_ms: int, max_bytes: int = DEFAULT_MAX_BYTES
) -> Examined | AppendFailure:  # hot: 0.4 µs a record of a compacted topic
    """Examine the records, and compress the batch as the topic demands.  The header and the CRC were checked before.

    Errors: INVALID_RECORD when they cannot be read or one has no key, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE when the result is; raises
    ExpandsTooFar when there is more than `max_bytes` of them.
    """
    header = read_header(records)
    try:
        if _must_walk(header, rules):
            check_structure(records, header, max_bytes)
        if rules.is_compacted or _must_look_closely(header, rules, now_ms):
            failure = _check_records(records, header, rules, now_ms, max_bytes)
            if failure is not None:
                return failure
        if rules.codec is None or header.codec is rules.codec:
            return Examined(rules, None)
        rebuilt = recompressed(records, rules.codec, rules.level, max_bytes=max_bytes)
    except ExpandsTooFar:
        if max_bytes < DEFAULT_MAX_BYTES:
            raise
        return AppendFailure(ErrorCode.INVALID_RECORD, f"Record batch cannot be read: its records hold more than {max_bytes} bytes")
    except CorruptBatch as error:
        return AppendFailure(ErrorCode.INVALID_RECORD, f"Record batch cannot be read: {error}")
    return too_large(len(rebuilt), rules.max_message_bytes) if len(rebuilt) > rules.max_message_bytes else Examined(rules, rebuilt)


def _must_look_closely(header: BatchHeader, rules: Rules, now_ms: int) -> bool:
    """Whether more than the keys has to be examined."""
    payload = header.batch_length + 12 - HEADER_SIZE
    if header.records_count * SMALLEST_RECORD > (payload * DENSEST if header.attributes & CODEC_MASK else payload):
        return True
    if rules.log_append_time:
        return False
    latest = now_ms + rules.after_max_ms
    return header.max_timestamp > latest or header.base_timestamp > latest or rules.before_max_ms != MAX_LONG


def _check_records(records: Buffer, header: BatchHeader, rules: Rules, now_ms: int, max_bytes: int) -> AppendFailure | None:
    """The errors of single records: keys and timestamps.  Errors: CorruptBatch."""
    keyless: list[tuple[int, str]] = []
    untimely: list[tuple[int, str]] = []
    if not _must_look_closely(header, rules, now_ms):
        keys = skim(header, bytes(records), 0, max_bytes).keys
        keyless = [(index, KEYLESS) for index, key in enumerate(keys) if key is None]
    else:
        earliest, latest = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
        for index, record in enumerate(records_of(records, max_bytes=max_bytes)):
            timestamp = record.timestamp
            if rules.is_compacted and record.key is None:
                keyless.append((index, KEYLESS))
            elif not rules.log_append_time and timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
                untimely.append((index, f"Timestamp {timestamp} is out of range. It should be within [{earliest}, {latest}]"))
    if not keyless and not untimely:
        return None
    errors = tuple(sorted(keyless + untimely))
    if untimely:
        return AppendFailure(ErrorCode.INVALID_TIMESTAMP, "One or more records have been rejected due to invalid timestamp", errors)
    named = ", ".join(f"record {index}: {text}" for index, text in errors[:RECORD_ERRORS_NAMED])
    return AppendFailure(
        ErrorCode.INVALID_RECORD, f"One or more records have been rejected: {len(errors)} errors in total: {named}", errors
    )


def too_large(size: int, limit: int) -> AppendFailure:
    return AppendFailure(
        ErrorCode.MESSAGE_TOO_LARGE, f"The record batch size is {size} bytes, which exceeds the maximum configured size of {limit} bytes"
    )


def _unreadable(records: memoryview | bytearray, error: CorruptBatch) -> AppendFailure:
    if isinstance(error, UnsupportedMagic):
        return AppendFailure(ErrorCode.INVALID_RECORD, f"Only record batches of magic 2 can be produced, this has magic {error.magic}")
    if len(records) < HEADER_SIZE:
        return AppendFailure(ErrorCode.INVALID_RECORD, "A produce request must have exactly one record batch per partition; there is none")
    return AppendFailure(ErrorCode.CORRUPT_MESSAGE, f"Record batch is corrupt: {error}")


def _not_one_batch(size: int, length: int) -> AppendFailure:
    if size > length:
        return AppendFailure(ErrorCode.INVALID_RECORD, f"The record batch is cut: it says {size} bytes, {length} came")
    return AppendFailure(ErrorCode.INVALID_RECORD, f"A partition takes exactly one record batch; {length - size} bytes follow the first")
