"""◇ Reads the batches of a segment, whole and checked: a copy must not get a new CRC over old damage."""

from collections.abc import Callable, Iterator
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
from moldau.storage.cleaner.plan import CleaningPlan, SegmentToClean
from moldau.storage.files import Files
from moldau.storage.segment import Segment

READ_CHUNK: Final = 4 << 20

Pace = Callable[[int], None]
"""Called with the number of bytes read or written: a worker sleeps here to keep to its limit."""


def read_batches(files: Files, plan: CleaningPlan, segment: SegmentToClean, pace: Pace) -> Iterator[tuple[BatchHeader, bytes, int]]:
    """The batches of a segment: header, a chunk of the file, and the batch's place in it.  Errors: CorruptBatch."""
    file = Segment.open(files, plan.directory, segment.base_offset, index_interval_bytes=0, now_ms=0).file
    unpack, make = HEADER.unpack_from, BatchHeader._make
    position = 0
    while position < segment.size:
        chunk = file.pread(min(READ_CHUNK, segment.size - position), position)
        if len(chunk) >= HEADER_SIZE and (size := read_header(chunk).size) > len(chunk):
            chunk = file.pread(size, position)
        pace(len(chunk))
        at, view, last = 0, memoryview(chunk), len(chunk) - HEADER_SIZE
        while at <= last:
            header = make(unpack(chunk, at))
            end = at + header[1] + LOG_OVERHEAD
            if end > len(chunk) and at > 0:
                break
            if header[3] != MAGIC or header[1] < MIN_BATCH_LENGTH or end > len(chunk) or crc32c(view[at + CRC_START : end]) != header[4]:
                raise CorruptBatch(f"{plan.name}: the batch at offset {header.base_offset} is damaged: it is not compacted")
            yield header, chunk, at
            at = end
        if at == 0:
            raise CorruptBatch(f"{plan.name}: the segment {segment.base_offset} ends within a batch at byte {position}")
        position += at
