"""◇ The records of a share partition that are between "never delivered" and "done", as runs of neighbouring offsets.

    InFlightBatch   what was acquired at once: redelivered at once too, and the measure by which suspicious records are delivered in
                    smaller portions
    Run             neighbouring offsets of a batch that share state, delivery count, holder and time

Runs tile their batch; batches tile a share partition from its start offset to the next offset that it has never read.  A run whose
change is being written (`change` is set) is left alone by everybody until that is settled.

Source: org.apache.kafka.server.share.fetch.InFlightBatch, InFlightState, RecordState.  Called by `partition.py`.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

NOBODY: Final = ""
"""The member that holds what nobody holds."""


class RecordState(IntEnum):
    """As the share coordinator stores it."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


class AcknowledgeType(IntEnum):
    """What a consumer says of a record."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class Run:
    """See the module.  `first` and `last` are inclusive.

    `due_ms`, on the steady clock: when the lock ends of what is ACQUIRED; before when what is AVAILABLE may not be delivered again.
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
    """What a run was before a change that is being written: where it goes back to when the writing fails."""

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
        """`is_unread`: a gap that the stored state left; nothing is known about how its offsets lie in the log."""
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
        assert run.change is None, "what is being written is not cut"
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
        """Neighbours that are alike become one run."""
        joined = [self.runs[0]]
        for run in self.runs[1:]:
            if joined[-1].is_like(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self.runs = joined
