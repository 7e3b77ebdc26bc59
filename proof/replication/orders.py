"""● Every order in which replicas can be cut off, stopped, killed, lose power and come back, up to a depth, on pure objects.

    python -m proof.replication.orders --depth 5

`orders(5)` are all sequences of five such events on three replicas in which each event changes something.  A replica that is up can be cut
off, stopped cleanly, killed or lose power.  A replica that is cut off can be killed, lose power or be reached again.  A replica that is
down can start.  Replica 1 leads in the beginning, and 2 and 3 are alike then: of two orders that differ only by their names, one is tried.

Between the events the replicas append, fetch, sync and ask the controller, as often as chance decides.  The promises are those of
`schedules.py`.  A replica that is cut off reaches neither the others nor the controller.  The controller fences it, but the replica goes on
leading by the metadata that it knows.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

from moldau.types import NO_LEADER
from proof.replication.broker import Broker
from proof.replication.schedules import Schedule, Violation

REPLICAS: Final = (1, 2, 3)
SETTLED_WITHIN: Final = 60
"""The number of rounds of fetches within which all must be settled."""


class Kind(Enum):
    CUT = "cut"
    STOP = "stop"
    KILL = "kill"
    POWER = "power"
    RESTART = "restart"


class Event(NamedTuple):
    kind: Kind
    replica: int

    def __str__(self) -> str:
        return f"{self.kind.value} {self.replica}"


class State(Enum):
    UP = "up"
    CUT = "cut off"
    DOWN = "down"


AFTER: Final = {
    State.UP: {Kind.CUT: State.CUT, Kind.STOP: State.DOWN, Kind.KILL: State.DOWN, Kind.POWER: State.DOWN},
    State.CUT: {Kind.KILL: State.DOWN, Kind.POWER: State.DOWN, Kind.RESTART: State.UP},
    State.DOWN: {Kind.RESTART: State.UP},
}
"""State → event → next state.  A replica that is cut off cannot stop cleanly, because nobody takes its leaderships."""


def orders(depth: int) -> Iterator[tuple[Event, ...]]:
    """All orders of this depth in which replica 2 comes before replica 3."""
    return _orders((State.UP,) * len(REPLICAS), (), depth)


def _orders(states: tuple[State, ...], before: tuple[Event, ...], depth: int) -> Iterator[tuple[Event, ...]]:
    if not depth:
        yield before
        return
    has_2 = any(event.replica == 2 for event in before)
    for place, replica in enumerate(REPLICAS):
        if replica == 3 and not has_2:
            continue
        for kind, state in AFTER[states[place]].items():
            yield from _orders((*states[:place], state, *states[place + 1 :]), (*before, Event(kind, replica)), depth - 1)


class Order(Schedule):
    """One order, with random work between its events."""

    def __init__(self, events: Sequence[Event], seed: int) -> None:
        super().__init__(seed)
        self.events: Final = events
        self.cut_off: set[int] = set()
        self._whose_turn: Broker | None = None

    def run_all(self) -> None:
        """Run the whole order.  Errors: Violation."""
        try:
            self._work()
            for event in self.events:
                self._happen(event)
                self._work()
            self.settle()
        except Violation as broken:
            raise Violation(f"{', '.join(map(str, self.events))}: {broken}") from None

    def _happen(self, event: Event) -> None:
        broker = self.brokers[event.replica]
        match event.kind:
            case Kind.CUT:
                self.cut_off.add(broker.id)
                self._fence(broker)
            case Kind.STOP:
                self._fence(broker)
                broker.sync()
                broker.crash(with_power=False)
            case Kind.KILL | Kind.POWER:
                broker.crash(with_power=event.kind is Kind.POWER)
                if broker.id not in self.cut_off:
                    self._fence(broker)
                self.cut_off.discard(broker.id)
            case Kind.RESTART if broker.is_up:
                self._reach(broker)
            case Kind.RESTART:
                self._start(broker)
        self.check()

    def _reach(self, broker: Broker) -> None:
        self.cut_off.discard(broker.id)
        self.partition_epoch += 1
        if self.leader_id == NO_LEADER and broker.id in self.isr:
            self._elect(broker.id)
        self._tell(broker)

    def _work(self) -> None:
        for _ in range(self.choice.choice((0, 1, 2, 4))):
            self.now_ms += 50
            self.append()
            brokers = list(self.brokers.values())
            self.choice.shuffle(brokers)
            for broker in brokers:
                self._turn(broker, self.choice.choice((0.3, 0.7, 1.0)))
            self.check()

    def _turn(self, broker: Broker, eagerness: float) -> None:
        if not broker.is_up:
            return
        self._whose_turn = broker
        steps = (self.tell, self.sync, self.fetch, self.deliver, self.sync, self.fetch, self.alter, self.alter, self.hear)
        for step in steps:
            if self.choice.random() < eagerness and (step == self.sync or self._is_reached(broker, step == self.fetch)):
                step()

    def _is_reached(self, broker: Broker, is_leader_needed: bool) -> bool:
        return broker.id not in self.cut_off and not (is_leader_needed and broker.partition.leader_id in self.cut_off)

    def _anyone(self) -> Broker | None:
        return self._whose_turn

    def elect(self) -> None:
        candidates = [each for each in self.isr if self.brokers[each].is_up and each not in self.cut_off]
        self._elect(self.choice.choice(candidates) if candidates else NO_LEADER)

    def settle(self) -> None:
        for broker in self.brokers.values():
            if broker.id in self.cut_off:
                self._reach(broker)
            elif not broker.is_up:
                self._start(broker)
        if self.leader_id == NO_LEADER:
            self.elect()
        for round_number in range(SETTLED_WITHIN):
            self.now_ms += 100
            if round_number == 5:
                self.append()
            for broker in self.brokers.values():
                self._turn(broker, 1.0)
            if round_number > 5 and self._is_settled():
                break
        self.check_settled()

    def _is_settled(self) -> bool:
        ends = {(broker.log.log_end_offset, broker.log.high_watermark) for broker in self.brokers.values()}
        return len(self.isr) == len(REPLICAS) and len(ends) == 1 and all(each.log.is_flushed for each in self.brokers.values())


def main() -> int:
    """Run all orders.  Returns an exit code of 1 if some break a promise."""
    parser = argparse.ArgumentParser(prog="python -m proof.replication.orders", description=__doc__)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--every", type=int, default=1, help="try only one in so many orders")
    given = parser.parse_args()
    count = bad = 0
    for number, events in enumerate(islice(orders(given.depth), 0, None, given.every)):
        try:
            Order(events, number).run_all()
        except Violation as broken:
            bad += 1
            sys.stdout.write(f"{broken}\n")
        count += 1
        if count % 1000 == 0:
            sys.stdout.write(f"{count} orders, {bad} bad\n")
            sys.stdout.flush()
    sys.stdout.write(f"{count} orders of {given.depth} events: {bad} break a promise\n")
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
