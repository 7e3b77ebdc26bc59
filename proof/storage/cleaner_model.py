"""◇ A model of a compacted log in few lines, which the cleaner is held against.

A record goes when a newer record of its key was seen in the dirty part, or when its transaction was aborted.  A tombstone also goes
delete.retention.ms after its batch was first cleaned with a tombstone in it.  Everything else stays, with its offset.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class ModelRecord:
    offset: int
    batch: int
    key: bytes
    value: bytes | None
    timestamp: int
    producer_id: int | None
    """The producer of the record's transaction; None outside of a transaction."""
    is_committed: bool | None
    """Whether the record counts as committed; None while its transaction is open."""


class CleanerModel:
    """The model of one log."""

    def __init__(self, delete_retention_ms: int) -> None:
        self.records: list[ModelRecord] = []
        self.horizons: dict[int, int] = {}
        """Batch → the time from which on its tombstones go."""
        self._delete_retention_ms = delete_retention_ms

    def decide(self, producer_id: int, *, is_committed: bool) -> None:
        for record in self.records:
            if record.producer_id == producer_id and record.is_committed is None:
                record.is_committed = is_committed

    def clean(self, first_dirty: int, clean_offset: int, copied_end: int, now_ms: int) -> None:
        """Clean the log: look at keys from `first_dirty` to `clean_offset`, and copy segments up to `copied_end`; both are exclusive."""
        seen = [r for r in self.records if first_dirty <= r.offset < clean_offset and r.is_committed]
        newest = {record.key: record.offset for record in seen}
        kept = []
        for record in self.records:
            is_older = record.offset < newest.get(record.key, -1)
            has_passed = record.value is None and self.horizons.get(record.batch, now_ms + 1) <= now_ms
            if record.offset >= clean_offset or (record.is_committed and not is_older and not has_passed):
                kept.append(record)
        self.records = kept
        for record in kept:
            if record.value is None and record.offset < copied_end:
                self.horizons.setdefault(record.batch, now_ms + self._delete_retention_ms)

    def visible(self, log_start_offset: int, last_stable_offset: int) -> list[tuple[int, bytes, bytes | None]]:
        """(offset, key, value) of the records that a read_committed consumer gets."""
        found = [r for r in self.records if log_start_offset <= r.offset < last_stable_offset and r.is_committed]
        return [(record.offset, record.key, record.value) for record in found]
