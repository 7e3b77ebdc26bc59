"""◇ Index files and producer snapshots in Kafka's lines, held against the segment they belong to.

    .index      relative offset int32, position int32                       .timeindex   timestamp int64, relative offset int32
    .txnindex   version int16, producer id, first, last, last stable offset: int64          .snapshot    see `snapshot_lines`

Source: DumpLogSegments.java, OffsetIndex.java, TimeIndex.java, ProducerStateManager.java.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from crc32c import crc32c

from moldau.protocol.records.batch import CorruptBatch, batches, next_sequence, read_header, records_of

_INDEX: Final = Struct(">ii")
_TIME_INDEX: Final = Struct(">qi")
_TXN_INDEX: Final = Struct(">hqqqq")
_SNAPSHOT_HEAD: Final = Struct(">hIi")
_SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
_CRC_COVERS_FROM: Final = 6
_SNAPSHOT_VERSION: Final = 1


class BrokenIndex(Exception):
    """The file cannot be the kind of index that its name says."""


def _entries(packed: Struct, data: memoryview) -> list[tuple[int, ...]]:
    whole = len(data) // packed.size * packed.size
    return [tuple(entry) for entry in packed.iter_unpack(data[:whole])]


def offset_entries(data: memoryview, base_offset: int) -> list[tuple[int, int]]:
    """Offset and position, without the zeros of a file laid out in advance."""
    found = []
    for number, (relative, position) in enumerate(_entries(_INDEX, data)):
        if relative == 0 and number > 0:
            break
        found.append((base_offset + relative, position))
    return found


def time_entries(data: memoryview, base_offset: int) -> list[tuple[int, int]]:
    """Timestamp and offset."""
    found = []
    for number, (timestamp, relative) in enumerate(_entries(_TIME_INDEX, data)):
        if relative == 0 and number > 0:
            break
        found.append((timestamp, base_offset + relative))
    return found


def check_offset_index(data: memoryview, base_offset: int) -> None:
    """Checks the file as a broker does before it trusts it.  Errors: BrokenIndex."""
    if len(data) % _INDEX.size:
        raise BrokenIndex(f"its {len(data)} bytes are not a multiple of {_INDEX.size}")
    entries = offset_entries(data, base_offset)
    if entries and entries[-1][0] < base_offset:
        raise BrokenIndex(f"its last offset {entries[-1][0]} is below its first, {base_offset}")


def check_time_index(data: memoryview, base_offset: int) -> None:
    """Errors: BrokenIndex."""
    if len(data) % _TIME_INDEX.size:
        raise BrokenIndex(f"its {len(data)} bytes are not a multiple of {_TIME_INDEX.size}")
    entries = time_entries(data, base_offset)
    if entries and entries[-1][0] < entries[0][0]:
        raise BrokenIndex(f"its last timestamp {entries[-1][0]} is below its first, {entries[0][0]}")
    if entries and entries[-1][1] < base_offset:
        raise BrokenIndex(f"its last offset {entries[-1][1]} is below its first, {base_offset}")


@dataclass
class OffsetIndexDump:
    """`mismatches`: pairs of the offset in the index and the offset in the log, -1 for none."""

    base_offset: int
    verify_only: bool = False
    mismatches: list[tuple[int, int]] = field(default_factory=list)

    def lines(self, data: memoryview, log: memoryview) -> Iterator[str]:
        for offset, position in offset_entries(data, self.base_offset):
            found = _last_offset_at(log, position)
            if found != offset:
                self.mismatches.append((offset, found))
            if not self.verify_only:
                yield f"offset: {offset} position: {position}"


def _last_offset_at(log: memoryview, position: int) -> int:
    try:
        return read_header(log, position).last_offset
    except CorruptBatch:
        return -1


@dataclass
class TimeIndexDump:
    base_offset: int
    verify_only: bool = False
    mismatches: list[tuple[int, int]] = field(default_factory=list)
    out_of_order: list[tuple[int, int]] = field(default_factory=list)
    not_found: list[tuple[int, int]] = field(default_factory=list)

    def lines(self, data: memoryview, index: memoryview, log: memoryview) -> Iterator[str]:
        places = offset_entries(index, self.base_offset)
        offsets = [offset for offset, _ in places]
        previous = -1
        for timestamp, offset in time_entries(data, self.base_offset):
            at = bisect_right(offsets, offset) - 1
            self._compare(timestamp, offset, log[places[at][1] if at >= 0 else 0 :], previous)
            if not self.verify_only:
                yield f"timestamp: {timestamp} offset: {offset}"
            previous = timestamp

    def _compare(self, timestamp: int, offset: int, log: memoryview, previous: int) -> None:
        try:
            for position, header in batches(log):
                if header.last_offset >= offset:
                    if header.last_offset != offset:
                        self.not_found.append((offset, header.last_offset))
                        return
                    highest = max((one.timestamp for one in records_of(log[position:])), default=-1)
                    if highest != timestamp:
                        self.mismatches.append((timestamp, highest))
                    if previous >= timestamp:
                        self.out_of_order.append((timestamp, previous))
                    return
        except CorruptBatch:
            pass  # an offset that cannot be read was not found
        self.not_found.append((offset, -1))


def transaction_index_lines(data: memoryview) -> Iterator[str]:
    for version, producer_id, first, last, stable in _entries(_TXN_INDEX, data):
        yield f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} lastStableOffset: {stable}"


def snapshot_lines(data: memoryview) -> Iterator[str]:
    """version int16 · crc of what follows it uint32 · count int32 · entries.  Errors: BrokenIndex."""
    if len(data) < _SNAPSHOT_HEAD.size:
        raise BrokenIndex(f"{len(data)} bytes cannot hold a snapshot's head")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise BrokenIndex(f"Snapshot contained an unknown file version {version}")
    if crc32c(data[_CRC_COVERS_FROM:]) != crc:
        raise BrokenIndex(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {crc32c(data[_CRC_COVERS_FROM:])}"
        )
    entries = data[_SNAPSHOT_HEAD.size :]
    if count < 0 or count * _SNAPSHOT_ENTRY.size != len(entries):
        raise BrokenIndex(f"{count} producers are declared, {len(entries)} bytes follow")
    for entry in _entries(_SNAPSHOT_ENTRY, entries):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, first_open = entry
        started = f"OptionalLong[{first_open}]" if first_open >= 0 else "OptionalLong.empty"
        line = (
            f"producerId: {producer_id} producerEpoch: {epoch} coordinatorEpoch: {coordinator_epoch}"
            f" currentTxnFirstOffset: {started} lastTimestamp: {timestamp} "
        )
        if last_offset >= 0:
            line += (
                f"firstSequence: {_back(last_sequence, delta)} lastSequence: {last_sequence}"
                f" lastOffset: {last_offset} offsetDelta: {delta} timestamp: {timestamp}"
            )
        yield line


def _back(sequence: int, count: int) -> int:
    """`count` before `sequence`, around the wrap."""
    return sequence - count if sequence >= count else next_sequence(sequence, 0x80000000 - count) if count else sequence
