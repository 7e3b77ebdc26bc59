"""◇ Checks that the records of a batch are well-formed: every length, every count, every byte.  It makes no objects of them.

    record  size · attributes (1 byte) · timestamp delta · offset delta · key size · key · value size · value · header count · headers
    header  key size · key · value size · value

A batch that passes can be read by every consumer.

Source: DefaultRecord.readFrom, DefaultRecordBatch.RecordIterator. Called by the validator of the log.
"""

from typing import Final

from moldau.protocol.records.batch import CODEC_MASK, HEADER_SIZE, BatchHeader
from moldau.protocol.records.compression import DEFAULT_MAX_BYTES, Buffer, decompress
from moldau.protocol.records.corrupt import CorruptBatch
from moldau.protocol.varint import INT64_BYTES, VarintTooLong, read_signed

TWO_BYTES: Final = 1 << 13
"""A number below this takes two bytes at most."""
_NEVER: Final = 1 << 62
"""A size that no batch has room for."""
_SIZE: Final = [_NEVER if byte & 1 else byte >> 1 for byte in range(128)]
"""The sizes by their first byte: one-byte numbers that must not be negative."""
_NULLABLE: Final = [0 if byte & 1 else byte >> 1 for byte in range(128)]
"""The sizes by their first byte: one-byte numbers of which a negative one means null."""


def are_plain_records(data: Buffer, position: int, limit: int, count: int) -> bool:  # hot: 0.4 µs a record
    """Whether there are exactly `count` records of the commonest shape: offsets without a gap, no headers, numbers below 8 Ki.

    False does not mean that the records are broken: `check_each_record` finds that out.
    """
    if count > TWO_BYTES:
        return False
    at = position
    try:
        for delta in range(0, 2 * count, 2):
            size = data[at]
            at += 1
            if size >= 0x80:
                size += (data[at] << 7) - 0x80
                at += 1
            if size & 1 or size >= 2 * TWO_BYTES:
                return False
            end = at + (size >> 1)
            at += 2
            if data[at - 1] >= 0x80:  # the timestamp
                if data[at] >= 0x80:
                    return False
                at += 1
            if delta < 0x80:
                if data[at] != delta:
                    return False
                at += 1
            else:
                if data[at] != delta & 0x7F | 0x80 or data[at + 1] != delta >> 7:
                    return False
                at += 2
            size = data[at]  # the key's size
            at += 1
            if size >= 0x80:
                size += (data[at] << 7) - 0x80
                at += 1
            if size != 1:
                if size & 1 or size >= 2 * TWO_BYTES:
                    return False
                at += size >> 1
            size = data[at]  # the value's size
            at += 1
            if size >= 0x80:
                size += (data[at] << 7) - 0x80
                at += 1
            if size != 1:
                if size & 1 or size >= 2 * TWO_BYTES:
                    return False
                at += size >> 1
            if data[at] or at + 1 != end:
                return False
            at = end
    except IndexError:
        return False
    return at == limit


def check_structure(batch: Buffer, header: BatchHeader, max_bytes: int = DEFAULT_MAX_BYTES) -> None:  # hot: 0.5 µs a record
    """Check the records of a whole batch.

    Errors: CorruptBatch; ExpandsTooFar when the records have more than `max_bytes` once decompressed.
    """
    start, limit = HEADER_SIZE, header.size
    if header.attributes & CODEC_MASK:
        batch = bytes(decompress(header.codec, memoryview(batch)[start:limit], max_bytes))
        start, limit = 0, len(batch)
    if not are_plain_records(batch, start, limit, header.records_count):
        check_each_record(batch, start, limit, header)


def check_each_record(data: Buffer, position: int, limit: int, header: BatchHeader) -> None:
    """Check decompressed records of any shape from `position` to `limit`.  Errors: CorruptBatch."""
    number = 0
    try:
        while number < header.records_count:
            position = _end_of_record(data, position, limit, header.last_offset_delta)
            number += 1
    except IndexError:
        raise CorruptBatch(f"{header.records_count} records are declared, the bytes end within record {number}") from None
    except VarintTooLong as error:
        raise CorruptBatch(f"record {number}: {error}") from None
    except CorruptBatch as error:
        raise CorruptBatch(f"record {number} {error}") from None
    if position != limit:
        raise CorruptBatch(f"{limit - position} bytes are left after the {header.records_count} records declared")


def _end_of_record(data: Buffer, position: int, limit: int, last_offset_delta: int) -> int:
    at = position + 1
    size = data[position]
    if size < 0x80:
        size = _SIZE[size]
    else:
        size, at = read_signed(data, position)
    end = at + size
    if size < 0 or end > limit:
        raise CorruptBatch(f"says it has {size if size != _NEVER else 'a negative number of'} bytes, {limit - at} are left")
    at += 1
    if data[at] < 0x80:  # the timestamp
        at += 1
    else:
        at = read_signed(data, at, INT64_BYTES)[1]
    delta, at = (data[at] >> 1 if not data[at] & 1 else -1, at + 1) if data[at] < 0x80 else read_signed(data, at)
    if not 0 <= delta <= last_offset_delta:
        raise CorruptBatch(f"is {delta} offsets behind the first one, the last one is {last_offset_delta} behind")
    for _ in (0, 1):  # key and value
        size = data[at]
        if size < 0x80:
            at += 1 + _NULLABLE[size]
        else:
            size, at = read_signed(data, at)
            at += max(size, 0)
    if at < end and data[at] == 0:
        at += 1
    else:
        at = _end_of_headers(data, at, end)
    if at != end:
        raise CorruptBatch(f"says it ends at byte {end}, its fields end at {at}")
    return end


def _end_of_headers(data: Buffer, at: int, end: int) -> int:
    if at >= end:
        raise CorruptBatch(f"says it ends at byte {end}, its fields end behind that")
    count, at = read_signed(data, at)
    if count < 0 or count > (end - at) // 2:  # a header has at least two bytes
        raise CorruptBatch(f"says it has {count} headers in the {end - at} bytes left")
    for _ in range(count):
        size, at = read_signed(data, at)
        if size < 0:
            raise CorruptBatch("has a header without a key")
        at += size
        size, at = read_signed(data, at)
        at += max(size, 0)
    return at
