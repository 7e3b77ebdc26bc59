"""Whatever a topic can hold between good orders: the job lives, good orders are judged, the rest is dead-lettered as it came."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from pyspark.sql import SparkSession

from moldau.pipelines.kafka import KafkaEnds
from moldau.pipelines.validation import job
from moldau.pipelines.validation.ledger import Ledger
from moldau.pipelines.validation.model import Line, Order, Topics, order_json, stock_request_json
from moldau.pipelines.validation.service import OrderService

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.xdist_group("spark")]

WITHIN_S = 240.0
HOUR_MS = 3_600_000
CATALOGUE = {1: 1_000}
GOOD = Order("good", "c", "s", 0, (Line(1, 1, 100),), 100)
HUGE = Order("huge", "huge", "s", 0, (Line(1, 1, 2**63 - 1), Line(1, 1, 2**63 - 1)), 100)
DEEP = b"[" * 60_000

ODD_ORDERS = [
    (b"k", None),
    (None, b""),
    (b"\xff\xfe", b"\x00\xff"),
    (b"k", order_json(GOOD).replace(b'"', b"'")),
    (b"k", order_json(GOOD) + b"}"),
    (b"k", order_json(GOOD).replace(b"good", b"\xff\xfe")),
    (b"k", order_json(GOOD).replace(b"good", b"\\ud800")),
    (b"k", DEEP),
    (b"k", b'{"state":"VALIDATED"}'),
    (b"k", b"0" * 900_000),
]
ODD_REQUESTS = [
    (b"s", None),
    (None, stock_request_json(GOOD)),
    (b"\xff\xfe", stock_request_json(GOOD)),
    (b"s", b'{"order_id":"o","ordered_ms":0,"wanted":{"1":null}}'),
    (b"s", b"[]"),
]
ODD_ANSWERS = [(None, None), (b"\xff", b"\xff"), (b"good-0", b'{"order_id":"good-0","check":"taste","verdict":"PASS"}')]


class Shop:
    def __init__(self, bootstrap: str, topics: Topics) -> None:
        OrderService(bootstrap, topics, partitions=2)
        self.topics = topics
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})

    def send(self, topic: str, key: bytes | None, value: bytes | None, timestamp_ms: int | None = None) -> None:
        self.producer.produce(topic, value, key, timestamp=timestamp_ms or now_ms())

    def order(self, order: Order, timestamp_ms: int | None = None, request: bytes | None = None) -> None:
        self.send(self.topics.orders, order.order_id.encode(), order_json(order), timestamp_ms)
        self.send(self.topics.stock_requests, order.store_id.encode(), request or stock_request_json(order), timestamp_ms)


@pytest.mark.skip(
    reason="the job lives, but good orders between odd records do not all get their verdict in time yet: inventory seems not to answer"
)
def test_odd_records_between_good_orders(spark: SparkSession, bootstrap: str, prefix: str, checkpoint: str) -> None:
    topics = Topics.prefixed(prefix)
    shop = Shop(bootstrap, topics)
    odd = [
        *[(topics.orders, *record) for record in ODD_ORDERS],
        *[(topics.stock_requests, *record) for record in ODD_REQUESTS],
        *[(topics.validations, *record) for record in ODD_ANSWERS],
    ]
    for number, record in enumerate(odd):
        shop.send(*record)
        shop.order(GOOD._replace(order_id=f"good-{number}", ordered_ms=number))
    for name, skew_ms in (("-6h", -6 * HOUR_MS), ("-10min", -HOUR_MS // 6), ("+59min", 59 * HOUR_MS // 60), ("now", 0)):
        shop.order(GOOD._replace(order_id=name, customer_id=name), now_ms() + skew_ms)
    shop.order(HUGE)
    shop.order(GOOD._replace(order_id="2100", customer_id="2100", ordered_ms=4_102_444_800_000))
    shop.order(GOOD._replace(order_id="abc", customer_id="abc"), request=b'{"order_id":"abc","ordered_ms":0,"wanted":{"abc":1}}')
    shop.order(GOOD._replace(order_id="less", customer_id="less"), request=b'{"order_id":"less","ordered_ms":0,"wanted":{"1":-1000}}')
    shop.send(topics.orders, b"lost", order_json(GOOD._replace(order_id="lost", customer_id="lost")))
    assert shop.producer.flush(30) == 0

    expected = {f"good-{number}": ("VALIDATED", []) for number in range(len(odd))}
    expected |= {name: ("VALIDATED", []) for name in ("-6h", "-10min", "+59min", "now")}
    expected |= {"huge": ("FAILED", ["TOTAL_MISMATCH"]), "2100": ("FAILED", ["CLOCK_AHEAD"]), "lost": ("TIMED_OUT", [])}
    expected |= {"abc": ("FAILED", ["UNKNOWN_PRODUCT"]), "less": ("FAILED", ["QUANTITY"])}
    queries = job.start(spark, job.JobConfig(KafkaEnds(bootstrap, checkpoint), CATALOGUE, topics, straggler_ms=20_000))
    try:
        with closing(Ledger(bootstrap, topics)) as ledger:
            deadline = time.monotonic() + WITHIN_S
            while len(ledger.verdicts) < len(expected) and time.monotonic() < deadline:
                ledger.read(0.2)
                assert [query.exception() for query in queries] == [None, None]
            found = {order_id: (str(outcome.state), outcome.reasons) for order_id, outcome in ledger.outcomes().items()}
    finally:
        for query in queries:
            query.stop()
    assert found == expected
    letters = {
        (message.key(), message.value())
        for message in everything(bootstrap, topics.dead_letters)
        if dict(message.headers())["reason"] != b"CLOCK_AHEAD"
    }
    assert letters == {record[1:] for record in odd}


def everything(bootstrap: str, topic: str) -> Iterator[Message]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "letters", "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    with closing(consumer):
        while messages := consumer.consume(1_000, 3.0):
            yield from messages


def now_ms() -> int:
    return time.time_ns() // 1_000_000
