"""◇ The records of a share partition that are between "never delivered" and "done", as runs of neighbouring offsets.

    InFlightBatch   records that were acquired at once: they are redelivered at once, too, and suspicious ones in smaller portions
    Run             neighbouring offsets of a batch that share state, delivery count, holder and time

Runs tile their batch; batches tile a share partition from its start offset to the next offset that it has never read.  No operation touches
a run whose change is being written (`change` is set) until that is settled.

Source: org.apache.kafka.server.share.fetch.InFlightBatch, InFlightState, RecordState.  Called by `partition.py`.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

NOBODY: Final = ""
"""The holder of a record that no member holds."""


class RecordState(IntEnum):
    """The state of a record, as the share coordinator stores it."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


class AcknowledgeType(IntEnum):
    """A consumer's acknowledgement of a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Run:
    """See the module.  `first` and `last` are inclusive.

    `due_ms`, on the steady clock: for ACQUIRED, the end of the lock; for AVAILABLE, the time before which it is not delivered again.
    """

    __slots__ = ("change", "delivery_count", "due_ms", "first", "last", "member_id", "state")

    def __init__(self, first: int, last: int, state: RecordState, delivery_count: int, member_id: str = NOBODY, due_ms: int = 0) -> None:
        self.first = first
        self.last = last
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.due_ms = due_ms
        self.change: Change | None = None

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __repr__(self) -> str:
        holder = f" by {self.member_id}" if self.member_id else ""
        pending = " (being written)" if self.change is not None else ""
        return f"{self.first}-{self.last} {self.state.name}×{self.delivery_count}{holder}{pending}"

    def is_like(self, other: "Run") -> bool:
        """Whether both can be one run."""
        return (
            self.change is None
            and other.change is None
            and self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.due_ms == other.due_ms
        )

    def is_deliverable(self, now_ms: int) -> bool:
        return self.state is RecordState.AVAILABLE and self.change is None and self.due_ms <= now_ms


class Change:
    """The state of a run before a change that is being written.  The run goes back to it if the writing fails."""

    __slots__ = ("due_ms", "member_id", "run", "state")

    def __init__(self, run: Run) -> None:
        self.run: Final = run
        self.state: Final = run.state
        self.member_id: Final = run.member_id
        self.due_ms: Final = run.due_ms


class InFlightBatch:
    """See the module.  `size` is that of the batch when it was made; its head may have gone since."""

    __slots__ = ("is_unread", "runs", "size")

    def __init__(self, run: Run, *, is_unread: bool = False) -> None:
        """`is_unread`: the batch is a gap in the stored state; how its offsets lie in the log is not known."""
        self.runs: list[Run] = [run]
        self.size: Final = len(run)
        self.is_unread = is_unread

    @property
    def first(self) -> int:
        return self.runs[0].first

    @property
    def last(self) -> int:
        return self.runs[-1].last

    def within(self, first: int, last: int) -> Iterator[Run]:
        """The runs that have an offset in that range, as they are now."""
        return iter([run for run in self.runs if run.first <= last and run.last >= first])

    def cut(self, run: Run, first: int, last: int) -> Run:
        """The part of `run` in that range as a run of its own."""
        assert run.change is None, "a run that is being written is not cut"
        at = self.runs.index(run)
        if run.first < first:
            head = Run(run.first, first - 1, run.state, run.delivery_count, run.member_id, run.due_ms)
            self.runs.insert(at, head)
            at += 1
            run.first = first
        if run.last > last:
            tail = Run(last + 1, run.last, run.state, run.delivery_count, run.member_id, run.due_ms)
            self.runs.insert(at + 1, tail)
            run.last = last
        return run

    def join(self) -> None:
        """Join neighbouring runs that are alike."""
        joined = [self.runs[0]]
        for run in self.runs[1:]:
            if joined[-1].is_like(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self.runs = joined
