"""A share partition under everything that members, time, the log and a failing persister can do to it, against a model of one dictionary.

The model is told what was acquired and judges it; everything else it works out itself, offset by offset.
"""

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.replication.share.decision import AcknowledgedRange, AcquiredRange, Decision, LogBatch, Refusal, StateBatch
from moldau.replication.share.in_flight import AcknowledgeType, RecordState
from moldau.replication.share.partition import WRITE_AGAIN_MS, SharePartition
from moldau.replication.share.rules import ShareRules

LOCK_MS = 1_000
LIMIT = 3
MEMBERS = st.sampled_from(["anna", "ben", "cleo"])
HOLES = st.sampled_from([0, 0, 0, 2])
RARELY = st.integers(0, 5).map(lambda number: number == 5)
FREE, HELD, ACCEPTED, ARCHIVED = RecordState.AVAILABLE, RecordState.ACQUIRED, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED
AFTER = {AcknowledgeType.GAP: ARCHIVED, AcknowledgeType.ACCEPT: ACCEPTED, AcknowledgeType.RELEASE: FREE, AcknowledgeType.REJECT: ARCHIVED}


@dataclass(frozen=True)
class One:
    """One record, as the model knows it."""

    state: RecordState = FREE
    count: int = 0
    member: str = ""
    due_ms: int = 0
    before: "One | None" = None

    def changed(self, state: RecordState, now_ms: int, retry_ms: int) -> "One":
        if state is FREE and self.count >= LIMIT:
            state = ARCHIVED
        return One(state, self.count, "", now_ms + retry_ms if state is FREE and retry_ms else 0, before=self)

    def settled(self, *, is_written: bool, now_ms: int) -> "One":
        assert self.before is not None
        if is_written:
            return replace(self, before=None)
        return replace(self.before, due_ms=now_ms + WRITE_AGAIN_MS) if self.before.due_ms <= now_ms else self.before


def spread(ranges: list[AcquiredRange]) -> dict[int, int]:
    """Delivery count by offset."""
    found: dict[int, int] = {}
    for first, last, count in ranges:
        assert first > max(found, default=-1), "ranges are in the order of offsets, and no offset comes twice"
        found |= dict.fromkeys(range(first, last + 1), count)
    return found


