"""◇ All remote segments of one partition, as its records in `__remote_log_metadata` say, and which of them holds an offset.

A log's history may have forked: a leader that lost its place had copied what the next one never saw.  So a segment is found by offset *and*
leader epoch, and the epochs of the log at hand (its lineage) say which epoch an offset belongs to: the records of one epoch are the same
wherever they lie.  Segments that a later copy covers are kept, unread, until retention takes them or the other is gone.

Only `replay` changes it, and everyone who replays the same records knows the same.
Source: RemoteLogMetadataCache, RemoteLogLeaderEpochState, RemoteLogManager.isRemoteSegmentWithinLeaderEpochs; KIP-405.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final
from uuid import UUID

from moldau.protocol.wire import StoredRecord
from moldau.storage.epochs import EpochEntry
from moldau.storage.tiered.records import (
    RemoteLogSegmentMetadataRecord,
    RemoteLogSegmentMetadataUpdateRecord,
    RemotePartitionDeleteMetadataRecord,
)
from moldau.storage.tiered.segments import ALLOWED, PartitionDeletion, RemoteSegment, SegmentState, TopicIdPartition, segment_of

Lineage = Sequence[EpochEntry]
"""The leader epochs of a log, oldest first, each with its start offset."""


class RemoteLog:
    """See the module."""

    __slots__ = ("_by_epoch", "_covered", "_highest", "deletion", "segments", "where")

    def __init__(self, where: TopicIdPartition) -> None:
        self.where: Final = where
        self.segments: Final[dict[UUID, RemoteSegment]] = {}
        """All whose deletion is not finished."""
        self.deletion: PartitionDeletion | None = None
        self._by_epoch: Final[dict[int, list[tuple[int, UUID]]]] = {}
        """Readable ones: for each epoch, where it begins in each segment, rising."""
        self._covered: Final[dict[int, dict[UUID, int]]] = {}
        """For each epoch, its starts in segments that would be readable if others did not cover them."""
        self._highest: Final[dict[int, int]] = {}
        """For each epoch, the last of its offsets that ever was readable."""

    def replay(self, record: StoredRecord) -> bool:
        """False when its state does not follow from the one before: then it means nothing."""
        match record:
            case RemoteLogSegmentMetadataRecord():
                segment = segment_of(record)
                if not self._may_become(segment.id, segment.state):
                    return False
                self._put(segment)
            case RemoteLogSegmentMetadataUpdateRecord():
                state = SegmentState(record.remote_log_segment_state)
                segment_id = record.remote_log_segment_id.id
                if segment_id not in self.segments or not self._may_become(segment_id, state):
                    return False
                self._put(self.segments[segment_id].updated(record))
            case RemotePartitionDeleteMetadataRecord():
                self.deletion = PartitionDeletion(record.remote_partition_delete_state)
        return True

    def _may_become(self, segment_id: UUID, state: SegmentState) -> bool:
        before = self.segments.get(segment_id)
        return state in ALLOWED[before.state if before is not None else None]

    def _put(self, segment: RemoteSegment) -> None:
        before = self.segments.get(segment.id)
        if before is not None and before.state is SegmentState.COPY_FINISHED:
            self._unlist(before)
        if segment.state is SegmentState.DELETE_FINISHED:
            self.segments.pop(segment.id, None)
            return
        self.segments[segment.id] = segment
        if segment.state is SegmentState.COPY_FINISHED:
            for epoch, start_offset in segment.leader_epochs:
                self._list(epoch, start_offset, segment)
                self._highest[epoch] = max(self._highest.get(epoch, -1), segment.end_offset_of(epoch))

    def _list(self, epoch: int, start_offset: int, segment: RemoteSegment) -> None:
        """List a readable segment.

        Segments that it covers are no longer read; a covered one is not listed.  So starts and ends both rise.
        """
        listed = self._by_epoch.setdefault(epoch, [])
        end_offset = segment.end_offset_of(epoch)
        after = bisect_right(listed, start_offset, key=_start_of)
        if after and self._end_in(listed[after - 1], epoch) > end_offset:
            self._cover(epoch, [(start_offset, segment.id)])
            return
        first = bisect_left(listed, start_offset, key=_start_of)
        last = first
        while last < len(listed) and self._end_in(listed[last], epoch) <= end_offset:
            last += 1
        self._cover(epoch, listed[first:last])
        listed[first:last] = [(start_offset, segment.id)]

    def _cover(self, epoch: int, segments: list[tuple[int, UUID]]) -> None:
        if segments:
            self._covered.setdefault(epoch, {}).update((segment_id, start_offset) for start_offset, segment_id in segments)

    def _end_in(self, listed: tuple[int, UUID], epoch: int) -> int:
        return self.segments[listed[1]].end_offset_of(epoch)

    def _unlist(self, segment: RemoteSegment) -> None:
        for epoch, start_offset in segment.leader_epochs:
            listed, covered = self._by_epoch[epoch], self._covered.pop(epoch, {})
            covered.pop(segment.id, None)
            number = bisect_left(listed, start_offset, key=_start_of)
            if number < len(listed) and listed[number][1] == segment.id:
                del listed[number]
            for segment_id, start in covered.items():  # what it had covered is read again
                self._list(epoch, start, self.segments[segment_id])
            if not listed:
                del self._by_epoch[epoch]

    # Looking up

    def find(self, epoch: int, offset: int) -> RemoteSegment | None:
        """The readable segment with the record at `offset`, which is of `epoch`."""
        listed = self._by_epoch.get(epoch)
        if not listed:
            return None
        number = bisect_right(listed, offset, key=_start_of)
        if not number:
            return None
        segment = self.segments[listed[number - 1][1]]
        return segment if offset <= segment.end_offset_of(epoch) else None

    def find_in(self, lineage: Lineage, offset: int) -> RemoteSegment | None:
        """The segment as `find` finds it, in the log that has this lineage."""
        epoch = _epoch_at(lineage, offset)
        return self.find(epoch, offset) if epoch is not None else None

    def covered_from(self, lineage: Lineage, offset: int) -> int:
        """The first offset from `offset` on that is in no readable segment: everything between can be read from remote storage."""
        while True:
            epoch = _epoch_at(lineage, offset)
            segment = self.find(epoch, offset) if epoch is not None else None
            if segment is None or epoch is None:
                return offset
            offset = min(segment.end_offset_of(epoch), _end_of(lineage, epoch)) + 1

    @property
    def has_copies(self) -> bool:
        """Whether anything of it was ever copied, as far as is known."""
        return bool(self._highest)

    def highest_offset(self, lineage: Lineage) -> int:
        """The last offset, of the log that has this lineage, that was ever brought into remote storage; -1 when nothing was."""
        for entry in reversed(lineage):
            if entry.epoch in self._highest:
                return min(self._highest[entry.epoch], _end_of(lineage, entry.epoch))
        return -1

    def is_covered(self, lineage: Lineage, segment: RemoteSegment, from_offset: int) -> bool:
        """Whether all that the log with this lineage has of `segment`, from `from_offset` on, can be read, be it in others."""
        for epoch, start_offset in segment.leader_epochs:
            own = next((entry for entry in lineage if entry.epoch == epoch), None)
            if own is not None:
                start = max(start_offset, own.start_offset, from_offset)
                end = min(segment.end_offset_of(epoch), _end_of(lineage, epoch))
                if start <= end and self.covered_from(lineage, start) <= end:
                    return False
        return True

    def kept_from(self, lineage: Lineage, offset: int, log_end_offset: int) -> int:
        """The offset as `covered_from`, by segments of which the log has every record.

        Only after such a one may a local log begin: a replica could not begin within a segment that goes on with another leader's records.
        """
        while (epoch := _epoch_at(lineage, offset)) is not None:
            found = self.find(epoch, offset)
            others = (self.segments[segment_id] for segment_id in self._covered.get(epoch, {}))
            ends = [
                each.end_offset
                for each in ([found] if found is not None else []) + list(others)
                if each.start_offset <= offset <= each.end_offset < log_end_offset and shared_end(each, lineage) > each.end_offset
            ]
            if not ends:
                break
            offset = max(ends) + 1
        return offset

    def first_offset(self, lineage: Lineage) -> int | None:
        """The first that can be read in the log that has this lineage."""
        for entry in lineage:
            for start_offset, segment_id in self._by_epoch.get(entry.epoch, []):
                if self.segments[segment_id].end_offset_of(entry.epoch) >= entry.start_offset:
                    return max(start_offset, entry.start_offset)
        return None

    def readable(self, lineage: Lineage, log_end_offset: int) -> Iterator[RemoteSegment]:
        """Whole segments of the log that has this lineage, from the oldest on."""
        with_records = filtered(lineage)
        given: set[UUID] = set()
        for entry in with_records:
            for _, segment_id in self._by_epoch.get(entry.epoch, []):
                segment = self.segments[segment_id]
                if segment_id not in given and is_within(segment, with_records, log_end_offset):
                    given.add(segment_id)
                    yield segment


def filtered(lineage: Lineage) -> list[EpochEntry]:
    """The lineage without the epochs in which nothing was written: the next one begins where they do."""
    kept = [before for before, after in pairwise(lineage) if before.start_offset != after.start_offset]
    return [*kept, *lineage[-1:]]


def is_within(segment: RemoteSegment, lineage: Lineage, log_end_offset: int) -> bool:
    """Whether all of the segment that is not older than the lineage is part of its history.  `lineage` is `filtered`."""
    if not lineage or segment.end_offset >= log_end_offset:
        return False
    starts = dict(lineage)
    own = [entry for entry in filtered(segment.leader_epochs) if entry.epoch >= lineage[0].epoch]
    if not own:
        return False
    for number, (epoch, start_offset) in enumerate(own):
        if epoch not in starts:
            return False
        if number == 0 and epoch != lineage[0].epoch and start_offset < starts[epoch]:
            return False
        if number > 0 and start_offset != starts[epoch]:
            return False
        following = own[number + 1].epoch if number + 1 < len(own) else None
        if following is not None and _next_epoch(lineage, epoch) != following:
            return False
    return segment.end_offset <= _end_of(lineage, own[-1].epoch)


def shared_end(segment: RemoteSegment, lineage: Lineage) -> int:
    """Exclusive: up to where the segment belongs to the history of the log with this lineage.  After that come records of a lost leader."""
    end = segment.start_offset
    for epoch, _ in segment.leader_epochs:
        own = next((entry for entry in lineage if entry.epoch == epoch), None)
        if own is None and lineage and epoch > lineage[0].epoch:
            return end
        last = segment.end_offset_of(epoch)
        end = min(last, _end_of(lineage, epoch)) + 1
        if end <= last:
            return end
    return end


def _epoch_at(lineage: Lineage, offset: int) -> int | None:
    number = bisect_right(lineage, offset, key=_entry_start)
    return lineage[number - 1].epoch if number else None


def _next_epoch(lineage: Lineage, epoch: int) -> int | None:
    return next((entry.epoch for entry in lineage if entry.epoch > epoch), None)


def _end_of(lineage: Lineage, epoch: int) -> int:
    """The last offset of `epoch`; without an end when it is the newest."""
    return next((entry.start_offset - 1 for entry in lineage if entry.epoch > epoch), 1 << 63)


def _start_of(listed: tuple[int, UUID]) -> int:
    return listed[0]


def _entry_start(entry: EpochEntry) -> int:
    return entry.start_offset
