"""Every order of three events on three replicas holds; `python -m proof.replication.orders --depth 5` tries all of five."""

import pytest

from proof.replication.orders import Order, orders
from proof.replication.plants import planted
from proof.replication.schedules import Violation


def test_every_order_of_three_events_keeps_the_promises() -> None:
    assert run_all() == 444


def run_all() -> int:
    tried = 0
    for number, events in enumerate(orders(3)):
        Order(events, number).run_all()
        tried += 1
    return tried


@pytest.mark.parametrize("plant", ["truncates-by-leader-alone", "offset-before-sync", "joins-without-the-committed", "below-min-insync"])
def test_some_order_finds_a_planted_fault(plant: str) -> None:
    with planted(plant), pytest.raises(Violation):
        run_all()
