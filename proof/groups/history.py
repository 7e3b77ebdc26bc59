"""◇ The answers that group members got, and the promises to check: one owner a partition, no commit by a removed member, no commit lost.

Times are those of the loop, in milliseconds.  A member holds a partition from the answer that assigned it until the member gives the
partition up, is told that it is out of the group, or has had no good answer for a session.  After such a session the member must take
itself for gone.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from moldau.testing.checker import Outcome


@dataclass(slots=True)
class Hold:
    """A partition in the hands of a member.

    `owner` is the instance id of a static member, because its member ids come and go; for any other member it is the member id.
    """

    group: str
    key: str
    owner: str
    member_id: str
    epoch: int
    since_ms: float
    until_ms: float


class Commit(NamedTuple):
    group: str
    key: str
    owner: str
    member_id: str
    epoch: int
    offset: int
    outcome: Outcome
    start_ms: float
    end_ms: float


class Fetched(NamedTuple):
    """A fetched offset.  `offset` is -1 if nothing was committed."""

    group: str
    key: str
    offset: int
    start_ms: float
    end_ms: float


class Gone(NamedTuple):
    """The member was told that it is out, or that it has left.  After that no commit up to `epoch` may succeed under its id."""

    group: str
    member_id: str
    epoch: int
    at_ms: float


class ThrownOut(NamedTuple):
    """The member was told that it is out although it had got every answer since `since_ms`."""

    group: str
    member_id: str
    since_ms: float
    at_ms: float


PATIENCE_MS: Final = 10_000
"""Longer than a member of the simulations may take to follow an answer: its session, or its part of a rebalance."""

T = TypeVar("T", Hold, Commit, Fetched)


@dataclass(slots=True)
class GroupHistory:
    holds: list[Hold] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    resets: list[Commit] = field(default_factory=list)
    """An administrator's commits into a group without members."""
    fetches: list[Fetched] = field(default_factory=list)
    gone: list[Gone] = field(default_factory=list)
    thrown_out: list[ThrownOut] = field(default_factory=list)
    restarting: set[str] = field(default_factory=set)
    """Groups that change their protocol.  An empty group begins to count its epochs anew when a member of the other protocol comes."""


def check_groups(history: GroupHistory) -> list[str]:
    """The violations in words; empty when every promise holds."""
    return [*_owners(history.holds), *_epochs(history), *_fenced(history), *_gone(history), *_thrown_out(history), *_offsets(history)]


def _owners(holds: Iterable[Hold]) -> Iterable[str]:
    for (group, key), those in _by_key(holds).items():
        last: Hold | None = None
        for hold in sorted(those, key=lambda hold: hold.since_ms):
            if last is not None and last.owner != hold.owner and hold.since_ms < last.until_ms:
                yield f"two-owners of {key} in {group}: {last} and {hold}"
            if last is None or hold.until_ms > last.until_ms:
                last = hold


def _epochs(history: GroupHistory) -> Iterable[str]:
    owners: dict[tuple[str, str, int], str] = {}
    for hold in history.holds:
        if hold.group in history.restarting:
            continue
        owner = owners.setdefault((hold.group, hold.key, hold.epoch), hold.owner)
        if owner != hold.owner:
            yield f"two-owners of {hold.key} in epoch {hold.epoch} of {hold.group}: {owner} and {hold.owner}"


def _fenced(history: GroupHistory) -> Iterable[str]:
    holds = _by_key(history.holds)
    for commit in history.commits:
        if commit.outcome is Outcome.OK and commit.group not in history.restarting:
            for hold in holds[commit.group, commit.key]:
                if hold.owner != commit.owner and hold.epoch > commit.epoch and hold.since_ms <= commit.start_ms:
                    yield f"fenced-commit: {commit} was taken after {hold}"


def _gone(history: GroupHistory) -> Iterable[str]:
    gone: dict[tuple[str, str], list[Gone]] = defaultdict(list)
    for one in history.gone:
        gone[one.group, one.member_id].append(one)
    for commit in history.commits:
        if commit.outcome is Outcome.OK:
            for one in gone[commit.group, commit.member_id]:
                if commit.epoch <= one.epoch and one.at_ms <= commit.start_ms:
                    yield f"commit-of-who-is-gone: {commit} was taken after {one}"


def _thrown_out(history: GroupHistory) -> Iterable[str]:
    for one in history.thrown_out:
        if one.at_ms - one.since_ms > PATIENCE_MS:
            yield f"thrown-out: {one} had heard every answer, and did as it was told"


def _offsets(history: GroupHistory) -> Iterable[str]:
    commits, resets, fetches = _by_key(history.commits), _by_key(history.resets), _by_key(history.fetches)
    for where, asked in fetches.items():
        for fetch in asked:
            earlier = [(one.offset, one.start_ms, one.end_ms) for one in commits[where] if one.outcome is Outcome.OK]
            earlier += [(one.offset, one.start_ms, one.end_ms) for one in asked]
            resets_before = [one for one in resets[where] if one.outcome is not Outcome.FAIL and one.start_ms < fetch.end_ms]
            for offset, start_ms, end_ms in earlier:
                is_before = end_ms < fetch.start_ms and not any(one.end_ms > start_ms for one in resets_before)
                if is_before and offset > fetch.offset:
                    yield f"lost-commit: {fetch} came after {offset} at {end_ms:.0f}"
            written = [one for one in (*commits[where], *resets_before) if one.outcome is not Outcome.FAIL]
            if fetch.offset >= 0 and not any(one.offset == fetch.offset and one.start_ms < fetch.end_ms for one in written):
                yield f"made-up-offset: {fetch} was never committed"


def _by_key(those: Iterable[T]) -> defaultdict[tuple[str, str], list[T]]:
    found: defaultdict[tuple[str, str], list[T]] = defaultdict(list)
    for one in those:
        found[one.group, one.key].append(one)
    return found


def holders(history: GroupHistory, group: str, keys: Sequence[str], now_ms: float) -> dict[str, list[str]]:
    """The present holder of each partition."""
    held: dict[str, list[str]] = {key: [] for key in keys}
    for hold in history.holds:
        if hold.group == group and hold.key in held and hold.since_ms <= now_ms < hold.until_ms:
            held[hold.key].append(hold.owner)
    return held
