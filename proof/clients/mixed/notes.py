"""◇ The notes that the members of a group wrote, and the promises to check.

A note is a line `<time> <kind> <words>`.  Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share, Java's too.

    A 0 3 5         the listener was told of these partitions
    R 3             the listener was told to give these up
    L 0 5           the listener was told that these were lost
    G 3:17-19       records of partition 3 were handed out, from offset 17 to 19
    E               the member has left the group and ends
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple


class Handed(NamedTuple):
    """Records that a member got, both offsets inclusive."""

    partition: int
    first: int
    last: int
    at_ns: int


class Hold(NamedTuple):
    """A partition in the hands of a member.  `ended_by`: the kind of the note, or `killed`, `paused`, `running`."""

    partition: int
    life: str
    since_ns: int
    until_ns: int
    ended_by: str


@dataclass(slots=True)
class Life:
    """One process.  `name` begins with its client's name.  `gone_ns`: when it was killed; `paused_ns`: when it was first stopped."""

    name: str
    lines: Sequence[str] = ()
    gone_ns: int | None = None
    paused_ns: int | None = None
    holds: list[Hold] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)
    has_left: bool = False
    lost: int = 0
    violations: list[str] = field(default_factory=list)

    def read(self, end_ns: int) -> None:
        """Follow the notes."""
        owned: dict[int, int] = {}
        for line in self.lines:
            when, kind, *words = line.split()
            at_ns = int(when)
            match kind:
                case "A":
                    for partition in map(int, words):
                        if partition in owned:
                            self.violations.append(f"{self.name} was given {partition} twice")
                        owned.setdefault(partition, at_ns)
                case "R" | "L":
                    self.lost += kind == "L"
                    for partition in map(int, words):
                        self._end(owned, partition, at_ns, kind)
                case "G":
                    self._hand_out(owned, words, at_ns)
                case "E":
                    self.has_left = True
                    for partition in list(owned):
                        self._end(owned, partition, at_ns, kind)
        for partition in list(owned):
            self._end(owned, partition, self.gone_ns or end_ns, "killed" if self.gone_ns else "running")

    def _end(self, owned: dict[int, int], partition: int, at_ns: int, kind: str) -> None:
        since_ns = owned.pop(partition, None)
        if since_ns is None:
            self.violations.append(f"{self.name} gave up {partition}, which it did not have")
        elif self.paused_ns is not None and since_ns < self.paused_ns < at_ns:
            self.holds.append(Hold(partition, self.name, since_ns, self.paused_ns, "paused"))
        else:
            self.holds.append(Hold(partition, self.name, since_ns, at_ns, kind))

    def _hand_out(self, owned: Mapping[int, int], words: Iterable[str], at_ns: int) -> None:
        for word in words:
            partition, _, span = word.partition(":")
            first, _, last = span.partition("-")
            handed = Handed(int(partition), int(first), int(last), at_ns)
            self.handed.append(handed)
            if handed.partition not in owned:
                self.violations.append(f"{self.name} handed out {word} without owning it")


def check(lives: Sequence[Life], ends: Mapping[int, int], commits: Mapping[int, Sequence[int]], *, end_ns: int) -> list[str]:
    """The violations in words.

    `ends`: partition → its end offset.  `commits`: partition → every offset that the group's coordinator has written, in order.
    """
    for life in lives:
        life.read(end_ns)
    found = [violation for life in lives for violation in life.violations]
    return [*found, *_unread(lives, ends), *_backwards(commits), *_overlapping(lives), *_unfinished(ends, commits)]


def _unread(lives: Sequence[Life], ends: Mapping[int, int]) -> Iterable[str]:
    spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for life in lives:
        for one in life.handed:
            spans[one.partition].append((one.first, one.last + 1))
    for partition, end in ends.items():
        position = 0
        for first, behind in [*sorted(spans[partition]), (end, end)]:
            if first > position:
                yield f"unread: nobody was handed {position} to {first - 1} of partition {partition}"
            position = max(position, behind)


def _backwards(commits: Mapping[int, Sequence[int]]) -> Iterable[str]:
    for partition, offsets in commits.items():
        for before, after in pairwise(offsets):
            if after < before:
                yield f"commit-went-back: partition {partition} from {before} to {after}"


def _overlapping(lives: Sequence[Life]) -> Iterable[str]:
    """Two owners at a time.

    A member that the group has thrown out learns of it late, and says so with `L`: that is no violation.  One that was paused may even read
    an assignment that is an old one by then.
    """
    by_partition: dict[int, list[Hold]] = defaultdict(list)
    for life in lives:
        for hold in life.holds:
            by_partition[hold.partition].append(hold)
    for partition, holds in by_partition.items():
        last: Hold | None = None
        for hold in sorted(holds, key=lambda hold: hold.since_ns):
            if last is not None and last.life != hold.life and hold.since_ns < last.until_ns and "L" not in (last.ended_by, hold.ended_by):
                overlap_ms = (min(last.until_ns, hold.until_ns) - hold.since_ns) / 1e6
                yield f"two-owners: {last} and {hold}: partition {partition} for {overlap_ms:.1f} ms"
            if last is None or hold.until_ns > last.until_ns:
                last = hold


def _unfinished(ends: Mapping[int, int], commits: Mapping[int, Sequence[int]]) -> Iterable[str]:
    for partition, end in ends.items():
        last = commits.get(partition, [0])[-1]
        if last != end:
            yield f"unfinished: partition {partition} ends at {end}, the group's last commit is {last}"
