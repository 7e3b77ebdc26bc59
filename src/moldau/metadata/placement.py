"""◇ Chooses the brokers of a new partition: striped over racks, leaders in turn, fenced brokers last.  Racks take turns from a random
start, and so do the brokers of a rack.  The first replica, the future leader, is not fenced.  After one round over all of them both orders
are shuffled, so that the same brokers do not always stand together.
Source: StripedReplicaPlacer.java.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from moldau.errors import ErrorCode, KafkaError


class Chance(Protocol):
    """The part of `random.Random` that is used here."""

    def randrange(self, start: int, /) -> int: ...

    def shuffle(self, items: list[int], /) -> None: ...


@dataclass(slots=True, frozen=True)
class UsableBroker:
    id: int
    rack: str | None
    fenced: bool


@dataclass(slots=True)
class _Ring:
    """Brokers in turn; each at most once for one partition."""

    brokers: list[int] = field(default_factory=list)
    start: int = 0
    given: int = 0
    turn: int = 0

    def next(self, turn: int) -> int | None:
        if not self.brokers:
            return None
        if turn != self.turn:
            self.turn, self.given, self.start = turn, 0, (self.start + 1) % len(self.brokers)
        if self.given >= len(self.brokers):
            return None
        self.given += 1
        return self.brokers[(self.start + self.given - 1) % len(self.brokers)]


@dataclass(slots=True)
class _Rack:
    unfenced: _Ring = field(default_factory=_Ring)
    fenced: _Ring = field(default_factory=_Ring)

    def next(self, turn: int) -> int | None:
        unfenced = self.unfenced.next(turn)
        return self.fenced.next(turn) if unfenced is None else unfenced


def place(brokers: Iterable[UsableBroker], *, partition_count: int, replication_factor: int, chance: Chance) -> list[tuple[int, ...]]:
    """The replicas of each partition, leader first.  Errors: KafkaError INVALID_REPLICATION_FACTOR."""
    usable = sorted(brokers, key=lambda broker: broker.id)
    unfenced_count = sum(not broker.fenced for broker in usable)
    racks: dict[str, _Rack] = {}
    for broker in usable:
        rack = racks.setdefault(broker.rack or "", _Rack())
        (rack.fenced if broker.fenced else rack.unfenced).brokers.append(broker.id)
    names = sorted(racks)
    for name in names:
        rack = racks[name]
        for ring in (rack.fenced, rack.unfenced):
            ring.start = chance.randrange(len(ring.brokers)) if ring.brokers else 0
    order = list(range(len(names)))
    offset, turn = chance.randrange(len(names)) if names else 0, 0
    _check(replication_factor, len(usable), unfenced_count)
    placed = []
    for _ in range(partition_count):
        if turn == unfenced_count and unfenced_count > 1:
            chance.shuffle(order)
            for name in names:
                chance.shuffle(racks[name].fenced.brokers)
                chance.shuffle(racks[name].unfenced.brokers)
            turn = 0
        in_order = [racks[names[index]] for index in order]
        placed.append(_replicas(in_order, offset % len(in_order), turn, replication_factor))
        offset, turn = (offset + 1) % len(in_order), turn + 1
    return placed


def _replicas(racks: list[_Rack], offset: int, turn: int, count: int) -> tuple[int, ...]:
    """The replicas of one partition: the first from the first rack with a broker that is not fenced, the others from the racks in turn.

    The rack of the first replica is used again at the end of its round.
    """
    first_rack = offset
    while (leader := racks[first_rack].unfenced.next(turn)) is None:
        first_rack = (first_rack + 1) % len(racks)
    replicas, rack, skipped = [leader], offset, False
    while len(replicas) < count:
        if rack == first_rack and not skipped:
            skipped = True
        else:
            found = racks[rack].next(turn)
            if found is not None:
                replicas.append(found)
        rack = (rack + 1) % len(racks)
    return tuple(replicas)


def _check(replication_factor: int, broker_count: int, unfenced_count: int) -> None:
    reason = None
    if replication_factor <= 0:
        reason = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
    elif unfenced_count == 0:
        reason = "All brokers are currently fenced, or have all their log directories cordoned."
    elif replication_factor > broker_count:
        reason = (
            f"The target replication factor of {replication_factor} cannot be reached because only {broker_count} broker(s) are registered "
            "or some brokers have all their log directories cordoned."
        )
    if reason is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
