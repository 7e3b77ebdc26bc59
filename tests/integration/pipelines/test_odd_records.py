"""Odd records of every kind between good orders: the job lives, good orders are judged, the rest is dead-lettered as it came."""

import random
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from pyspark.sql import SparkSession

from moldau.pipelines.ends import Ends
from moldau.pipelines.promo import job as promo
from moldau.pipelines.promo.model import PromoTopics
from moldau.pipelines.topics import create_topics
from moldau.pipelines.validation import job
from moldau.pipelines.validation.ledger import Ledger
from moldau.pipelines.validation.model import Line, Order, Topics, order_json, stock_request_json
from moldau.pipelines.validation.service import OrderService
from proof.pipelines.odd import APPLICATIONS, KINDS, judge_between

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

WITHIN_S = 240.0
HOUR_MS = 3_600_000
CATALOGUE = {1: 1_000}
GOOD = Order("good", "c", "s", 0, (Line(1, 1, 100),), 100)
HUGE = Order("huge", "huge", "s", 0, (Line(1, 1, 2**63 - 1), Line(1, 1, 2**63 - 1)), 100)
DEEP = b"[" * 60_000
LARGEST = 1_048_500
YEAR_2100_MS = 4_102_444_800_000

ODD_ORDERS = [
    ("NO_VALUE", b"k", None),
    ("NOT_JSON", None, b""),
    ("NOT_JSON", b"\xff\xfe", b"\x00\xff"),
    ("NOT_JSON", b"k", order_json(GOOD).replace(b'"', b"'")),
    ("NOT_JSON", b"k", order_json(GOOD) + b"}"),
    ("NOT_JSON", b"k", order_json(GOOD).replace(b"good", b"\xff\xfe")),
    ("NOT_JSON", b"k", order_json(GOOD).replace(b"good", b"\\ud800")),
    ("NOT_JSON", b"k", DEEP),
    ("MISSING_FIELD", b"k", b'{"state":"VALIDATED"}'),
    ("OUT_OF_RANGE", b"k", order_json(GOOD._replace(total_cents=2**63))),
    ("TOO_LARGE", b"k", b"0" * 900_000),
]
ODD_REQUESTS = [
    ("NO_VALUE", b"s", None),
    ("MISSING_FIELD", None, stock_request_json(GOOD)),
    ("WRONG_KEY", b"\xff\xfe", stock_request_json(GOOD)),
    ("MISSING_FIELD", b"s", b'{"order_id":"o","ordered_ms":0,"wanted":{"1":null}}'),
    ("WRONG_TYPE", b"s", b"[]"),
]


class Letter(NamedTuple):
    reason: str
    source: str  # topic-partition@offset
    key: bytes | None
    value: bytes | None


