"""◇ Builds a batch anew with fewer records, or with none: the same offsets, sequence and epoch, a new CRC."""

from itertools import compress as select
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from moldau.protocol.records.batch import (
    CODEC_MASK,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    BatchHeader,
)
from moldau.protocol.records.compression import Buffer, Codec, compress
from moldau.protocol.varint import INT64_BYTES, read_signed, write_signed
from moldau.storage.cleaner.skim import Skimmed
from moldau.types import NO_TIMESTAMP

_CRC: Final = Struct(">I")
_CRC_AT: Final = CRC_START - 4


class Batch(NamedTuple):
    """A batch to write, with its header."""

    header: BatchHeader
    content: Buffer


def rebuilt(header: BatchHeader, records: Skimmed, stays: list[bool], horizon: int | None) -> Batch:
    """The batch with the records that stay.  A new delete horizon takes the place of the base timestamp, so all deltas change with it."""
    data = records.plain
    kept = list(select(zip([records.start, *records.ends], records.ends, strict=False), stays))
    times = [_time_of(data, start) for start, _ in kept]
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if horizon is None:
        content = b"".join([data[start:end] for start, end in kept])
    else:
        shift = base_timestamp - horizon
        content = b"".join([_with_delta(data[rest:end], delta + shift) for (delta, rest), (_, end) in zip(times, kept, strict=True)])
        base_timestamp = horizon
        attributes |= DELETE_HORIZON
    latest = header.max_timestamp if attributes & LOG_APPEND_TIME else header.base_timestamp + max(times)[0]
    payload = compress(Codec(attributes & CODEC_MASK), content)
    return _sealed(
        header._replace(attributes=attributes, base_timestamp=base_timestamp, max_timestamp=latest, records_count=len(kept)), payload
    )


def emptied(header: BatchHeader) -> Batch:
    """A batch without records, with what a producer's state needs: offsets, sequence, epoch."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return _sealed(header._replace(attributes=attributes, base_timestamp=header.max_timestamp, records_count=0), b"")


def _time_of(data: bytes, start: int) -> tuple[int, int]:
    """The timestamp delta of the record at `start`, and the position behind it."""
    _, attributes_at = read_signed(data, start)
    return read_signed(data, attributes_at + 1, INT64_BYTES)


def _with_delta(rest: bytes, delta: int) -> bytes:
    body = b"\0" + write_signed(delta) + rest
    return write_signed(len(body)) + body


def _sealed(header: BatchHeader, payload: Buffer) -> Batch:
    header = header._replace(batch_length=HEADER_SIZE - LOG_OVERHEAD + len(payload), max_timestamp=max(header.max_timestamp, NO_TIMESTAMP))
    content = bytearray(HEADER.pack(*header))
    content += payload
    with memoryview(content)[CRC_START:] as covered:
        crc = crc32c(covered)
    _CRC.pack_into(content, _CRC_AT, crc)
    return Batch(header._replace(crc=crc), content)
