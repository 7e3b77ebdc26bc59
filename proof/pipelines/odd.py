"""● Sends odd records of all kinds between good orders on every input.  Good orders must be judged soon, odd records dead-lettered as sent.

    python -m proof.pipelines.odd ours --records 10000          python -m proof.pipelines.odd apache promo --records 10000 --seed 2

Four producers send side by side.  Their clocks are wrong by −6 h, −10 min, +59 min and nothing.  A record is odd by construction: no parser
of ours decides which records have to become dead letters.
"""

import argparse
import json
import random
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from moldau.pipelines.ends import Ends
from moldau.pipelines.promo import job as promo_job
from moldau.pipelines.promo.model import PASS, PromoLine, PromoTopics, promo_line_json
from moldau.pipelines.session import SHORT_LIVED, open_session
from moldau.pipelines.topics import create_topics
from moldau.pipelines.validation import job
from moldau.pipelines.validation.model import Line, Order, State, Topics, order_json, stock_request_json
from moldau.testing.child import NodeProcess
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka
from proof.pipelines.ending import end_on_sigterm

GOOD_EVERY = 10
WARM_UP = 20
PARTITIONS = 2
WITHIN_S = 600.0
SKEWS_MS = (-6 * 3_600_000, -600_000, 59 * 60_000, 0)
CATALOGUE = {1: 10**9}
ORDER = Order("odd", "c", "s", 0, (Line(1, 1, 100),), 100)
LETTER = tuple[str, bytes | None, bytes | None]
"""Source, key, value."""


class Sent(NamedTuple):
    topic: str
    key: bytes | None
    value: bytes | None


class Application(ABC):
    """What the trial has to know of a pipeline."""

    topics: Topics | PromoTopics
    passes: str
    """The verdict of a good record."""

    @abstractmethod
    def configs(self) -> dict[str, dict[str, str]]: ...

    @abstractmethod
    def inputs(self) -> list[tuple[str, bytes]]:
        """Each input with a well-formed record."""

    @abstractmethod
    def good(self, name: str, at_ms: int, store: int) -> list[Sent]: ...

    @abstractmethod
    def verdict(self, body: Any) -> tuple[str, str] | None:
        """The name and the verdict that a record of `verdicts` gives, if it gives one."""

    @property
    @abstractmethod
    def verdicts(self) -> str: ...

    @abstractmethod
    def start(self, spark: SparkSession, ends: Ends) -> StreamingQuery: ...


class OrderValidation(Application):
    passes = State.VALIDATED

    def __init__(self, prefix: str) -> None:
        self.topics: Topics = Topics.prefixed(prefix)

    def configs(self) -> dict[str, dict[str, str]]:
        return self.topics.configs() | {self.topics.orders: {}}  # not compacted, so that the topic can hold records without a key

    def inputs(self) -> list[tuple[str, bytes]]:
        return [(self.topics.orders, order_json(ORDER)), (self.topics.stock_requests, stock_request_json(ORDER))]

    def good(self, name: str, at_ms: int, store: int) -> list[Sent]:
        order = ORDER._replace(order_id=name, customer_id=name, ordered_ms=at_ms, store_id=f"s{store}")
        return [
            Sent(self.topics.orders, order.customer_id.encode(), order_json(order)),
            Sent(self.topics.stock_requests, order.store_id.encode(), stock_request_json(order)),
        ]

    def verdict(self, body: Any) -> tuple[str, str] | None:
        return None if body["state"] == State.CREATED else (body["order_id"], body["state"])

    @property
    def verdicts(self) -> str:
        return self.topics.orders

    def start(self, spark: SparkSession, ends: Ends) -> StreamingQuery:
        return job.start(spark, job.JobConfig(ends, CATALOGUE, self.topics))


class Promo(Application):
    passes = PASS

    def __init__(self, prefix: str) -> None:
        self.topics: PromoTopics = PromoTopics.prefixed(prefix)

    def configs(self) -> dict[str, dict[str, str]]:
        return self.topics.configs()

    def inputs(self) -> list[tuple[str, bytes]]:
        return [(self.topics.lines, promo_line_json(PromoLine("odd", "c", 0, 1)))]

    def good(self, name: str, at_ms: int, store: int) -> list[Sent]:
        return [Sent(self.topics.lines, name.encode(), promo_line_json(PromoLine(name, name, at_ms, 1)))]

    def verdict(self, body: Any) -> tuple[str, str] | None:
        return body["line_id"], body["verdict"]

    @property
    def verdicts(self) -> str:
        return self.topics.verdicts

    def start(self, spark: SparkSession, ends: Ends) -> StreamingQuery:
        return promo_job.start(spark, promo_job.PromoConfig(ends, self.topics))


