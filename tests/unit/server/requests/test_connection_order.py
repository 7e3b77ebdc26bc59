"""Requests on a connection that their sender has replaced."""

import tracemalloc

from moldau.server.requests import connection_order
from moldau.server.requests.connection_order import ConnectionOrder, TransactionOrder

OLD, NEW = 4, 9
PRODUCER = (1000, 3)


def overtaken(order: ConnectionOrder, connection: int, producer: tuple[int, int] = PRODUCER, sender: str = "copier") -> bool:
    return order.is_overtaken("the transaction", sender, producer, connection)


def test_an_older_connection_is_overtaken_once_a_newer_one_was_used() -> None:
    order = ConnectionOrder()
    assert not overtaken(order, OLD)
    assert not overtaken(order, NEW)
    assert overtaken(order, OLD)
    assert not overtaken(order, NEW)


def test_every_purpose_and_sender_has_an_order_of_its_own() -> None:
    order = ConnectionOrder()
    assert not overtaken(order, NEW)
    assert not overtaken(order, OLD, sender="billing")
    assert not order.is_overtaken("records", "copier", PRODUCER, OLD)


def test_epochs_speak_for_themselves() -> None:
    order = ConnectionOrder()
    assert not overtaken(order, NEW)
    assert not overtaken(order, OLD, (1000, 2)), "a zombie is told that it is fenced"
    assert overtaken(order, OLD), "the zombie's request changes nothing"
    assert not overtaken(order, OLD, (1000, 4)), "a new epoch begins anew"
    assert not overtaken(order, OLD, (2000, 0)), "a new producer id begins anew, too"


def test_a_late_marker_of_an_older_epoch_is_overtaken_too() -> None:
    order = ConnectionOrder()
    assert not order.is_overtaken("a marker", (1000, 1), PRODUCER, NEW, tells_zombies=False)
    assert order.is_overtaken("a marker", (1000, 1), (1000, 2), OLD, tells_zombies=False), "its partition may not know the new epoch yet"
    assert not order.is_overtaken("a marker", (1000, 1), (1000, 2), NEW, tells_zombies=False), "an administrator aborts what hangs"
    assert not order.is_overtaken("a marker", (1000, 2), PRODUCER, OLD, tells_zombies=False), "another coordinator has an order of its own"


def test_who_was_silent_longest_is_forgotten() -> None:
    order = ConnectionOrder()
    for number in range(connection_order.MAX_SENDERS + 1):
        overtaken(order, NEW, sender=str(number))
        if number == 1:
            overtaken(order, NEW, sender="0")
    assert overtaken(order, OLD, sender="0")
    assert not overtaken(order, OLD, sender="1")


def test_long_names_are_not_kept() -> None:
    order = ConnectionOrder()
    tracemalloc.start()
    try:
        for number in range(100):
            overtaken(order, NEW, sender=str(number) * 10_000)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 100_000
    assert overtaken(order, OLD, sender="7" * 10_000)


def test_switched_off_it_lets_everything_in() -> None:
    order = ConnectionOrder(is_enabled=False)
    assert not overtaken(order, NEW)
    assert not overtaken(order, OLD)


def of_earlier(order: TransactionOrder, connection: int, producer: tuple[int, int] = PRODUCER, *, ends: bool = False) -> bool:
    return order.is_overtaken("copier", producer, connection, ends=ends)


def test_several_connections_of_one_transaction_are_borne() -> None:
    order = TransactionOrder()
    for connection in (NEW, OLD, 5, NEW, OLD, 7, 5):
        assert not of_earlier(order, connection)
    assert not of_earlier(order, OLD, ends=True), "an old connection that took part may end the transaction"


def test_a_late_request_does_not_touch_the_next_transaction() -> None:
    order = TransactionOrder()
    assert not of_earlier(order, OLD)
    assert not of_earlier(order, NEW, ends=True), "the end was asked for on the old connection first, in vain"
    assert of_earlier(order, OLD, ends=True), "the old end comes before the next transaction"
    assert not of_earlier(order, NEW)
    assert of_earlier(order, OLD, ends=True), "the old end comes within the next transaction"
    assert of_earlier(order, OLD)
    assert not of_earlier(order, NEW + 1), "a connection accepted since can carry nothing from before"
    assert not of_earlier(order, NEW)
    assert not of_earlier(order, NEW + 1, ends=True)


def test_who_took_part_before_has_to_take_part_again() -> None:
    order = TransactionOrder()
    assert not of_earlier(order, NEW)
    assert not of_earlier(order, OLD)
    assert not of_earlier(order, NEW, ends=True)
    assert not of_earlier(order, NEW)
    assert of_earlier(order, OLD, ends=True)


def test_an_epoch_of_its_own_begins_anew() -> None:
    order = TransactionOrder()
    assert not of_earlier(order, NEW, ends=True)
    assert not of_earlier(order, OLD, (1000, 2)), "a zombie is told that it is fenced"
    assert of_earlier(order, OLD), "the zombie's request changes nothing"
    assert not of_earlier(order, OLD, (1000, 4))
    assert not of_earlier(order, 2, (1000, 4), ends=True)
    assert not of_earlier(order, OLD, (2000, 0))


def test_many_connections_of_one_transaction_cost_little() -> None:
    order = TransactionOrder()
    for connection in reversed(range(10_000)):
        of_earlier(order, connection)
    (kept,) = order._senders.values()
    assert len(kept.participants) == connection_order.MAX_PARTICIPANTS


def test_senders_are_forgotten_and_switched_off_all_are_let_in() -> None:
    order = TransactionOrder()
    for number in range(connection_order.MAX_SENDERS + 1):
        order.is_overtaken(str(number), PRODUCER, NEW)
    assert len(order._senders) == connection_order.MAX_SENDERS
    order = TransactionOrder(is_enabled=False)
    assert not of_earlier(order, NEW, ends=True)
    assert not of_earlier(order, OLD)
