"""◇ The consensus machine's knowledge of its log, without reading it: the start of each epoch, and the offsets of changes of voters.

    start ──── epoch 1 ────┬─ epoch 3 ──┬──── epoch 4 ──── end (exclusive)
      └ voters {1}         └            └ voters {1,2}

A log begins with nothing before it, or behind a snapshot whose epoch and voters count as what lies before.  Truncated records take their
epochs, voters and kraft.version with them.  This is the only way in which an uncommitted change of voters is undone.
Source: LogHistory, VoterSetHistory, KafkaMetadataLog.endOffsetForEpoch; KIP-595, 853.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import itemgetter
from typing import Final, NamedTuple

from moldau.raft.voters import VoterSet
from moldau.types import OffsetAndEpoch

FORMATTED: Final = -1
"""The offset of voters that are not in the log: they come from the options, or from the format of a folder."""

_start_of: Final = itemgetter(1)
_offset_of: Final = itemgetter(0)


class VoterChange(NamedTuple):
    """The voters and the kraft.version from `offset` on."""

    offset: int
    voters: VoterSet
    kraft_version: int


class LogHistory:
    """See the module.  `end_offset` is exclusive and includes what is still to be appended."""

    __slots__ = ("_epochs", "changes", "end_offset", "newest_snapshot", "start")

    def __init__(
        self,
        *,
        start: OffsetAndEpoch = OffsetAndEpoch(0, 0),
        newest_snapshot: OffsetAndEpoch | None = None,
        end_offset: int = 0,
        epochs: Iterable[tuple[int, int]] = (),
        changes: Iterable[VoterChange] = (),
    ) -> None:
        """`start` is the snapshot before the log, `epochs` are (epoch, its first offset), `changes` the voters by offset, oldest first."""
        self.start = start
        self.newest_snapshot = start if newest_snapshot is None else newest_snapshot
        self.end_offset = end_offset
        self._epochs: list[tuple[int, int]] = [one for one in epochs if one[1] < end_offset]
        self.changes: list[VoterChange] = list(changes) or [VoterChange(FORMATTED, VoterSet(), 0)]

    # Epochs

    @property
    def last_epoch(self) -> int:
        return self._epochs[-1][0] if self._epochs else self.start.epoch

    def epoch_before(self, offset: int) -> int:
        """The epoch of the last record below `offset`."""
        number = bisect_left(self._epochs, offset, key=_start_of)
        return self._epochs[number - 1][0] if number else self.start.epoch

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """The newest epoch up to `epoch`, and its end (exclusive); if there is none, the end of what lies before the log."""
        number = bisect_right(self._epochs, epoch, key=_offset_of)
        end = self._epochs[number][1] if number < len(self._epochs) else self.end_offset
        if number == 0:
            return OffsetAndEpoch(min(end, self.start.offset), self.start.epoch)
        return OffsetAndEpoch(end, self._epochs[number - 1][0])

    # Voters

    @property
    def voters(self) -> VoterSet:
        """The present voters.  A change is in force as soon as it is in the log, committed or not."""
        return self.changes[-1].voters

    @property
    def kraft_version(self) -> int:
        return self.changes[-1].kraft_version

    @property
    def voters_offset(self) -> int:
        """The offset of the voters in the log; FORMATTED if the log does not have them."""
        return self.changes[-1].offset

    def voters_at(self, end_offset: int) -> VoterChange:
        """The voters by all records below `end_offset` (exclusive)."""
        number = bisect_left(self.changes, end_offset, key=_offset_of)
        return self.changes[max(number - 1, 0)]

    # Changes

    def append(self, epoch: int, base_offset: int, next_offset: int) -> None:
        assert base_offset == self.end_offset, f"{base_offset} does not follow {self.end_offset}"
        assert epoch >= self.last_epoch, f"epoch {epoch} does not follow {self.last_epoch}"
        if not self._epochs or epoch > self._epochs[-1][0]:
            self._epochs.append((epoch, base_offset))
        self.end_offset = next_offset

    def change_voters(self, offset: int, voters: VoterSet | None = None, kraft_version: int | None = None) -> None:
        last = self.changes[-1]
        change = VoterChange(
            offset, last.voters if voters is None else voters, last.kraft_version if kraft_version is None else kraft_version
        )
        if last.offset == offset:
            self.changes[-1] = change
        else:
            self.changes.append(change)

    def truncate(self, offset: int) -> None:
        """The log ends at `offset`."""
        self.end_offset = min(self.end_offset, offset)
        self._epochs = [one for one in self._epochs if one[1] < offset]
        kept = [change for change in self.changes if change.offset < offset]
        self.changes = kept or self.changes[:1]

    def start_after(self, snapshot_id: OffsetAndEpoch) -> None:
        """Forget what lies below the snapshot's offset."""
        if snapshot_id.offset <= self.start.offset:
            return
        at = VoterChange(snapshot_id.offset - 1, *self.voters_at(snapshot_id.offset)[1:])
        if self.voters_at(snapshot_id.offset).offset == FORMATTED:
            at = at._replace(offset=FORMATTED)
        self.changes = [at, *(change for change in self.changes if change.offset >= snapshot_id.offset)]
        self.start = snapshot_id
        epochs = [one for one in self._epochs if one[1] >= snapshot_id.offset]
        if self.end_offset > snapshot_id.offset and (not epochs or epochs[0][1] > snapshot_id.offset):
            number = bisect_right(self._epochs, snapshot_id.offset, key=_start_of)
            epochs.insert(0, (self._epochs[number - 1][0], snapshot_id.offset))
        self._epochs = epochs

    def replace(self, snapshot_id: OffsetAndEpoch, voters: VoterSet | None, kraft_version: int) -> None:
        """Replace the log by another replica's snapshot: the log is empty behind it."""
        fallback = self.changes[0].voters if voters is None else voters
        self.start = self.newest_snapshot = snapshot_id
        self.end_offset = snapshot_id.offset
        self._epochs = []
        self.changes = [VoterChange(FORMATTED if voters is None else snapshot_id.offset - 1, fallback, kraft_version)]
