"""● Reads one partition on a stopped broker's disk, without the broker: records, epochs, indexes.

wrong_indexes(folder)         entries of the indexes that contradict the log
different_histories(folders)  the starts of epochs and the aborted transactions, if they differ between replicas
around(folder, value)         the batches that hold a value, and their neighbours, to find the reason of a violation
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from moldau.protocol.records.batch import BatchHeader, batches, records_of

OFFSET_ENTRY: Final = struct.Struct(">ii")
"""Offset after the segment's first, position."""
TIME_ENTRY: Final = struct.Struct(">qi")
"""Time in milliseconds, offset after the segment's first."""
PRODUCERS_HEAD_BYTES: Final = 10
PRODUCER_BYTES: Final = 46
"""The bytes of a producer snapshot: its version, check sum and count, and each of its entries."""
NEIGHBOURS: Final = 2


def batches_of(segment: Path) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each batch."""
    data = memoryview(segment.read_bytes())
    for position, header in batches(data):
        yield position, header, data[position : position + header.size]


def segments_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def epochs(folder: Path) -> list[str]:
    """The epochs of a stopped replica that have records.  Epochs without records are left out, because only leaders note them."""
    path = folder / "leader-epoch-checkpoint"  # some replicas have no such file before the first epoch
    lines = path.read_text(encoding="ascii").split("\n")[2:] if path.exists() else []
    end = max((header.next_offset for segment in segments_of(folder) for _, header, _ in batches_of(segment)), default=0)
    entries = [*(line.split() for line in lines if line), ["", str(end)]]
    return [f"{epoch}@{start}" for (epoch, start), (_, end) in pairwise(entries) if start != end]


def different_histories(name: str, folders: Mapping[int, Path]) -> Iterator[str]:
    """The differences, in words.  `folders` are by node.  All compared facts follow from the records alone."""
    told = {node_id: epochs(folder) for node_id, folder in folders.items()}
    if len(set(map(tuple, told.values()))) > 1:
        yield f"{name}: epochs differ: {told}"
    aborted = {node_id: b"".join(each.read_bytes() for each in sorted(folder.glob("*.txnindex"))) for node_id, folder in folders.items()}
    if len(set(aborted.values())) > 1:
        yield f"{name}: transaction indexes differ: { ({node_id: len(data) for node_id, data in aborted.items()}) } bytes"
    known = {node_id: _producers(folder) for node_id, folder in folders.items()}
    if len(set(map(tuple, known.values()))) > 1:
        yield f"{name}: producers differ: {known}"


def _producers(folder: Path) -> list[bytes]:
    """The producers in the snapshot of a clean stop, sorted because the snapshot has no order."""
    found = sorted(folder.glob("*.snapshot"))
    entries = found[-1].read_bytes()[PRODUCERS_HEAD_BYTES:] if found else b""
    return sorted(entries[start : start + PRODUCER_BYTES] for start in range(0, len(entries), PRODUCER_BYTES))


def wrong_indexes(folder: Path) -> Iterator[str]:
    """The wrong entries, in words.

    An entry names a batch's position and last offset, or the largest time up to an offset; both only count up.

    Two replicas need not have the same entries: each counts the bytes since its own last one.
    """
    for segment in segments_of(folder):
        base = int(segment.stem)
        found = {position: header for position, header, _ in batches_of(segment)}
        offsets = [entry for entry in OFFSET_ENTRY.iter_unpack(_whole(segment.with_suffix(".index"), OFFSET_ENTRY.size)) if any(entry)]
        for relative, position in offsets:
            header = found.get(position)
            if header is None or header.last_offset != base + relative:
                yield f"{segment.with_suffix('.index')}: offset {base + relative} is not at {position}"
        times = [entry for entry in TIME_ENTRY.iter_unpack(_whole(segment.with_suffix(".timeindex"), TIME_ENTRY.size)) if any(entry)]
        for time_ms, relative in times:
            largest = max((each.max_timestamp for each in found.values() if each.base_offset <= base + relative), default=-1)
            if largest != time_ms:
                yield f"{segment.with_suffix('.timeindex')}: {time_ms} up to offset {base + relative}, where it is {largest}"
        for what, entries in ((".index", offsets), (".timeindex", times)):
            if entries != sorted(set(entries)):
                yield f"{segment.with_suffix(what)}: entries do not count up"


def _whole(path: Path, size: int) -> bytes:
    """The bytes of all whole entries, without a partial entry that a killed broker had allocated."""
    data = path.read_bytes() if path.exists() else b""
    return data[: len(data) // size * size]


@dataclass(slots=True)
class Written:
    """The numbers that a log holds, in the order of their offsets."""

    values: list[int] = field(default_factory=list)
    sent_once: list[int] = field(default_factory=list)
    """The numbers without those that their producer sent again under a newer epoch of its own.  No broker can recognise these.

    librdkafka (2.16 too) raises its epoch after OUT_OF_ORDER_SEQUENCE_NUMBER in one partition.  Then it sends again, with new sequence
    numbers, everything that was not acknowledged in any partition.  This includes records that a broker had stored before it answered that
    it leads no more (its issue 4953).
    """
    seams: set[tuple[int, int]] = field(default_factory=set)
    """The places at which a producer begins to send again: the value before, and the value that is sent again."""

    @property
    def resent(self) -> int:
        return len(self.values) - len(self.sent_once)


def written(folder: Path) -> Written:
    found = Written()
    sent: dict[int, tuple[int, int]] = {}
    """Each value's producer and its epoch."""
    for segment in segments_of(folder):
        for _, header, data in batches_of(segment):
            producer = header.producer_id, header.producer_epoch
            for value in map(int, values_of(data)) if not header.is_control else ():
                before = sent.get(value)
                if before is not None and before[0] == producer[0] and before[1] < producer[1]:
                    found.seams.add((found.values[-1], value))
                else:
                    found.sent_once.append(value)
                found.values.append(value)
                sent[value] = producer
    return found


def around(folder: Path, value: bytes) -> Iterator[str]:
    """The batches around a value, one line each."""
    listed = [each for segment in segments_of(folder) for each in batches_of(segment)]
    wanted = [number for number, (_, header, data) in enumerate(listed) if not header.is_control and value in values_of(data)]
    for number in sorted({number + step for number in wanted for step in range(-NEIGHBOURS, NEIGHBOURS + 1)}):
        if 0 <= number < len(listed):
            _, header, data = listed[number]
            values = values_of(data)
            yield (
                f"{folder.name} offsets {header.base_offset} to {header.last_offset}, epoch {header.partition_leader_epoch}, "
                f"producer {header.producer_id} in epoch {header.producer_epoch} from {header.base_sequence}, "
                f"values {values[:1]} to {values[-1:]}"
            )


def values_of(batch: memoryview) -> list[bytes]:
    return [bytes(record.value or b"") for record in records_of(batch)]
