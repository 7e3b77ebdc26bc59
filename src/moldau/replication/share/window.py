"""◇ The record batches in a reading of the log that a share partition may acquire.

Only headers are read, a few hundred bytes at a time with one read; records stay in their file.  Called by `handlers/share_fetch.py`.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from moldau.protocol.records.batch import HEADER_SIZE, BatchHeader, read_header
from moldau.replication.share.decision import AcquiredRange, LogBatch
from moldau.storage.index import AbortedTransaction
from moldau.types import FileSlice

SCAN_CHUNK: Final = 16_384
"""Bytes of one read of headers: some dozens of small batches, or one header of a large one and what follows it."""


class Window(NamedTuple):
    """The batches of a reading.  `batches` are those of `records` from its beginning on; `ends` are their ends in it."""

    records: FileSlice
    batches: list[LogBatch]
    ends: list[int]
    aborted: list[LogBatch]
    young_ms: int | None
    """The timestamp of the first batch that is left out as too young; None when there is none."""

    def slice_of(self, acquired: Sequence[AcquiredRange]) -> FileSlice:
        """The batches that hold what was acquired, whole."""
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        begin = next((at for at, batch in enumerate(self.batches) if batch.last_offset >= first), 0)
        end = next((at for at, batch in enumerate(self.batches) if batch.last_offset >= last), len(self.batches) - 1)
        start = self.ends[begin - 1] if begin else 0
        return FileSlice(self.records.file, self.records.position + start, self.ends[end] - start)


def window_of(records: FileSlice, end_offset: int, *, aborted: Iterable[AbortedTransaction] = (), newest_ms: int | None = None) -> Window:
    """The whole batches at the beginning of `records`, up to one that holds `end_offset - 1` or is younger than `newest_ms`.

    Errors: CorruptBatch.
    """
    found = Window(records, [], [], [], None)
    dead = list(aborted)
    position, chunk, chunk_at = 0, b"", 0
    while records.size - position >= HEADER_SIZE:
        if position + HEADER_SIZE > chunk_at + len(chunk):
            chunk_at = position
            chunk = records.file.pread(min(SCAN_CHUNK, records.size - position), records.position + position)
        header = read_header(chunk, position - chunk_at)
        if header.size > records.size - position:
            break  # cut by the reader's limit
        if newest_ms is not None and header.max_timestamp > newest_ms:
            return found._replace(young_ms=header.max_timestamp)
        position += header.size
        batch = LogBatch(header.base_offset, header.last_offset)
        found.batches.append(batch)
        found.ends.append(position)
        if dead and _is_aborted(header, dead):
            found.aborted.append(batch)
        if header.last_offset >= end_offset - 1:
            break
    return found


def _is_aborted(header: BatchHeader, aborted: list[AbortedTransaction]) -> bool:
    return (
        header.is_transactional
        and not header.is_control
        and any(one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset for one in aborted)
    )
