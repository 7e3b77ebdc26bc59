"""◇ The outcome of one operation on a replicated machine: records to write, replies, timers and sends.

Nothing in an `Outcome` has happened yet.  `runtime.Shard` makes it happen: it appends and replays the records, arms the timers,
and lets replies and sends go once the records are committed.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from moldau.errors import ErrorCode

PIECE_RECORDS: Final = 500
"""The records of one piece of an outcome that is not atomic: well below what a batch may hold, whatever the names are."""


class CoordinatorRecord(NamedTuple):
    """A key with its value, both declared messages; without a value it is a tombstone."""

    key: Any
    value: Any | None


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    epoch: int


class Token(Protocol):
    """One request.  The shell makes the token; a machine keeps it while the request waits and gives it back with the answer."""

    def reply(self, message: Any) -> None: ...

    def refuse(self, code: ErrorCode) -> None:
        """Answer in the request's own form with `code`."""
        ...


@dataclass(slots=True, frozen=True)
class Reply:
    token: Token
    message: Any


@dataclass(slots=True, frozen=True)
class Timer:
    """Set the timer `key` to run `operation(now_ms)` at `due_ms`, in place of its earlier setting; without `due_ms` it is cancelled."""

    key: Hashable
    due_ms: int | None = None
    operation: Callable[[int], "Outcome"] | None = None

    def __post_init__(self) -> None:
        assert (self.due_ms is None) == (self.operation is None), "a timer is set with due_ms and operation, cancelled with neither"


@dataclass(slots=True)
class Outcome:
    """The outcome of one operation.  Nothing has happened yet."""

    records: list[CoordinatorRecord] = field(default_factory=list)
    """The truth to write: replaying them is the change of state.  One atomic batch, unless `is_atomic` says otherwise."""
    replies: list[Reply] = field(default_factory=list)
    """Sent once `records` are committed; they may answer requests parked earlier."""
    timers: list[Timer] = field(default_factory=list)
    """Set or cancelled at once: timers are soft state."""
    sends: list[Any] = field(default_factory=list)
    """Messages for other nodes, sent once `records` are committed."""
    producer: ProducerIdAndEpoch | None = None
    """The transaction of `records`: they count when its marker commits it."""
    is_atomic: bool = True
    """False where parts of the records are valid by themselves, and all of them may exceed one batch."""
    otherwise: "list[Callable[[ErrorCode, int], Outcome]]" = field(default_factory=list)
    """`(code, now_ms)` → the decision instead, when the log refuses `records` for their content.

    It is needed if a request waits, or if soft state went ahead of the records.
    """
    guard: object | None = None
    """The guard with which the log takes `records` into that transaction (KIP-890)."""

    def pieces(self) -> Sequence[list[CoordinatorRecord]]:
        """The records, batch by batch."""
        records = self.records
        if self.is_atomic or len(records) <= PIECE_RECORDS:
            return [records] if records else ()
        return [records[start : start + PIECE_RECORDS] for start in range(0, len(records), PIECE_RECORDS)]

    def __iadd__(self, other: "Outcome") -> "Outcome":
        """This outcome, followed by `other`."""
        assert other.producer == self.producer or not other.records, "one outcome is one batch: it cannot be in two transactions"
        self.records += other.records
        self.replies += other.replies
        self.timers += other.timers
        self.sends += other.sends
        self.otherwise += other.otherwise
        return self


def answer(token: Token, message: Any) -> Outcome:
    """An outcome that only replies: a read, or a refusal."""
    return Outcome(replies=[Reply(token, message)])
