"""◇ One partition of a topic as the members of one share group see it: which member has which record, for how long, and how often it was
delivered.

    start_offset                                    next_offset              log end
         │ everything below is done                      │ never read yet        │
         ▼                                               ▼                       ▼
    ─────┬────────────┬──────────┬───────────┬───────────┬───────────────────────┬
         │ ACQUIRED   │ AVAILABLE│ ARCHIVED  │ ACQUIRED  │                       │
    ─────┴────────────┴──────────┴───────────┴───────────┴───────────────────────┴

         acquire:  AVAILABLE → ACQUIRED                              accept:           ACQUIRED → ACKNOWLEDGED
         release, lock time-out, member gone: ACQUIRED → AVAILABLE   reject, gap:      ACQUIRED → ARCHIVED
                      … → ARCHIVED after the last delivery           deleted, aborted: AVAILABLE → ARCHIVED

Guarantees: batches tile [start_offset, next_offset); a record has one holder at a time; it is acquired at most delivery_count_limit times;
the start offset passes only records that are done and written; a change that cannot be written is undone.  The holders of records and their
deadlines are not written: after a change of leader every record that was not done can be acquired again.

Times are those of the steady clock.

Source: kafka.server.share.SharePartition of 4.3.1; KIP-932, 1206, 1222. Called by `server/share/partitions.py` (loading, writing, timers)
and `handlers/share_fetch.py`, `share_acknowledge.py`.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from moldau.errors import ErrorCode
from moldau.replication.share.decision import (
    AcknowledgedRange,
    AcquiredRange,
    DeadRange,
    DeathCause,
    Decision,
    LogBatch,
    Refusal,
    StateBatch,
)
from moldau.replication.share.in_flight import NOBODY, AcknowledgeType, Change, InFlightBatch, RecordState, Run
from moldau.replication.share.rules import ShareRules

NOT_ACQUIRED: Final = Refusal(ErrorCode.INVALID_RECORD_STATE, "The offset cannot be acknowledged. The offset is not acquired.")
BEING_WRITTEN: Final = Refusal(
    ErrorCode.INVALID_RECORD_STATE, "The record state is invalid. The acknowledgement of delivery could not be completed."
)
NOT_THE_OWNER: Final = Refusal(ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset")
NO_RENEWING: Final = Refusal(ErrorCode.INVALID_RECORD_STATE, "Renewing acquisition locks is not enabled for the group.")
NOT_FOUND: Final = Refusal(ErrorCode.INVALID_RECORD_STATE, "Batch record not found. The request batch offsets are not found in the cache.")
FIRST_PAST_ACQUIRED: Final = Refusal(
    ErrorCode.INVALID_REQUEST, "Batch record not found. The first offset in request is past acquired records."
)
LAST_PAST_ACQUIRED: Final = Refusal(
    ErrorCode.INVALID_REQUEST, "Batch record not found. The last offset in request is past acquired records."
)
WRITE_AGAIN_MS: Final = 1_000
"""The milliseconds after which an ended lock is ended again if its end could not be written."""

_STATE_AFTER: Final = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}


class SharePartition:
    """See the module."""

    def __init__(self, start_offset: int, rules: ShareRules, *, state_epoch: int = 0) -> None:
        self.start_offset = start_offset
        self.next_offset = start_offset
        self.rules = rules
        """The rules.  They may be exchanged at any time; earlier decisions stay."""
        self.state_epoch: Final = state_epoch
        self.delivery_complete_count = 0
        """The number of done records between both offsets, which the lag does not count."""
        self._batches: list[InFlightBatch] = []
        self._has_available = False
        """Whether any record below the next offset may be available; False is certain."""
        self._due: list[tuple[int, int, int]] = []
        """(time, first offset, last offset) of runs with a due time, earliest first; some have changed since."""

    @classmethod
    def restored(cls, start_offset: int, stored: Iterable[StateBatch], rules: ShareRules, *, state_epoch: int) -> "SharePartition | None":
        """A share partition from its stored state.  None if the batches cannot be right."""
        partition = cls(start_offset, rules, state_epoch=state_epoch)
        for first, last, state, delivery_count in stored:
            if first < partition.next_offset or last < first:
                return None
            partition._extend_by_gap(first)
            # The holder of a record is not written, so every record that is not done is free.
            known = state if state.is_terminal else RecordState.AVAILABLE
            partition._append(Run(first, last, known, delivery_count))
        partition._has_available = True
        partition._advance()
        return partition

    def _extend_by_gap(self, offset: int) -> None:
        if self.next_offset < offset:
            gap = Run(self.next_offset, offset - 1, RecordState.AVAILABLE, 0)
            self._batches.append(InFlightBatch(gap, is_unread=True))
            self.next_offset = offset

    def _append(self, run: Run) -> None:
        assert run.first == self.next_offset, "batches tile"
        self._batches.append(InFlightBatch(run))
        self.next_offset = run.last + 1
        if run.state.is_terminal:
            self.delivery_complete_count += len(run)

    # What can be acquired

    @property
    def in_flight_count(self) -> int:
        return self.next_offset - self.start_offset

    def next_fetch_offset(self, now_ms: int) -> int:
        """The first offset that can be delivered: an available one, else the first that was never read."""
        if self._has_available:
            is_any_left = False
            for batch in self._batches:
                for run in batch.runs:
                    if run.is_deliverable(now_ms):
                        return run.first
                    is_any_left = is_any_left or run.state is RecordState.AVAILABLE
            self._has_available = is_any_left
        return self.next_offset

    def can_acquire(self, now_ms: int) -> bool:
        return self.in_flight_count < self.rules.max_record_locks or self.next_fetch_offset(now_ms) < self.next_offset

    def window_end(self, fetch_offset: int, max_records: int) -> int:
        """The end (exclusive) up to which a reading has to know the log's batches to acquire so many records."""
        return max(fetch_offset, self.next_offset) + max_records

    # Acquiring

    def acquire(
        self,
        member_id: str,
        window: Sequence[LogBatch],
        *,
        fetch_offset: int,
        max_records: int,
        batch_size: int,
        is_record_limit: bool,
        now_ms: int,
        aborted: Sequence[LogBatch] = (),
    ) -> list[AcquiredRange]:
        """The records of `window` that the member gets, in the order of offsets.  `window`: neighbouring batches of the log, read from
        `fetch_offset`.

        Whole batches are acquired, so there may be some more than `max_records`; with `is_record_limit` there are not (KIP-1206).
        `aborted` batches are done at once.
        """
        if not window or max_records <= 0 or window[-1].last_offset < self.start_offset:
            return []
        first, last = window[0].base_offset, window[-1].last_offset
        left = min(max_records, self.rules.max_record_locks - self.in_flight_count)
        if left <= 0:
            if fetch_offset >= self.next_offset:
                return []
            last = min(last, self.next_offset - 1)
            left = min(max_records, last - fetch_offset + 1)
        self._archive_missing(fetch_offset, first)
        taking = _Taking(member_id, now_ms, now_ms + self.rules.record_lock_duration_ms, left, is_record_limit=is_record_limit)
        self._acquire_again(window, first, last, batch_size, taking)
        if taking.left > 0 and last >= self.next_offset:
            self._acquire_new(window, max(first, self.next_offset), last, batch_size, taking)
        for one in taking.acquired:
            heapq.heappush(self._due, (taking.lock_end_ms, one.first_offset, one.last_offset))
        if aborted:
            return self._without_aborted(taking.acquired, aborted)
        return taking.acquired

    def _archive_missing(self, first: int, end: int) -> None:
        """Archive records that the log no longer has: a reading from `first` began at `end`."""
        if first >= end or not self._batches:
            return
        for batch in list(self._overlapping(first, end - 1)):
            if batch.is_unread and batch.last >= first:
                batch = self._split_gap(batch, first, min(batch.last, end - 1))
            for run in batch.within(first, end - 1):
                if run.state is RecordState.AVAILABLE and run.change is None:
                    self._set(batch.cut(run, first, end - 1), RecordState.ARCHIVED)
            batch.join()
        self._advance()

    def _acquire_again(self, window: Sequence[LogBatch], first: int, last: int, batch_size: int, taking: "_Taking") -> None:
        """Acquire records below the next offset that were released, or never read because of a gap in the stored state."""
        at = self._index_of(first)
        while at < len(self._batches) and self._batches[at].first <= last and taking.left > 0:
            batch = self._batches[at]
            if batch.is_unread and batch.last >= first:
                begin, end = max(first, batch.first), min(last, batch.last)
                batch = self._split_gap(batch, begin, _pieces(window, begin, end, batch_size, taking)[0])
                at = self._index_of(batch.first)
            if batch.first <= last and batch.last >= first and not batch.is_unread:
                self._acquire_in(batch, first, last, taking)
            at += 1

    def _split_gap(self, gap: InFlightBatch, first: int, last: int) -> InFlightBatch:
        """The part of a gap in that range as a batch of its own; the rest at both sides stays a gap."""
        (run,) = gap.runs
        first = max(first, run.first)
        pieces = [(run.first, first - 1), (first, last), (last + 1, run.last)]
        batches = [
            InFlightBatch(Run(*piece, RecordState.AVAILABLE, 0), is_unread=piece[0] != first) for piece in pieces if piece[0] <= piece[1]
        ]
        at = self._index_of(run.first)
        self._batches[at : at + 1] = batches
        return next(batch for batch in batches if not batch.is_unread)

    def _acquire_in(self, batch: InFlightBatch, first: int, last: int, taking: "_Taking") -> None:
        """Acquire records of one batch.

        Records that were delivered often come in ever smaller portions, and alone the last time (KIP-932's poison records).
        """
        runs = [run for run in batch.within(first, last) if run.is_deliverable(taking.now_ms)]
        if not runs:
            return
        rules = self.rules
        is_throttled = max(run.delivery_count for run in runs) >= rules.throttled_from
        if is_throttled and taking.acquired:
            taking.left = 0
            return
        most = taking.left if taking.is_record_limit else batch.size
        portion: int | None = None
        taken = 0
        for run in runs:
            begin, end = max(run.first, first), min(run.last, last)
            is_last_attempt = rules.delivery_count_limit > 2 and run.delivery_count >= rules.delivery_count_limit - 1
            if is_last_attempt:
                if taken:
                    break
                end = begin
            elif run.delivery_count >= rules.throttled_from and portion is None:
                portion = max(1, batch.size >> (run.delivery_count - rules.throttled_from + 1))
                most = min(most, portion)
            end = min(end, begin + most - taken - 1)
            if end < begin:
                break
            self._take(batch.cut(run, begin, end), taking, joins=taken > 0)
            taken += end - begin + 1
            if is_last_attempt:
                break
        batch.join()
        taking.left = 0 if is_throttled and taken else taking.left - taken

    def _take(self, run: Run, taking: "_Taking", *, joins: bool) -> None:
        run.state = RecordState.ACQUIRED
        run.delivery_count += 1
        run.member_id = taking.member_id
        run.due_ms = taking.lock_end_ms
        before = taking.acquired[-1] if joins else None
        if before is not None and before.last_offset + 1 == run.first and before.delivery_count == run.delivery_count:
            taking.acquired[-1] = before._replace(last_offset=run.last)
        else:
            taking.acquired.append(AcquiredRange(run.first, run.last, run.delivery_count))

    def _acquire_new(self, window: Sequence[LogBatch], first: int, last: int, batch_size: int, taking: "_Taking") -> None:
        if first > self.next_offset:
            if self._batches:  # compaction left nothing there
                self._append(Run(self.next_offset, first - 1, RecordState.ARCHIVED, 0))
            else:
                self.start_offset = self.next_offset = first
        for piece_last in _pieces(window, first, last, batch_size, taking):
            begin = self.next_offset
            self._append(Run(begin, piece_last, RecordState.AVAILABLE, 0))
            batch = self._batches[-1]
            end = min(piece_last, begin + taking.left - 1) if taking.is_record_limit else piece_last
            self._take(batch.cut(batch.runs[0], begin, end), taking, joins=False)
            taking.left -= end - begin + 1
            if end < piece_last:
                self._has_available = True
        self._advance()

    def _without_aborted(self, acquired: list[AcquiredRange], aborted: Sequence[LogBatch]) -> list[AcquiredRange]:
        """Mark acquired records of aborted transactions as done, and take them out of the answer."""
        kept: list[AcquiredRange] = []
        for one in acquired:
            position = one.first_offset
            for first, last in aborted:
                if last < position or first > one.last_offset:
                    continue
                if first > position:
                    kept.append(one._replace(first_offset=position, last_offset=first - 1))
                self._archive_acquired(max(first, position), min(last, one.last_offset))
                position = last + 1
            if position <= one.last_offset:
                kept.append(one._replace(first_offset=position))
        self._advance()
        return kept

    def _archive_acquired(self, first: int, last: int) -> None:
        for batch in self._overlapping(first, last):
            for run in batch.within(first, last):
                if run.state is RecordState.ACQUIRED and run.change is None:
                    self._set(batch.cut(run, first, last), RecordState.ARCHIVED)
            batch.join()

    # What members say

    def acknowledge(self, member_id: str, ranges: Sequence[AcknowledgedRange], now_ms: int) -> Decision | Refusal:
        """Take acknowledgements.  All of them count or none, except renewed locks.  `ranges` are valid, in the order of offsets.

        Errors: INVALID_RECORD_STATE, INVALID_REQUEST.
        """
        decision = Decision()
        for one in ranges:
            refusal = self._acknowledge_range(member_id, one, now_ms, decision)
            if refusal is not None:
                self.settle(decision, is_written=False, now_ms=now_ms)
                return refusal
        return decision

    def _acknowledge_range(self, member_id: str, said: AcknowledgedRange, now_ms: int, decision: Decision) -> Refusal | None:
        if said.last_offset < self.start_offset:
            return None  # done already
        if not self._batches:
            return NOT_FOUND
        if said.last_offset >= self.next_offset:
            return FIRST_PAST_ACQUIRED if said.first_offset >= self.next_offset else LAST_PAST_ACQUIRED
        position = max(said.first_offset, self.start_offset)
        while position <= said.last_offset:
            kind, end = _said_from(said, position)
            for batch in self._overlapping(position, end):
                for run in batch.within(position, end):
                    refusal = self._refusal_of(run, member_id, kind)
                    if refusal is not None:
                        return refusal
                    self._acknowledge_run(batch.cut(run, position, end), kind, now_ms, decision)
            position = end + 1
        return None

    def _refusal_of(self, run: Run, member_id: str, kind: AcknowledgeType) -> Refusal | None:
        if run.change is not None:
            return BEING_WRITTEN
        if run.state is not RecordState.ACQUIRED:
            return NOT_ACQUIRED
        if run.member_id != member_id:
            return NOT_THE_OWNER
        return NO_RENEWING if kind is AcknowledgeType.RENEW and not self.rules.is_renewing_allowed else None

    def _acknowledge_run(self, run: Run, kind: AcknowledgeType, now_ms: int, decision: Decision) -> None:
        if kind is AcknowledgeType.RENEW:
            run.due_ms = now_ms + self.rules.record_lock_duration_ms
            heapq.heappush(self._due, (run.due_ms, run.first, run.last))
            return
        cause = DeathCause.REJECTED if kind is AcknowledgeType.REJECT else None
        self._decide(run, _STATE_AFTER[kind], now_ms, decision, cause)

    def release(self, member_id: str, now_ms: int) -> Decision:
        """Free all records of a member that is gone."""
        decision = Decision()
        for batch in self._batches:
            for run in batch.runs:
                if run.member_id == member_id and run.state is RecordState.ACQUIRED and run.change is None:
                    self._decide(run, RecordState.AVAILABLE, now_ms, decision)
        return decision

    # Time

    def next_due_ms(self) -> int | None:
        """The time at which `expire` has something to do."""
        return self._due[0][0] if self._due else None

    def expire(self, now_ms: int) -> Decision:
        """End locks whose time has come.  The records are free at once, without waiting for the writing, because no member may hold them
        longer.

        A record after its last delivery stays locked until its dead letter is written.
        """
        decision = Decision()
        while self._due and self._due[0][0] <= now_ms:
            _, first, last = heapq.heappop(self._due)
            for batch in self._overlapping(first, last):
                for run in batch.within(first, last):
                    if run.due_ms > now_ms or run.change is not None:
                        continue
                    if run.state is RecordState.ACQUIRED:
                        self._decide(run, RecordState.AVAILABLE, now_ms, decision)
                    elif run.state is RecordState.AVAILABLE:
                        decision.is_freeing = True
        dead = {(one.first_offset, one.last_offset) for one in decision.dead}
        at_once = [change for change in decision.changes if (change.run.first, change.run.last) not in dead]
        decision.changes = [change for change in decision.changes if (change.run.first, change.run.last) in dead]
        self._commit(at_once)
        decision.is_freeing = decision.is_freeing or bool(at_once)
        return decision

    # Deciding, and what comes of it

    def _decide(self, run: Run, state: RecordState, now_ms: int, decision: Decision, cause: DeathCause | None = None) -> None:
        if state is RecordState.AVAILABLE and run.delivery_count >= self.rules.delivery_count_limit:
            state, cause = RecordState.ARCHIVED, DeathCause.DELIVERIES_EXHAUSTED
        run.change = Change(run)
        decision.changes.append(run.change)
        self._set(run, state)
        if state is RecordState.AVAILABLE:
            run.due_ms = self.rules.retry_at(run.delivery_count, now_ms)
        decision.batches.append(StateBatch(run.first, run.last, state, run.delivery_count))
        if cause is not None and self.rules.has_dead_letters:
            decision.dead.append(DeadRange(run.first, run.last, run.delivery_count, cause))

    def settle(self, decision: Decision, *, is_written: bool, now_ms: int) -> bool:
        """Finish a decision.  True if records can be acquired, or in a greater number, that could not before."""
        changes, decision.changes = decision.changes, []
        if is_written:
            return self._commit(changes)
        for change in changes:
            run = change.run
            run.change = None
            self._set(run, change.state, change.member_id)
            run.due_ms = change.due_ms
            if run.due_ms <= now_ms:  # the lock has ended meanwhile
                run.due_ms = now_ms + WRITE_AGAIN_MS
            heapq.heappush(self._due, (run.due_ms, run.first, run.last))
        self._join(changes)
        return False

    def _commit(self, changes: Sequence[Change]) -> bool:
        is_freeing = False
        for change in changes:
            run = change.run
            run.change = None
            if run.state is RecordState.AVAILABLE and len(run):
                self._has_available = is_freeing = True
                if run.due_ms:
                    heapq.heappush(self._due, (run.due_ms, run.first, run.last))
        self._join(changes)
        return self._advance() or is_freeing

    def _join(self, changes: Sequence[Change]) -> None:
        touched: list[InFlightBatch] = []
        for change in changes:
            for batch in self._overlapping(change.run.first, change.run.last):
                if not touched or touched[-1] is not batch:
                    touched.append(batch)
        for batch in touched:
            batch.join()

    def _set(self, run: Run, state: RecordState, member_id: str = NOBODY) -> None:
        """Change a run's state.  This is the one place that does, so that the count of done records is right."""
        self.delivery_complete_count += len(run) * (state.is_terminal - run.state.is_terminal)
        run.state = state
        run.member_id = member_id
        run.due_ms = 0

    def _advance(self) -> bool:
        """Move the start offset past records that are done and written.  True if it moved."""
        before = self.start_offset
        done = 0
        for batch in self._batches:
            kept = next((at for at, run in enumerate(batch.runs) if run.change is not None or not run.state.is_terminal), len(batch.runs))
            for run in batch.runs[:kept]:
                self.delivery_complete_count -= len(run)
                self.start_offset = run.last + 1
            del batch.runs[:kept]
            if batch.runs:
                break
            done += 1
        del self._batches[:done]
        return self.start_offset != before

    def log_start_moved(self, log_start_offset: int) -> bool:
        """Drop records below the log's new start, whoever holds them.  True if that changes anything."""
        if log_start_offset <= self.start_offset:
            return False
        gone = 0
        for batch in self._batches:
            for run in list(batch.runs):
                lost = min(run.last + 1, log_start_offset) - run.first
                if lost <= 0:
                    break
                if run.state.is_terminal:
                    self.delivery_complete_count -= lost
                run.first += lost  # an empty run is found no more, but its change may still be written
                if not len(run):
                    batch.runs.remove(run)
            if batch.runs:
                break
            gone += 1
        del self._batches[:gone]
        self.start_offset = log_start_offset
        self.next_offset = max(self.next_offset, log_start_offset)
        self._advance()
        return True

    # Finding

    def _index_of(self, offset: int) -> int:
        """The index of the batch that holds the offset, or of the first after it."""
        return max(0, bisect_right(self._batches, offset, key=_first_of) - 1)

    def _overlapping(self, first: int, last: int) -> Iterator[InFlightBatch]:
        at = self._index_of(first)
        while at < len(self._batches) and self._batches[at].first <= last:
            yield self._batches[at]
            at += 1

    def runs(self) -> Iterator[Run]:
        """The runs in the order of offsets."""
        for batch in self._batches:
            yield from batch.runs