APPLICATIONS: dict[str, Callable[[str], Application]] = {"order-validation": OrderValidation, "promo": Promo}


def odd_records(draw: random.Random, inputs: list[tuple[str, bytes]]) -> Iterator[tuple[str, Sent]]:
    """Odd records without end, each with its kind.  No parser can take one for a well-formed record."""
    while True:
        topic, whole = draw.choice(inputs)
        kind = draw.choice(list(KINDS))
        value = KINDS[kind](draw, whole)
        key = draw.choice([b"k", b"s", None, draw.randbytes(draw.randrange(9)), b"\xff\xfe"])
        yield kind, Sent(topic, key, value)


def _field(draw: random.Random, whole: bytes) -> bytes:
    """A record with one needed field of a wrong kind."""
    body = json.loads(whole)
    name = draw.choice([name for name in body if name != "state"])
    wrong: list[Any] = [None, True, 1.5, {}, {"a": {"b": []}}, 2**63, -(2**64)] + ([] if isinstance(body[name], str) else ["7", ""])
    if name not in ("lines", "wanted"):
        wrong.append([7])
    if name == "wanted":
        wrong = [one for one in wrong if one not in ({}, {"a": {"b": []}})] + [{"1": None}, {"1": "2"}, {"1": 2**63}, {"1": [1]}, [1]]
    body[name] = draw.choice(wrong)
    return json.dumps(body).encode()


def _without(draw: random.Random, whole: bytes) -> bytes:
    body = json.loads(whole)
    del body[draw.choice(list(body))]
    return json.dumps(body).encode()


def _broken_text(draw: random.Random, whole: bytes) -> bytes:
    return whole.replace(
        b'"odd"', draw.choice([b'"\xff\xfe"', b'"\\ud800"', b'"\xc3"', b'"\xed\xa0\x80"', b'""', b'"' + b"x" * 1_001 + b'"'])
    )


KINDS: dict[str, Callable[[random.Random, bytes], bytes | None]] = {
    "no value": lambda draw, whole: None,
    "empty": lambda draw, whole: b"",
    "random bytes": lambda draw, whole: b"\x00" + draw.randbytes(draw.randrange(200)),
    "cut off": lambda draw, whole: whole[: draw.randrange(1, len(whole) - 1)],
    "bytes behind": lambda draw, whole: whole + draw.choice([b"}", b"\x00", b"{}", b",", b"null"]),
    "single quotes": lambda draw, whole: whole.replace(b'"', b"'"),
    "other JSON": lambda draw, whole: draw.choice([b"null", b"7", b"[]", b'"text"', b"true", b"1e999", b"NaN", b"[" + whole + b"]"]),
    "deep": lambda draw, whole: b"[" * draw.randrange(2_000, 60_000),
    "deep and closed": lambda draw, whole: b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    "no number": lambda draw, whole: whole.replace(b'_ms":0', draw.choice([b'_ms":NaN', b'_ms":00', b'_ms":0x1'])),
    "a field": _field,
    "a field less": _without,
    "broken text": _broken_text,
    "large": lambda draw, whole: b" " * draw.randrange(270_000, 300_000) + whole,
}


