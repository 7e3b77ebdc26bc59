"""◇ Runs a replicated machine on one partition of an internal topic: decide, append, replay, and answer once it is committed.

    operation ──decide──▶ Outcome ──append──▶ log ──replay──▶ machine
                             └─ replies, sends: parked until the records are committed

Guarantees: the machine's hard state changes only by replaying records of the log.  Replies leave in the order of their decisions, reads
too, so no client learns of a change that could still be lost.  When an append fails the shard is dropped: every request that waits is
answered with NOT_COORDINATOR, and the next leader of the partition replays the log.  There is nothing to undo.

Two clocks: decisions and records use the wall clock (`now_ms`), timers one that does not jump (`steady_ms`): otherwise a correction of the
wall clock would end every session.  If there is only one clock, the second is left out.

Source: Kafka's CoordinatorRuntime, KIP-848.
Called by `server/coordinators/coordinators.py`, which loads, activates and unloads shards by leadership.
"""

from collections import deque
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from moldau.coordinator.outcome import CoordinatorRecord, Outcome, ProducerIdAndEpoch, Token
from moldau.coordinator.timers import TimerQueue
from moldau.errors import ErrorCode


class Machine(Protocol):
    """A coordinator's state and decisions for one partition."""

    def replay(self, offset: int, record: CoordinatorRecord, producer: ProducerIdAndEpoch | None) -> None:
        """Change hard state; this is the only place.  `producer` names the open transaction that the record waits for."""
        ...

    def replay_end_marker(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> None:
        """Note that the transaction of `producer` ended on this partition: its records count, or are dropped."""
        ...

    def on_loaded(self, now_ms: int) -> Outcome:
        """Start soft state: the log is replayed to its end."""
        ...

    def on_unloaded(self) -> list[Token]:
        """Return the tokens of all waiting requests, because the partition is led elsewhere."""
        ...


class PartitionWriter(Protocol):
    """The runtime's whole view of the log."""

    def append(
        self, records: list[CoordinatorRecord], producer: ProducerIdAndEpoch | None, guard: object | None, now_ms: int
    ) -> int | ErrorCode:
        """Append all records or none.  Returns the log's end offset (exclusive) after them, or the error if nothing was appended.

        The writer may gather several appends: their offsets are certain all the same.  If they are refused after all it closes the shard.
        """
        ...

    @property
    def end_offset(self) -> int: ...

    @property
    def committed_offset(self) -> int:
        """The offset below which nothing can be lost any more (exclusive)."""
        ...

    def watch(self, end_offset: int) -> None:
        """Release the shard once that much is committed, as `append` does for its own records."""
        ...

    def drop(self) -> None:
        """Write nothing more for the shard, which is closed."""
        ...


FIRED_AT_ONCE: Final = 10
"""The most timers of one run: when a data centre goes dark, the sessions of thousands of members end together."""


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    CLOSED = "closed"


M = TypeVar("M", bound=Machine)

ONE_BATCH_ONLY: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_FETCH_SIZE,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
"""Refusals of one batch that do not concern leadership: it cannot be written, or its transaction has ended.  The next one can be."""


class Shard(Generic[M]):
    """One machine on one partition.  While it is not active, `refusal` has the code for requests."""

    def __init__(self, machine: M, writer: PartitionWriter, on_send: Callable[[Any], None]) -> None:
        self.machine: Final = machine
        self.state = ShardState.LOADING
        self._writer = writer
        self._on_send = on_send
        self._timers = TimerQueue()
        self._parked: deque[tuple[int, Outcome]] = deque()
        self._watched_offset = 0
        """The offset at whose commit the writer releases the shard."""

    @property
    def refusal(self) -> ErrorCode:
        """The error for requests: COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR; NONE when active."""
        return _REFUSALS[self.state]

    def load(self, offset: int, record: CoordinatorRecord, producer: ProducerIdAndEpoch | None = None) -> None:
        """Replay one record of the log, in order, before `activate`."""
        assert self.state is ShardState.LOADING, self.state
        self.machine.replay(offset, record, producer)

    def load_end_marker(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> None:
        assert self.state is ShardState.LOADING, self.state
        self.machine.replay_end_marker(producer, is_commit=is_commit)

    def activate(self, now_ms: int, steady_ms: int | None = None) -> None:
        assert self.state is ShardState.LOADING, self.state
        self.state = ShardState.ACTIVE
        self.run(self.machine.on_loaded, now_ms, steady_ms)

    def run(self, operation: Callable[[int], Outcome], now_ms: int, steady_ms: int | None = None) -> None:
        """Decide, write, replay; reply now or when committed."""
        assert self.state is ShardState.ACTIVE, self.state
        outcome = self.decide(operation, now_ms)
        ahead_ms = 0 if steady_ms is None else steady_ms - now_ms
        for timer in outcome.timers:  # timers are soft state: they stay, whatever becomes of the records
            self._timers.apply(timer, ahead_ms)
        end_offset = self._writer.end_offset
        for records in outcome.pieces():
            appended = self._writer.append(records, outcome.producer, outcome.guard, now_ms)
            if isinstance(appended, ErrorCode):
                self._append_failed(outcome, appended, now_ms, steady_ms)
                return
            assert appended - end_offset == len(records), "one offset a record"
            for offset, record in enumerate(records, end_offset):
                self.machine.replay(offset, record, outcome.producer)
            end_offset = self._watched_offset = appended
        if end_offset > self._watched_offset:
            # The reply waits behind other appends, such as a transaction's marker: its effect is seen once it can no longer be lost.
            self._watched_offset = end_offset
            self._writer.watch(end_offset)
        self._parked.append((end_offset, outcome))
        self.release()

    def decide(self, operation: Callable[[int], Outcome], now_ms: int) -> Outcome:
        """Decide.  This reads hard state and changes none.  Tests watch that here."""
        return operation(now_ms)

    def end_marker_appended(self, producer: ProducerIdAndEpoch, *, is_commit: bool) -> None:
        """Note a transaction marker in this partition's log, beside the machine's own records."""
        assert self.state is ShardState.ACTIVE, self.state
        self.machine.replay_end_marker(producer, is_commit=is_commit)

    def release(self) -> None:
        """Release the replies and sends that have been committed meanwhile."""
        committed_offset = self._writer.committed_offset
        while self._parked and self._parked[0][0] <= committed_offset:
            _, outcome = self._parked.popleft()
            for reply in outcome.replies:
                reply.token.reply(reply.message)
            for send in outcome.sends:
                self._on_send(send)

    def next_due_ms(self) -> int | None:
        """The next due time on the steady clock."""
        return self._timers.next_due_ms()

    def fire(self, now_ms: int, steady_ms: int | None = None) -> None:
        """Run timers that are due, at most `FIRED_AT_ONCE`; the caller then asks for the next one."""
        due_ms = now_ms if steady_ms is None else steady_ms
        for _ in range(FIRED_AT_ONCE):
            operation = self._timers.pop_due(due_ms) if self.state is ShardState.ACTIVE else None
            if operation is None:
                return
            self.run(operation, now_ms, steady_ms)

    def close(self) -> None:
        """Close: another node leads now, or an append failed.  Every waiting request is answered with NOT_COORDINATOR."""
        if self.state is ShardState.CLOSED:
            return
        self.state = ShardState.CLOSED
        self._timers = TimerQueue()
        self._writer.drop()
        parked, self._parked = self._parked, deque()
        for _, outcome in parked:
            for reply in outcome.replies:
                reply.token.refuse(ErrorCode.NOT_COORDINATOR)
        for token in self.machine.on_unloaded():
            token.refuse(ErrorCode.NOT_COORDINATOR)

    def _append_failed(self, outcome: Outcome, code: ErrorCode, now_ms: int, steady_ms: int | None) -> None:
        if code in ONE_BATCH_ONLY:
            # Only the request fails: a client must not be able to close the shard for all others with one huge or late request.
            for reply in outcome.replies:
                reply.token.refuse(code)
            for instead in outcome.otherwise:
                self.run(partial(instead, code), now_ms, steady_ms)
            return
        for reply in outcome.replies:
            reply.token.refuse(ErrorCode.NOT_COORDINATOR)
        self.close()


_REFUSALS: Final = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.ACTIVE: ErrorCode.NONE,
    ShardState.CLOSED: ErrorCode.NOT_COORDINATOR,
}