class Shop:
    """Notes the place of every record that is to become a dead letter.  A refused record has no place and would be missed for no reason."""

    def __init__(self, bootstrap: str, topics: Topics) -> None:
        create_topics(bootstrap, {topics.orders: {}}, partitions=2)  # not compacted, so that it can hold records without a key
        OrderService(bootstrap, topics, partitions=2)
        self.topics = topics
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self.letters: set[Letter] = set()
        self.refused: list[str] = []

    def send(self, topic: str, key: bytes | None, value: bytes | None, *, timestamp_ms: int | None = None, reason: str = "") -> None:
        """A `reason` says that the record is to become a dead letter."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.refused.append(f"{topic} {key!r}: {error}")
            elif reason:
                self.letters.add(Letter(reason, f"{message.topic()}-{message.partition()}@{message.offset()}", key, value))

        self.producer.produce(topic, value, key, timestamp=timestamp_ms or now_ms(), on_delivery=delivered)

    def order(self, order: Order, *, timestamp_ms: int | None = None, request: bytes | None = None, reason: str = "") -> None:
        self.send(self.topics.orders, order.customer_id.encode(), order_json(order), timestamp_ms=timestamp_ms, reason=reason)
        body = stock_request_json(order) if request is None else request
        self.send(self.topics.stock_requests, order.store_id.encode(), body, timestamp_ms=timestamp_ms)

    def flush(self) -> None:
        assert self.producer.flush(30) == 0
        assert self.refused == []


def test_odd_records_between_good_orders(spark: SparkSession, bootstrap: str, prefix: str, checkpoint: str) -> None:
    topics = Topics.prefixed(prefix)
    shop = Shop(bootstrap, topics)
    odd = [
        *[(topics.orders, record) for record in ODD_ORDERS],
        *[(topics.stock_requests, record) for record in ODD_REQUESTS],
    ]
    expected: dict[str, tuple[str, list[str]]] = {}

    def order(order_id: str, state: str, *reasons: str, ordered_ms: int = 0, customer_id: str = "", **sent: Any) -> None:
        expected[order_id] = (state, list(reasons))
        shop.order(GOOD._replace(order_id=order_id, customer_id=customer_id or order_id, ordered_ms=ordered_ms), **sent)

    for number, (topic, (reason, key, value)) in enumerate(odd):
        shop.send(topic, key, value, reason=reason)
        order(f"good-{number}", "VALIDATED", ordered_ms=number, customer_id="c")
    # Each order has its verdict, whatever the producer's and the customer's clocks say, and so has the order after it.
    for name, skew_ms in (("-6h", -6 * HOUR_MS), ("-10min", -HOUR_MS // 6), ("+59min", 59 * HOUR_MS // 60), ("now", 0)):
        order(name, "VALIDATED", timestamp_ms=now_ms() + skew_ms)
    order("ahead", "VALIDATED", ordered_ms=now_ms() + 59 * HOUR_MS // 60, customer_id="quick")
    order("behind", "VALIDATED", ordered_ms=now_ms(), customer_id="quick")
    order("2100", "FAILED", "CLOCK_AHEAD", ordered_ms=YEAR_2100_MS, customer_id="z", reason="CLOCK_AHEAD")
    order("after-2100", "VALIDATED", ordered_ms=now_ms(), customer_id="z")
    shop.order(HUGE)
    expected["huge"] = ("FAILED", ["TOTAL_MISMATCH"])
    order("abc", "FAILED", "UNKNOWN_PRODUCT", request=b'{"order_id":"abc","ordered_ms":0,"wanted":{"abc":1}}')
    order("less", "FAILED", "QUANTITY", request=b'{"order_id":"less","ordered_ms":0,"wanted":{"1":-1000}}')
    shop.send(topics.orders, b"lost", order_json(GOOD._replace(order_id="lost", customer_id="lost")))
    expected["lost"] = ("TIMED_OUT", [])
    shop.flush()

    query = job.start(spark, job.JobConfig(Ends(bootstrap, checkpoint), CATALOGUE, topics, straggler_ms=20_000))
    try:
        with closing(Ledger(bootstrap, topics)) as ledger:
            deadline = time.monotonic() + WITHIN_S
            while len(ledger.verdicts) < len(expected) and time.monotonic() < deadline:
                ledger.read(0.2)
                assert query.exception() is None
            found = {order_id: (str(outcome.state), outcome.reasons) for order_id, outcome in ledger.outcomes().items()}
    finally:
        query.stop()
    assert found == expected
    assert set(map(letter, everything(bootstrap, topics.dead_letters))) == shop.letters


@pytest.mark.parametrize("name", list(APPLICATIONS))
def test_generated_records_of_all_kinds(name: str, spark: SparkSession, bootstrap: str, prefix: str, checkpoint: str) -> None:
    said = judge_between(spark, bootstrap, checkpoint, APPLICATIONS[name](prefix), records=300, rate=100.0, seed=3)
    assert f"of {len(KINDS)} kinds" in said


def test_a_line_as_large_as_its_topic_takes_is_dead_lettered(spark: SparkSession, bootstrap: str, prefix: str, checkpoint: str) -> None:
    """The dead letter is larger than the line, by its headers."""
    topics = PromoTopics.prefixed(prefix)
    create_topics(bootstrap, topics.configs(), partitions=1)
    refused: list[KafkaError | None] = []
    line = random.Random(1).randbytes(LARGEST)
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 2 * LARGEST})
    producer.produce(topics.lines, line, on_delivery=lambda error, message: refused.append(error))
    producer.produce(topics.lines, line + bytes(200), on_delivery=lambda error, message: refused.append(error))
    assert producer.flush(30) == 0
    assert [error is None for error in refused] == [True, False]
    promo.start_available(spark, promo.PromoConfig(Ends(bootstrap, checkpoint), topics)).awaitTermination()
    (found,) = [letter(message) for message in everything(bootstrap, topics.dead_letters)]
    assert found == Letter("TOO_LARGE", f"{topics.lines}-0@0", None, line)


def letter(message: Message) -> Letter:
    headers = {name: value.decode() for name, value in message.headers() or []}
    return Letter(headers["reason"], headers["source"], message.key(), message.value())


def everything(bootstrap: str, topic: str) -> Iterator[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "letters", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    with closing(consumer):
        while messages := consumer.consume(1_000, 3.0):
            yield from messages


def now_ms() -> int:
    return time.time_ns() // 1_000_000
