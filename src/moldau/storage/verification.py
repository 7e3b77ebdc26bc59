"""◇ Reads a segment from its start and checks every batch, as a recovery must: what a crash or a disk left may be anything.

Called by `storage/recovery.py`.
"""

from collections.abc import Iterator
from typing import Final

from crc32c import crc32c

from moldau.protocol.records.batch import (
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    MIN_BATCH_LENGTH,
    BatchHeader,
    CorruptBatch,
    read_header,
)
from moldau.storage.segment import MAX_RELATIVE_OFFSET, Segment

VERIFY_CHUNK: Final = 256 << 10
"""The bytes that a recovery reads at a time: from a cold disk this costs a tenth less processor time than a quarter of it."""


class BadBatch(Exception):
    """The bytes at `position` are no batch that can follow the one before; `offset` is where it would have begun."""

    def __init__(self, position: int, offset: int, reason: str) -> None:
        super().__init__(f"at byte {position}, offset {offset}: {reason}")
        self.position = position
        self.offset = offset
        self.reason = reason


class OtherEpoch(BadBatch):
    """A whole batch whose leader epoch is not the one that began before its offset."""


def verified(segment: Segment, next_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """The headers as of `Segment.headers` from the start, every batch checked: whole, its CRC, its offsets not below `next_offset` and
    rising.

    Errors: BadBatch at the first that is not.
    """
    position = 0
    while position < segment.size:
        chunk = segment.file.pread(min(VERIFY_CHUNK, segment.size - position), position)
        at = 0
        while at < len(chunk):
            for place, header in _sound_run(segment, chunk, at, next_offset):
                yield position + place, header
                next_offset = header.next_offset
                at = place + header.size
            if at == len(chunk):
                break
            header_here = _header_in(segment, chunk, at, position, next_offset)
            if header_here is None:
                break
            end = at + header_here.size
            if end > len(chunk) and at:
                break  # it goes on beyond this chunk: begin the next one with it
            crc = crc32c(memoryview(chunk)[at + CRC_START : end])
            if end > len(chunk):
                crc = _crc_of_rest(segment, crc, position + len(chunk), position + end)
            if crc != header_here.crc:
                raise BadBatch(position + at, next_offset, "the CRC does not fit")
            yield position + at, header_here
            next_offset = header_here.next_offset
            at = end
        position += at


def _sound_run(segment: Segment, chunk: bytes, at: int, next_offset: int) -> list[tuple[int, BatchHeader]]:  # hot: 0.9 µs a batch
    """The quick road: batches from `at` on that lie in `chunk` and are sound, with their places; it ends before any that is not."""
    found: list[tuple[int, BatchHeader]] = []
    view, last = memoryview(chunk), len(chunk) - HEADER_SIZE
    unpack, make, highest = HEADER.unpack_from, BatchHeader._make, segment.base_offset + MAX_RELATIVE_OFFSET
    while at <= last:
        header = make(unpack(chunk, at))
        base_offset, length, _, magic, crc, _, delta, *_ = header
        end = at + length + LOG_OVERHEAD
        if base_offset < next_offset or delta < 0 or magic != MAGIC or length < MIN_BATCH_LENGTH or end > len(chunk):
            break
        if base_offset + delta > highest or crc32c(view[at + CRC_START : end]) != crc:
            break
        found.append((at, header))
        next_offset = base_offset + delta + 1
        at = end
    return found


def _header_in(segment: Segment, chunk: bytes, at: int, position: int, next_offset: int) -> BatchHeader | None:
    """None when the chunk ends within it and the file does not."""
    left = segment.size - position - at
    if len(chunk) - at < HEADER_SIZE <= left:
        return None
    try:
        header = read_header(chunk, at)
    except CorruptBatch as error:
        raise BadBatch(position + at, next_offset, str(error)) from None
    if header.size > left:
        raise BadBatch(position + at, next_offset, f"a batch of {header.size} bytes is cut at {left}")
    if header.base_offset < next_offset or header.last_offset_delta < 0:
        raise BadBatch(position + at, next_offset, f"offsets {header.base_offset} to {header.last_offset} cannot follow")
    if not segment.has_room_for(header.last_offset):
        raise BadBatch(position + at, next_offset, f"offset {header.last_offset} is beyond what a segment can hold")
    return header


def _crc_of_rest(segment: Segment, crc: int, position: int, end: int) -> int:
    while position < end:
        chunk = segment.file.pread(min(VERIFY_CHUNK, end - position), position)
        crc = crc32c(chunk, crc)
        position += len(chunk)
    return crc