class _Taking:
    """One acquisition under way."""

    __slots__ = ("acquired", "is_record_limit", "left", "lock_end_ms", "member_id", "now_ms")

    def __init__(self, member_id: str, now_ms: int, lock_end_ms: int, left: int, *, is_record_limit: bool) -> None:
        self.member_id: Final = member_id
        self.now_ms: Final = now_ms
        self.lock_end_ms: Final = lock_end_ms
        self.is_record_limit: Final = is_record_limit
        self.left = left
        self.acquired: list[AcquiredRange] = []


def _first_of(batch: InFlightBatch) -> int:
    return batch.first


def _pieces(window: Sequence[LogBatch], first: int, last: int, batch_size: int, taking: _Taking) -> list[int]:
    """The last offsets of the in-flight batches to make from `first` on: ends of log batches, for as many records as are wanted."""
    end = first + taking.left - 1
    if end < last:
        last = min(last, next((one.last_offset for one in window if one.last_offset >= end), last))
    if taking.is_record_limit or last - first + 1 <= batch_size:
        return [last]
    found: list[int] = []
    for one in window:
        if first < one.base_offset <= last and one.base_offset - first >= batch_size:
            found.append(one.base_offset - 1)
            first = one.base_offset
    return [*found, last]


def _said_from(said: AcknowledgedRange, position: int) -> tuple[AcknowledgeType, int]:
    """The type of acknowledgement at an offset, and the last offset up to which it is the same."""
    if len(said.types) == 1:
        return AcknowledgeType(said.types[0]), said.last_offset
    at = position - said.first_offset
    end = at
    while end + 1 < len(said.types) and said.types[end + 1] == said.types[at]:
        end += 1
    return AcknowledgeType(said.types[at]), said.first_offset + end