class Run:
    """One job and its topics."""

    def __init__(self, bootstrap: str, application: Application, draw: random.Random) -> None:
        self.application, self.draw = application, draw
        create_topics(bootstrap, application.configs(), partitions=PARTITIONS)
        self.producers = [Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "partitioner": "murmur2_random"}) for _ in SKEWS_MS]
        self.consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "odd", "enable.auto.commit": False})
        names = (application.verdicts, application.topics.dead_letters)
        self.consumer.assign([TopicPartition(name, number, OFFSET_BEGINNING) for name in names for number in range(PARTITIONS)])
        self.sent_ms: dict[str, int] = {}
        self.verdicts: dict[str, tuple[str, int]] = {}
        self.repeats = 0
        self.expected: set[LETTER] = set()
        self.letters: list[LETTER] = []
        self.kinds: Counter[str] = Counter()
        self.refused: list[str] = []

    def send_good(self, name: str) -> None:
        number = self.draw.randrange(len(SKEWS_MS))
        at_ms = _now_ms() + SKEWS_MS[number]
        self.sent_ms[name] = _now_ms()
        for one in self.application.good(name, at_ms, number):
            self.producers[number].produce(one.topic, one.value, one.key, timestamp=at_ms, on_delivery=self._delivered)

    def send_odd(self, kind: str, one: Sent) -> None:
        self.kinds[kind] += 1
        number = self.draw.randrange(len(SKEWS_MS))

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._delivered(error, message)
            self.expected.add((f"{message.topic()}-{message.partition()}@{message.offset()}", one.key, one.value))

        at_ms = _now_ms() + SKEWS_MS[number]
        self.producers[number].produce(one.topic, one.value, one.key, timestamp=at_ms, on_delivery=delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused.append(str(error))

    def read(self, timeout_s: float) -> None:
        for message in self.consumer.consume(1_000, timeout_s):
            if message.topic() == self.application.topics.dead_letters:
                source = dict(message.headers() or [])["source"]
                assert isinstance(source, bytes)
                self.letters.append((source.decode(), message.key(), message.value()))
                continue
            try:
                found = self.application.verdict(json.loads(message.value() or b"null"))
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            if found is not None and isinstance(found[0], str):
                self.repeats += found[0] in self.verdicts
                self.verdicts[found[0]] = (found[1], message.timestamp()[1])

    def flush(self) -> None:
        for producer in self.producers:
            assert producer.flush(60) == 0
        assert self.refused == []


def judge_between(
    spark: SparkSession, bootstrap: str, checkpoint: str, application: Application, *, records: int, rate: float, seed: int
) -> str:
    """Run the job and judge it.  Returns a summary in words.  Errors: AssertionError when the output is not the expected one."""
    draw = random.Random(seed)
    run = Run(bootstrap, application, draw)
    query = application.start(spark, Ends(bootstrap, checkpoint))
    with closing(run.consumer):
        try:
            for number in range(WARM_UP):
                run.send_good(f"warm-{number}")
            _until(run, query, lambda: len(run.verdicts) >= WARM_UP)
            started, generated = time.monotonic(), odd_records(draw, application.inputs())
            for number in range(records):
                if number % GOOD_EVERY == 0:
                    run.send_good(f"good-{number}")
                run.send_odd(*next(generated))
                for producer in run.producers:
                    producer.poll(0)
                while time.monotonic() < started + number / rate:
                    run.read(0.01)
            run.flush()
            _until(run, query, lambda: len(run.verdicts) >= len(run.sent_ms) and len(run.letters) >= len(run.expected))
        finally:
            query.stop()
        run.read(2.0)
    wrong = {name: found for name, found in run.verdicts.items() if found[0] != application.passes}
    assert not wrong and run.verdicts.keys() == run.sent_ms.keys(), f"{len(wrong)} good records came to nothing: {list(wrong.items())[:5]}"
    assert run.repeats == 0, f"{run.repeats} verdicts are repeated"
    assert len(run.letters) == len(set(run.letters)), "a dead letter is there twice"
    lost, strange = run.expected - set(run.letters), set(run.letters) - run.expected
    assert not lost and not strange, f"{len(lost)} are no dead letters, such as {list(lost)[:3]}; {len(strange)} should not be"
    waited = sorted((run.verdicts[one][1] - at_ms) / 1000 for one, at_ms in run.sent_ms.items() if one.startswith("good"))
    return (
        f"{records} odd records of {len(run.kinds)} kinds dead-lettered byte for byte, {len(waited)} good ones between them judged: "
        f"half within {waited[len(waited) // 2]:.1f} s, all within {waited[-1]:.1f} s"
    )


def _until(run: Run, query: Any, is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not is_done():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline, (
            f"{len(run.verdicts)} of {len(run.sent_ms)} verdicts, {len(run.letters)} of {len(run.expected)} letters"
        )
        run.read(0.2)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("broker", choices=["ours", "apache"])
    parser.add_argument("application", nargs="?", choices=list(APPLICATIONS), default="order-validation")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=200.0, help="odd records a second")
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="odd-"))
    broker: NodeProcess = BrokerProcess() if told.broker == "ours" else ApacheKafka()
    with broker:
        spark = open_session("odd", master="local[2]", log_file=folder / "spark.log", settings=SHORT_LIVED)
        application = APPLICATIONS[told.application]("")
        given = {"records": told.records, "rate": told.rate, "seed": told.seed}
        print(judge_between(spark, broker.bootstrap, str(folder / "c"), application, **given))
        spark.stop()


if __name__ == "__main__":
    end_on_sigterm()
    main()
