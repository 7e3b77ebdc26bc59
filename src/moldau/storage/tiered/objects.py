"""◇ The objects of a remote segment, their names, and what their indexes say.

    <topic>-<partition>-<topic id>/<start offset>-<segment id>.log
                                                              .index .timeindex .txnindex    as the segment's on a broker
                                                              .snapshot                      producers at the segment's end
                                                              .leader_epoch_checkpoint       epochs up to the segment's end

So they lie as those of Kafka's LocalTieredStorage do; under its old name, without the id, kafka-dump-log reads each of them.
Indexes are searched as they came, byte strings of Kafka's entries: nothing is parsed that is not asked for.
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final
from uuid import UUID

from moldau.storage.index import ABORTED_ENTRY, OFFSET_ENTRY, TIME_ENTRY, AbortedTransaction
from moldau.storage.producers.state import SNAPSHOT_SUFFIX
from moldau.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX
from moldau.storage.tiered.segments import RemoteSegment, TopicIdPartition
from moldau.types import uuid_from_text, uuid_to_text

LEADER_EPOCHS_SUFFIX: Final = ".leader_epoch_checkpoint"
SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX, LEADER_EPOCHS_SUFFIX)

Raw = bytes | memoryview


def folder_of(where: TopicIdPartition) -> str:
    return f"{where}/"


def object_name(segment: RemoteSegment, suffix: str) -> str:
    return f"{folder_of(segment.where)}{segment.start_offset:020d}-{uuid_to_text(segment.id)}{suffix}"


def names_of(segment: RemoteSegment) -> list[str]:
    """The names of all objects that a segment may have.

    The records come last, so that a deletion that broke off can still be understood.
    """
    return [object_name(segment, suffix) for suffix in reversed(SUFFIXES)]


def segment_id_in(name: str) -> UUID | None:
    """The segment that an object belongs to; None for a name that is none of ours."""
    stem, dot, suffix = name.rpartition("/")[2].partition(".")
    digits, dash, text = stem.partition("-")
    if not (dot and dash and f".{suffix}" in SUFFIXES and digits.isdigit()):
        return None
    try:
        return uuid_from_text(text)
    except ValueError:
        return None


def last_offset_and_position(raw: Raw, base_offset: int, offset: int) -> tuple[int, int] | None:
    """The batch of the last entry of an offset index that ends before `offset` or at it: its last offset and where it lies."""
    number = _floor(raw, OFFSET_ENTRY, offset - base_offset)
    if number < 0:
        return None
    relative_offset, position = OFFSET_ENTRY.unpack_from(raw, number * OFFSET_ENTRY.size)
    return base_offset + relative_offset, position


def offset_at_or_after(raw: Raw, base_offset: int, position: int) -> int | None:
    """The last offset of the first indexed batch that lies at `position` or later."""
    low, high = 0, len(raw) // OFFSET_ENTRY.size
    while low < high:
        middle = (low + high) // 2
        if OFFSET_ENTRY.unpack_from(raw, middle * OFFSET_ENTRY.size)[1] < position:
            low = middle + 1
        else:
            high = middle
    if low == len(raw) // OFFSET_ENTRY.size:
        return None
    relative_offset: int = OFFSET_ENTRY.unpack_from(raw, low * OFFSET_ENTRY.size)[0]
    return base_offset + relative_offset


def timestamp_and_offset(raw: Raw, base_offset: int, timestamp: int) -> tuple[int, int] | None:
    """The last entry of a time index at or below `timestamp`: up to its offset nothing is newer than it says."""
    number = _floor(raw, TIME_ENTRY, timestamp)
    if number < 0:
        return None
    newest, relative_offset = TIME_ENTRY.unpack_from(raw, number * TIME_ENTRY.size)
    return newest, base_offset + relative_offset


def aborted_in(raw: Raw) -> Iterator[AbortedTransaction]:
    for _, *numbers in ABORTED_ENTRY.iter_unpack(raw[: len(raw) // ABORTED_ENTRY.size * ABORTED_ENTRY.size]):
        yield AbortedTransaction(*numbers)


def aborted_between(entries: Iterable[AbortedTransaction], start_offset: int, end_offset: int) -> tuple[list[AbortedTransaction], bool]:
    """The aborted transactions with records from `start_offset` to before `end_offset`, and whether no later segment can have any."""
    found = []
    for aborted in entries:
        if aborted.last_offset >= start_offset and aborted.first_offset < end_offset:
            found.append(aborted)
        if aborted.last_stable_offset >= end_offset:
            return found, True
    return found, False


def _floor(raw: Raw, entry: Struct, key: int) -> int:
    """The number of the last entry whose key is at most `key`; -1 when there is none."""
    low, high = 0, len(raw) // entry.size
    while low < high:
        middle = (low + high) // 2
        if entry.unpack_from(raw, middle * entry.size)[0] <= key:
            low = middle + 1
        else:
            high = middle
    return low - 1
