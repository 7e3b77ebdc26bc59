"""● Faults to plant in replication that random schedules must notice.

with planted("no-divergence"):
    Schedule(seed).run(steps=200)        # raises Violation, for some seed
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from moldau.replication import catch_up, partition
from moldau.replication.follower import Followed
from moldau.replication.isr import IsrProposal
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.storage.epochs import EpochEnd
from moldau.storage.log import Log

Patch = AbstractContextManager[Any]


def _by_high_watermark(log: Log, diverging: EpochEnd) -> int:
    return log.high_watermark


def _by_the_leaders_end(log: Log, diverging: EpochEnd) -> int:
    return min(diverging.end_offset, log.log_end_offset)


def _only_what_is_committed(self: Partition, isr: tuple[int, ...]) -> None:
    self.proposal = IsrProposal(isr, self.leader_epoch, self.partition_epoch)
    if self.on_proposal is not None:
        self.on_proposal(self)


def _the_proposed_alone(self: Partition, isr: tuple[int, ...]) -> None:
    _only_what_is_committed(self, isr)
    self.maximal_isr = isr


def _known_once_more(apply: Callable[..., bool]) -> Callable[..., bool]:
    def patched(self: ReplicaManager, replica: Partition, **said: Any) -> bool:
        if said["partition_epoch"] == replica.partition_epoch:
            replica.partition_epoch -= 1
        return apply(self, replica, **said)

    return patched


def _with_old_followers(lead: Callable[..., None]) -> Callable[..., None]:
    def patched(self: Partition, **said: Any) -> None:
        before = _OF_BEFORE.get(self)
        lead(self, **said)
        if before is not None:
            for broker_id, state in before.items():
                if broker_id in self.followers and self.followers[broker_id].log_end_offset < 0:
                    self.followers[broker_id] = state
        _OF_BEFORE[self] = dict(self.followers)

    return patched


_OF_BEFORE: Final[dict[Partition, dict[int, Any]]] = {}


def _half_in_sync(*, followers: Any, maximal_isr: Any, leader_end_offset: int, **_: Any) -> int:
    ends = sorted([leader_end_offset, *(followers[each].log_end_offset for each in maximal_isr if each in followers)], reverse=True)
    return int(max(0, ends[len(ends) // 2]))


def _without_epoch(fetched: Callable[..., None]) -> Callable[..., None]:
    def patched(self: Partition, broker_id: int, **said: Any) -> None:
        fetched(self, broker_id, **(said | {"broker_epoch": -1}))

    return patched


@contextmanager
def _all(*patches: Patch) -> Iterator[None]:
    first, *others = patches
    with first:
        if others:
            with _all(*others):
                yield
        else:
            yield


PLANTS: Final[dict[str, tuple[str, Callable[[], Patch]]]] = {
    "truncates-to-high-watermark": (
        "a follower truncates to its high watermark, which may lag (KIP-101)",
        lambda: patch.object(catch_up, "truncation_offset", _by_high_watermark),
    ),
    "truncates-by-leader-alone": (
        "a follower asks nobody but the leader where an epoch ended (KIP-279)",
        lambda: patch.object(catch_up, "truncation_offset", _by_the_leaders_end),
    ),
    "no-divergence": (
        "a leader does not compare the epoch of a follower's last record with its own",
        lambda: patch.object(Partition, "_divergence", lambda *_: None),
    ),
    "offset-before-sync": (
        "a follower tells an end that is not on stable storage",
        lambda: patch.object(Followed, "is_flushed", property(lambda _: True)),
    ),
    "leader-does-not-sync": (
        "a leader acknowledges what its own disk may lose",
        lambda: patch.object(Partition, "acknowledged_offset", property(lambda self: self.log.high_watermark)),
    ),
    "joiner-does-not-count": (
        "one that is about to join does not count until the controller has answered",
        lambda: patch.object(Partition, "_propose", _only_what_is_committed),
    ),
    "leaver-does-not-count": (
        "one that is to leave counts no more although the controller has not answered",
        lambda: patch.object(Partition, "_propose", _the_proposed_alone),
    ),
    "known-state-once-more": (
        "a state of the metadata that is known already undoes what was proposed since",
        lambda: patch.object(ReplicaManager, "apply", _known_once_more(ReplicaManager.apply)),
    ),
    "earlier-life-joins": (
        "what a broker fetched before it was started again lets it join (KIP-903)",
        lambda: _all(
            patch.object(Partition, "_is_of_this_life", lambda *_: True),
            patch.object(Partition, "is_stale", lambda *_: False),
            patch.object(Partition, "follower_fetched", _without_epoch(Partition.follower_fetched)),
        ),
    ),
    "followers-of-before": (
        "a leader of a new epoch believes what followers told it in the one before",
        lambda: patch.object(Partition, "lead", _with_old_followers(Partition.lead)),
    ),
    "joins-without-the-committed": (
        "a follower joins although it does not have all that is committed",
        lambda: patch.object(partition, "may_join", lambda *_, **__: True),
    ),
    "half-is-enough": (
        "what more than half of the in-sync replicas have counts as committed",
        lambda: patch.object(partition, "high_watermark_of", _half_in_sync),
    ),
    "below-min-insync": (
        "what fewer than min.insync.replicas have is committed, and acknowledged once more are in sync (KIP-966)",
        lambda: patch.object(Partition, "min_insync", property(lambda _: 1)),
    ),
    "stale-answers": (
        "an answer that was asked for under another leader epoch is taken",
        lambda: patch.object(Followed, "is_current", property(lambda _: True)),
    ),
}
"""Name → the fault in words, and the patch that plants it."""

RARE: Final = (
    "joiner-does-not-count",
    "known-state-once-more",
    "earlier-life-joins",
    "followers-of-before",
)
"""Faults that need more than a hundred seeds to be found.  Each has a test of its own that shows it, too."""


@contextmanager
def planted(name: str) -> Iterator[None]:
    _OF_BEFORE.clear()
    with PLANTS[name][1]():
        yield
