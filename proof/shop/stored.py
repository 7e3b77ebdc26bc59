"""● What the shop's topics hold, and the verdicts that follow from it."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from moldau.clients.records import ConsumerRecord
from moldau.pipelines.validation import oracle
from moldau.pipelines.validation.faults import Sent
from moldau.pipelines.validation.ledger import Ledger
from moldau.pipelines.validation.model import Line, Order, State, Topics
from moldau.pipelines.validation.oracle import Expected
from moldau.sync import Consumer
from moldau.types import TopicPartition

SHELF = ("UNKNOWN_PRODUCT", "OUT_OF_STOCK")
SPENT = ("LATE", "SPENT_LIMIT")


class Stored(NamedTuple):
    """The records of the topics, in the order of their partitions."""

    created: list[Order]
    requested: list[str]


def stored(bootstrap: str, topics: Topics) -> Stored:
    created: list[Order] = []
    requested: list[str] = []
    for record in records_of_topic(bootstrap, topics.orders):
        if record["state"] == State.CREATED:
            lines = tuple(Line(**line) for line in record["lines"])
            created.append(Order(**{**{name: record[name] for name in Order._fields}, "lines": lines}))
    for record in records_of_topic(bootstrap, topics.stock_requests):
        if not record.get("released"):
            requested.append(record["order_id"])
    return Stored(created, requested)


def newest(bootstrap: str, topic: str) -> dict[str, dict[str, Any]]:
    """The newest value of each key; a key whose newest record has no value is left out."""
    found: dict[str, dict[str, Any]] = {}
    for record in raw_records(bootstrap, topic):
        key = bytes(record.key or b"").decode()
        if record.value is None:
            found.pop(key, None)
        else:
            found[key] = json.loads(record.value)
    return found


def records_of_topic(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in raw_records(bootstrap, topic) if record.value is not None]


def raw_records(bootstrap: str, topic: str) -> Iterator[ConsumerRecord]:
    """The committed records, one partition after the other, each up to the end that it has now."""
    with Consumer(bootstrap, {"isolation.level": "read_committed", "enable.auto.commit": "false"}) as consumer:
        for number in consumer.partitions_for(topic):
            one = TopicPartition(topic, number)
            end = consumer.end_offsets([one])[one]
            consumer.assign({one: 0})
            while consumer.positions.get(one, 0) < end:
                for records in consumer.poll(1.0):
                    yield from records


def expected(found: Stored, ledger: Ledger, catalogue: dict[int, int]) -> dict[str, Expected]:
    """The verdict of each order.  Each check's answers follow its own topic, because two producers write side by side."""
    by_id = {order.order_id: order for order in found.created}
    money = oracle.expect([Sent(order) for order in found.created], catalogue, ledger.freed.money).orders
    stock = oracle.expect([Sent(by_id[order_id]) for order_id in found.requested], catalogue, {}, ledger.freed.stock).orders
    outcomes = {}
    for order_id in by_id:
        ours, theirs = money[order_id].reasons, stock[order_id].reasons
        reasons = [
            *(reason for reason in ours if reason in SPENT),
            *(reason for reason in theirs if reason in SHELF),
            *(reason for reason in ours if reason not in SPENT + SHELF),
        ]
        outcomes[order_id] = Expected(State.FAILED if reasons else State.VALIDATED, reasons)
    return outcomes
