"""● Both ends of the promotion outside Spark: a stock client sends the lines, another reads the verdicts."""

import json
import time
import zlib
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from moldau.pipelines.promo.model import PromoLine, PromoTopics, promo_line_json
from moldau.pipelines.topics import create_topics

FLUSH_TIMEOUT_S = 60.0


def send_lines(bootstrap_servers: str, topics: PromoTopics, lines: Iterable[PromoLine], *, partitions: int) -> int:
    """Send the lines.  Returns how many were acknowledged.  A customer's lines are in one partition, in the given order."""
    create_topics(bootstrap_servers, topics.configs(), partitions=partitions)
    producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "linger.ms": 5})
    count = 0
    for line in lines:
        partition = zlib.crc32(line.customer_id.encode()) % partitions
        producer.produce(topics.lines, promo_line_json(line), line.line_id, partition, timestamp=time.time_ns() // 1_000_000)
        count += 1
    left = producer.flush(FLUSH_TIMEOUT_S)
    if left:
        raise RuntimeError(f"{left} of {count} lines were not acknowledged")
    return count


def read_verdicts(bootstrap_servers: str, topics: PromoTopics, *, idle_s: float = 3.0) -> dict[str, str | None]:
    """Line id → reason, None for PASS; the first verdict of a line counts, a repeat that differs is an error."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "promo-ledger", "enable.auto.commit": False})
    partitions = consumer.list_topics(topics.verdicts, timeout=30).topics[topics.verdicts].partitions
    consumer.assign([TopicPartition(topics.verdicts, partition, OFFSET_BEGINNING) for partition in partitions])
    verdicts: dict[str, str | None] = {}
    while messages := consumer.consume(2_000, idle_s):
        for message in messages:
            body = json.loads(message.value() or b"{}")
            if verdicts.setdefault(body["line_id"], body["reason"]) != body["reason"]:
                raise RuntimeError(f"line {body['line_id']} was judged twice and differently")
    consumer.close()
    return verdicts
