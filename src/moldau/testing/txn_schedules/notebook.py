"""◇ What clients attempted and were told, transaction by transaction: the reference that the logs are held against."""

from dataclasses import dataclass, field
from enum import Enum

from moldau.types import TopicPartition


class Fate(Enum):
    """What its client knows of a transaction."""

    ABORTED = "nobody asked to commit it"
    COMMITTED = "committed"
    UNKNOWN = "a commit was asked for, no answer came"


@dataclass(slots=True)
class Attempt:
    """One transaction of one client."""

    number: int
    transactional_id: str
    version: int
    """transaction.version that its client speaks."""
    values: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """Acknowledged, in order."""
    sent: set[int] = field(default_factory=set)
    """Acknowledged or not."""
    offset: int | None = None
    """The last that was acknowledged for its group."""
    fate: Fate = Fate.ABORTED

    @property
    def name(self) -> str:
        return f"transaction {self.number} of {self.transactional_id}"


@dataclass(slots=True)
class Fence:
    """A new epoch was given out: what older ones of `producer_id` append from then on is a zombie's."""

    producer_id: int
    epoch: int
    ends: dict[TopicPartition, int]
    """Log ends when the answer was decided at the latest."""


@dataclass(slots=True)
class Snapshot:
    """What a reader of committed records saw at one moment."""

    visible: dict[TopicPartition, list[tuple[int, int]]]
    """(offset, value), in order."""
    last_stable_offsets: dict[TopicPartition, int]
    committed_offsets: dict[str, int | None]


@dataclass(slots=True)
class Notebook:
    """Of one schedule."""

    attempts: list[Attempt] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    _next_value: int = 0

    def begin(self, transactional_id: str, version: int) -> Attempt:
        attempt = Attempt(len(self.attempts) + 1, transactional_id, version)
        self.attempts.append(attempt)
        return attempt

    def new_value(self, attempt: Attempt) -> int:
        self._next_value += 1
        attempt.sent.add(self._next_value)
        return self._next_value

    def count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1
