"""◇ A model of a replicated, tiered log, whichever replica leads: the reference that every replica is held against.

A record that was acknowledged, or that a leader showed to a reader, is fixed: no replica ever shows another record at that offset.  An
acknowledged record stays, unless an unclean election gives it up.  A record that was only shown may go with a power failure.  The log never
starts before the last acknowledged deletion.  If nothing else lets records go, it never starts beyond the furthest requested deletion.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from moldau.protocol.records.batch import batches, records_of
from moldau.storage.producers.replay import read_marker


class Seen(NamedTuple):
    """One record."""

    offset: int
    leader_epoch: int
    value: bytes
    producer_id: int
    is_transactional: bool
    is_marker: bool
    is_abort: bool


class TierModel:
    """See the module."""

    def __init__(self, *, has_retention: bool) -> None:
        self.records: Final[dict[int, Seen]] = {}
        self.acknowledged: Final[set[int]] = set()
        self.lowest_start = 0
        self.highest_start = 1 << 62 if has_retention else 0
        self._unclean_epoch = -1
        """The epoch of an unclean election.  Earlier acknowledgements are no promise any more."""
        self.violations: Final[list[str]] = []

    def violated(self, what: str) -> None:
        self.violations.append(what)

    # What happens

    def was_acknowledged(self, records: Iterable[Seen]) -> None:
        for record in records:
            self._fix(record, "acknowledged")
            self.acknowledged.add(record.offset)

    def deletion_asked(self, offset: int) -> None:
        """Note a request to delete the records below `offset`."""
        self.highest_start = max(self.highest_start, offset)

    def deletion_acknowledged(self, offset: int) -> None:
        self.lowest_start = max(self.lowest_start, offset)

    def elected(self, leader_epoch: int, epochs: Iterable[tuple[int, int]], end_offset: int, *, is_clean: bool) -> None:
        """Note an election.  From now on the log with these leader epochs and starts of epochs counts."""
        if not is_clean:
            self._unclean_epoch = leader_epoch
        starts = sorted(epochs, key=lambda entry: entry[1])
        for offset in sorted(self.records):
            epoch = max((each for each, start in starts if start <= offset), default=None)
            if offset < end_offset and (epoch is None or epoch == self.records[offset].leader_epoch):
                continue
            is_promised = offset in self.acknowledged and self.records[offset].leader_epoch >= self._unclean_epoch
            if is_promised and offset >= self.lowest_start:
                self.violated(f"offset {offset} was acknowledged, and the new leader has it not: epochs {starts}, end {end_offset}")
            del self.records[offset]
            self.acknowledged.discard(offset)
        if not is_clean:
            self.lowest_start = min(self.lowest_start, end_offset)

    # What must hold

    def knows_producer(self, producer_id: int, start: int) -> bool:
        """Whether a log that starts at `start` has records of the producer.  Without records it may forget the producer, as Kafka does."""
        return any(each.producer_id == producer_id and not each.is_marker for offset, each in self.records.items() if offset >= start)

    def starts(self, who: str, start: int) -> None:
        """Check the present start of a leader's log."""
        if not self.lowest_start <= start <= self.highest_start:
            self.violated(f"{who} starts at {start}, which must lie between {self.lowest_start} and {self.highest_start}")

    def served(self, who: str, start: int, end: int, records: list[Seen]) -> None:
        """Check all records that a leader shows from its start to `end` (exclusive)."""
        offsets = [record.offset for record in records]
        if offsets != list(range(start, end)):
            missing = sorted(set(range(start, end)) - set(offsets))
            self.violated(f"{who} shows offsets {start} to {end} but for {missing[:5]}, or some twice or in another order")
        for record in records:
            self._fix(record, f"shown by {who}")
        written = [record.value for record in records if not record.is_marker]
        if len(set(written)) < len(written) and self._unclean_epoch < 0:
            twice = sorted({value for value in written if written.count(value) > 1})
            self.violated(f"{who} has stored twice what was sent again: {twice[:3]}")

    def served_committed(self, who: str, start: int, end: int, values: list[tuple[int, bytes]]) -> None:
        """Check the records that a read_committed reader keeps, from `start` to the last stable offset, `end`.

        After a restart that offset may lie beyond a transaction with a marker that is still above the high watermark.  Such records are not
        judged.
        """
        expected, decided_end = self._committed(start, end)
        shown = [each for each in values if each[0] < decided_end]
        if shown != expected:
            wrong = sorted(set(shown) ^ set(expected))
            self.violated(f"{who} shows other committed records between {start} and {end} than are: {wrong[:5]}")

    def _committed(self, start: int, end: int) -> tuple[list[tuple[int, bytes]], int]:
        """The committed (offset, value) pairs, and the offset up to which known markers decide everything."""
        aborted: set[int] = set()
        since: dict[int, list[int]] = {}
        for offset in sorted(self.records):
            record = self.records[offset]
            if record.is_marker:
                written = since.pop(record.producer_id, [])
                aborted.update(written if record.is_abort else ())
            elif record.is_transactional:
                since.setdefault(record.producer_id, []).append(offset)
        decided_end = min([end, *(offset for offsets in since.values() for offset in offsets if offset >= start)])
        known = (self.records.get(offset) for offset in range(start, decided_end))
        counts = [(each.offset, each.value) for each in known if each is not None and not each.is_marker and each.offset not in aborted]
        return counts, decided_end

    def _fix(self, record: Seen, how: str) -> None:
        known = self.records.setdefault(record.offset, record)
        if known != record:
            self.violated(f"offset {record.offset} is {record} as {how}, it was {known}")


def seen_in(content: memoryview | bytes | bytearray) -> Iterator[Seen]:
    """The records of whole batches, as they are stored."""
    view = memoryview(content)
    for position, header in batches(view):
        marker = read_marker(view[position : position + header.size]) if header.is_control else None
        for record in records_of(view[position : position + header.size]):
            yield Seen(
                record.offset,
                header.partition_leader_epoch,
                bytes(record.value or b"") if marker is None else b"",
                header.producer_id,
                header.is_transactional,
                marker is not None,
                marker is not None and marker.is_abort,
            )
