"""◇ The attempts of clients and the answers that they got, transaction by transaction: the reference that the logs are held against."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from moldau.types import TopicPartition


class Fate(Enum):
    """A client's knowledge of its transaction."""

    ABORTED = "nobody asked to commit it"
    COMMITTED = "committed"
    UNKNOWN = "a commit was asked for, no answer came"


class Place(NamedTuple):
    """The place of a value, and the time since which its client knows it."""

    partition: TopicPartition
    offset: int
    since_s: float


@dataclass(slots=True)
class Attempt:
    """One transaction of one client."""

    number: int
    transactional_id: str
    version: int
    """The transaction.version that the client speaks."""
    values: dict[TopicPartition, list[int]] = field(default_factory=dict)
    """The acknowledged values, in order."""
    sent: set[int] = field(default_factory=set)
    """All values that were sent, acknowledged or not."""
    offset: int | None = None
    """The last offset that was acknowledged for the group."""
    fate: Fate = Fate.ABORTED
    places: dict[int, Place] = field(default_factory=dict)
    """Acknowledged value → its place."""
    was_open_until_s: float | None = None
    """The time at which the client sent its successful EndTxn: until then nothing had ended the transaction."""

    @property
    def name(self) -> str:
        return f"transaction {self.number} of {self.transactional_id}"

    def acknowledged(self, partition: TopicPartition, values: Sequence[int], base_offset: int, now_s: float) -> None:
        self.values.setdefault(partition, []).extend(values)
        for index, value in enumerate(values):
            self.places[value] = Place(partition, base_offset + index, now_s)


@dataclass(slots=True)
class Fence:
    """A new epoch was given out.  From then on every append of `producer_id` with an older epoch is a zombie's."""

    producer_id: int
    epoch: int
    ends: dict[TopicPartition, int]
    """Log ends at a time after the decision about the new epoch."""


@dataclass(slots=True)
class Snapshot:
    """A reader's view of committed records at one moment."""

    visible: dict[TopicPartition, list[tuple[int, int]]]
    """(offset, value), in order."""
    last_stable_offsets: dict[TopicPartition, int]
    committed_offsets: dict[str, int | None]


@dataclass(slots=True)
class Notebook:
    """The notes of one schedule."""

    attempts: list[Attempt] = field(default_factory=list)
    fences: list[Fence] = field(default_factory=list)
    snapshots: list[Snapshot] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    _next_value: int = 0
    _newest: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Transactional id → the life that was initialised last, and the time at which it knew."""

    def take_over(self, transactional_id: str, now_s: float) -> int:
        """Note that a client was initialised.  Returns the number of this life of its transactional id, from 1."""
        life = self._newest.get(transactional_id, (0, 0.0))[0] + 1
        self._newest[transactional_id] = (life, now_s)
        return life

    def check_zombie(self, transactional_id: str, life: int, said: str, asked_s: float) -> None:
        """Note a violation if a request was granted that a life sent after its successor was initialised."""
        newest, since_s = self._newest[transactional_id]
        if newest > life and asked_s > since_s:
            self.violations.append(
                f"zombie: {said} granted life {life} of {transactional_id} at {asked_s:.3f} s, life {newest} began at {since_s:.3f} s"
            )

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
