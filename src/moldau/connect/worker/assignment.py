"""◇ Decides, on the leader, which worker runs which connector and task, from the present assignment.

Guarantees.  A unit that a worker has is never given to another one in the same round: it is revoked first, its worker joins again once the
unit has stopped, and the next round gives it away.  So no unit runs twice.  After the rounds settle, no worker has two units more than
another one of the same kind (connectors, tasks).  A worker that is gone owns nothing, so its units are given to others at once; Kafka's
worker waits scheduled.rebalance.max.delay.ms for it.

Source: IncrementalCooperativeAssignor (KIP-415), its aims, not its steps.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from moldau.connect.store.configs import TaskId
from moldau.connect.worker.protocol import CONNECTOR_ITSELF


@dataclass(slots=True)
class Share:
    """`given`: all that the worker has after this round; `revoked`: what it has to stop now."""

    given: list[TaskId] = field(default_factory=list)
    revoked: list[TaskId] = field(default_factory=list)


def assign(units: Collection[TaskId], owned: Mapping[str, Collection[TaskId]]) -> dict[str, Share]:
    """`units`: all configured units; `owned`: the units that each member has."""
    shares = {member: Share() for member in sorted(owned)}
    wanted = set(units)
    taken: set[TaskId] = set()
    contested = {unit for unit in wanted if sum(unit in has for has in owned.values()) > 1}
    for member, share in shares.items():
        for unit in sorted(owned[member]):
            if unit in wanted and unit not in contested:
                share.given.append(unit)
                taken.add(unit)
            else:
                share.revoked.append(unit)
    for of_kind in (_connectors, _tasks):
        free = [unit for unit in sorted(wanted - taken - contested) if of_kind(unit)]
        total = sum(1 for unit in wanted if of_kind(unit))
        _level(shares, free, total, of_kind)
    for share in shares.values():
        share.given.sort()
    return shares


def _connectors(unit: TaskId) -> bool:
    return unit.task == CONNECTOR_ITSELF


def _tasks(unit: TaskId) -> bool:
    return unit.task != CONNECTOR_ITSELF


def _level(shares: Mapping[str, Share], free: list[TaskId], total: int, of_kind: Callable[[TaskId], bool]) -> None:
    """Gives the free units to the workers with the fewest, and revokes units of workers that have too many."""
    loads = {member: sum(1 for unit in share.given if of_kind(unit)) for member, share in shares.items()}
    for unit in free:
        member = min(loads, key=lambda one: (loads[one], one))
        shares[member].given.append(unit)
        loads[member] += 1
    low, extra = divmod(total, len(shares))
    for member in sorted(loads, key=lambda one: (-loads[one], one)):
        limit = low + (1 if extra > 0 else 0)
        extra -= 1 if loads[member] > low else 0
        surplus = [unit for unit in sorted(shares[member].given) if of_kind(unit)][limit:]
        for unit in surplus:
            shares[member].given.remove(unit)
            shares[member].revoked.append(unit)