class SharePartitionUnderFire(RuleBasedStateMachine):
    @initialize(retry_ms=st.sampled_from([0, 300]), locks=st.sampled_from([6, 100]), start=st.integers(0, 3))
    def begin(self, retry_ms: int, locks: int, start: int) -> None:
        self.rules = ShareRules(
            record_lock_duration_ms=LOCK_MS, delivery_count_limit=LIMIT, max_record_locks=locks, retry_delay_ms=retry_ms
        )
        self.now_ms = 0
        self.log: list[LogBatch] = []
        self.log_start = self.log_end = start
        self.partition = SharePartition(start, self.rules)
        self.model: dict[int, One] = {}
        self.start = start
        self.stored: dict[int, tuple[RecordState, int]] = {}
        self.stored_start = start
        self.in_writing: list[tuple[Decision, list[int]]] = []

    # The log

    @rule(size=st.integers(1, 6), hole=HOLES)
    def append(self, size: int, hole: int) -> None:
        first = self.log_end + hole
        self.log.append(LogBatch(first, first + size - 1))
        self.log_end = first + size

    @precondition(lambda self: self.log)
    @rule(is_rare=RARELY, data=st.data())
    def compact(self, is_rare: bool, data: Any) -> None:
        if is_rare:
            self.log.remove(data.draw(st.sampled_from(self.log)))

    @rule(is_rare=RARELY, by=st.integers(1, 8))
    def delete_records(self, is_rare: bool, by: int) -> None:
        if not is_rare:
            return
        self.log_start = min(self.log_start + by, self.log_end)
        self.log = [batch for batch in self.log if batch.last_offset >= self.log_start]
        self.partition.log_start_moved(self.log_start)
        self.start = max(self.start, self.log_start)
        self.model = {offset: one for offset, one in self.model.items() if offset >= self.start}
        self.pass_done()

    # Members

    @rule(member=MEMBERS, most=st.integers(1, 9), batch_size=st.integers(1, 8), is_record_limit=st.booleans(), data=st.data())
    def fetch(self, member: str, most: int, batch_size: int, is_record_limit: bool, data: Any) -> None:
        if not self.log or self.log[-1].last_offset < self.partition.next_offset:
            self.append(4, data.draw(HOLES))
        offset = self.partition.next_fetch_offset(self.now_ms)
        assert offset == self.first_free()
        window = [batch for batch in self.log if batch.last_offset >= offset]
        if len(window) > 1:
            window = window[: data.draw(st.integers(1, len(window)))]
        aborted = [batch for batch in window if data.draw(st.integers(0, 5)) == 0]
        could = self.partition.can_acquire(self.now_ms)
        asked: dict[str, Any] = {
            "fetch_offset": offset,
            "max_records": most,
            "batch_size": batch_size,
            "is_record_limit": is_record_limit,
            "now_ms": self.now_ms,
        }
        twin = deepcopy(self.partition)
        got = twin.acquire(member, window, **asked)
        if window and could and window[0].base_offset <= offset:
            assert got and got[0].first_offset == offset, "a record that can be acquired is acquired"
        self.judge(member, got, window, twin, offset)
        assert not is_record_limit or len(spread(got)) <= most
        told = spread(self.partition.acquire(member, window, **asked, aborted=aborted))
        vain = {each for batch in aborted for each in range(batch.base_offset, batch.last_offset + 1)}
        assert told == {each: count for each, count in spread(got).items() if each not in vain}
        for each, count in spread(got).items():
            if each in vain:
                self.model[each] = One(ARCHIVED, count)
        self.pass_done()

    def judge(self, member: str, got: list[AcquiredRange], window: list[LogBatch], partition: SharePartition, asked: int) -> None:
        """Takes over what was acquired, after judging whether it could be acquired."""
        for offset, one in self.model.items():
            if window and asked <= offset < window[0].base_offset and one.state is FREE and one.before is None:
                self.model[offset] = One(ARCHIVED, one.count)  # the log does not have it any more
        self.pass_done()
        if not self.model:
            self.start = partition.start_offset
        for run in partition.runs():
            for offset in range(run.first, run.last + 1):
                self.model.setdefault(offset, One(run.state if run.state is ARCHIVED else FREE))
        for offset, count in spread(got).items():
            one = self.model[offset]
            assert one.state is FREE and one.before is None and one.due_ms <= self.now_ms, (offset, one)
            assert count == one.count + 1 <= LIMIT
            self.model[offset] = One(HELD, count, member, self.now_ms + LOCK_MS)

    @precondition(lambda self: self.model)
    @rule(member=MEMBERS, kind=st.sampled_from(list(AcknowledgeType)), data=st.data())
    def acknowledge(self, member: str, kind: AcknowledgeType, data: Any) -> None:
        first = data.draw(st.sampled_from(sorted(self.model)))
        last = data.draw(st.integers(first, min(first + 6, max(self.model))))
        held = sorted(offset for offset, one in self.model.items() if one.state is HELD and one.before is None)
        if held and data.draw(st.integers(0, 3)):  # most acknowledgements are allowed
            first = last = data.draw(st.sampled_from(held))
            member = self.model[first].member
            while last + 1 in held and self.model[last + 1].member == member and data.draw(st.booleans()):
                last += 1
        kinds = [kind]
        if data.draw(st.booleans()):
            kinds = [data.draw(st.sampled_from(list(AcknowledgeType))) for _ in range(first, last + 1)]
        said = {offset: kinds[offset - first if len(kinds) > 1 else 0] for offset in range(first, last + 1)}
        ones = {offset: self.model[offset] for offset in said}
        is_right = all(one.state is HELD and one.before is None and one.member == member for one in ones.values())
        decision = self.partition.acknowledge(member, [AcknowledgedRange(first, last, [int(each) for each in kinds])], self.now_ms)
        if not is_right:
            assert isinstance(decision, Refusal)
            for offset, one in ones.items():  # locks that were renewed before the fault was found stay renewed
                if not (one.state is HELD and one.before is None and one.member == member):
                    break
                if said[offset] is AcknowledgeType.RENEW:
                    self.model[offset] = replace(one, due_ms=self.now_ms + LOCK_MS)
            return
        assert isinstance(decision, Decision)
        changed = [offset for offset in said if said[offset] is not AcknowledgeType.RENEW]
        for offset, what in said.items():
            if what is AcknowledgeType.RENEW:
                self.model[offset] = replace(ones[offset], due_ms=self.now_ms + LOCK_MS)
            else:
                self.model[offset] = ones[offset].changed(AFTER[what], self.now_ms, self.rules.retry_delay_ms)
        self.write(decision, changed)

    @rule(is_rare=RARELY, member=MEMBERS)
    def leave(self, is_rare: bool, member: str) -> None:
        if not is_rare:
            return
        held = [offset for offset, one in self.model.items() if one.member == member and one.before is None]
        for offset in held:
            self.model[offset] = self.model[offset].changed(FREE, self.now_ms, self.rules.retry_delay_ms)
        self.write(self.partition.release(member, self.now_ms), held)

    # Time and the persister

    @rule(elapsed_ms=st.sampled_from([100, LOCK_MS, LOCK_MS]))
    def pass_time(self, elapsed_ms: int) -> None:
        self.now_ms += elapsed_ms
        decision = self.partition.expire(self.now_ms)
        assert not decision.changes
        due = self.partition.next_due_ms()
        assert due is None or due > self.now_ms
        ended = [offset for offset, one in self.model.items() if one.state is HELD and one.before is None and one.due_ms <= self.now_ms]
        for offset in ended:
            self.model[offset] = replace(self.model[offset].changed(FREE, self.now_ms, self.rules.retry_delay_ms), before=None)
        self.store(decision.batches)
        self.pass_done()

    def write(self, decision: Decision, offsets: list[int]) -> None:
        assert {offset for one in decision.batches for offset in range(one.first_offset, one.last_offset + 1)} == set(offsets)
        if offsets:
            self.in_writing.append((decision, offsets))

    @precondition(lambda self: self.in_writing)
    @rule(is_written=st.integers(0, 3).map(bool))
    def settle(self, is_written: bool) -> None:
        decision, offsets = self.in_writing.pop(0)
        if is_written:
            self.store(decision.batches)
        self.partition.settle(decision, is_written=is_written, now_ms=self.now_ms)
        for offset in offsets:
            if offset in self.model:
                self.model[offset] = self.model[offset].settled(is_written=is_written, now_ms=self.now_ms)
        self.pass_done()
        assert self.partition.expire(self.now_ms).batches == [], "a lock that could not be ended waits before it is tried again"

    def store(self, batches: list[StateBatch]) -> None:
        self.stored_start = self.start
        for first, last, state, count in batches:
            self.stored |= dict.fromkeys(range(first, last + 1), (state, count))

    @rule(is_rare=RARELY)
    def change_leader(self, is_rare: bool) -> None:
        """Of everything in flight, only what was written is left."""
        if not is_rare:
            return
        stored = [StateBatch(offset, offset, *self.stored[offset]) for offset in sorted(self.stored) if offset >= self.stored_start]
        restored = SharePartition.restored(self.stored_start, stored, self.rules, state_epoch=0)
        assert restored is not None
        self.partition = restored
        self.in_writing = []
        self.start = self.stored_start
        end = max((one.last_offset + 1 for one in stored), default=self.start)
        self.model = {offset: One(*self.stored.get(offset, (FREE, 0))) for offset in range(self.start, end)}
        self.pass_done()
        if self.log_start > self.start:
            self.partition.log_start_moved(self.log_start)
            self.start = self.log_start
            self.model = {offset: one for offset, one in self.model.items() if offset >= self.start}
            self.pass_done()

    # What must hold

    def first_free(self) -> int:
        free = [offset for offset, one in self.model.items() if one.state is FREE and one.before is None and one.due_ms <= self.now_ms]
        return min(free, default=max(self.model, default=self.start - 1) + 1)

    def pass_done(self) -> None:
        while self.start in self.model and self.model[self.start].before is None and self.model[self.start].state.is_terminal:
            del self.model[self.start]
            self.start += 1

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        seen: dict[int, tuple[Any, ...]] = {}
        position = self.partition.start_offset
        for run in self.partition.runs():
            assert run.first == position, "the runs leave no gap"
            position = run.last + 1
            due_ms = run.due_ms if run.change is None else None
            for offset in range(run.first, run.last + 1):
                seen[offset] = (run.state, run.delivery_count, run.member_id, run.change is not None, due_ms)
        assert position == self.partition.next_offset
        assert self.partition.start_offset == self.start
        assert seen == {
            offset: (one.state, one.count, one.member, one.before is not None, one.due_ms if one.before is None else None)
            for offset, one in self.model.items()
        }
        assert self.partition.delivery_complete_count == sum(one.state.is_terminal for one in self.model.values())


TestSharePartitionUnderFire = SharePartitionUnderFire.TestCase
TestSharePartitionUnderFire.settings = settings(stateful_step_count=60)
