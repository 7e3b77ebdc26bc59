"""● Stock clients that work on a cluster of processes under faults, and note the promises that they got.

There are three kinds: an idempotent writer whose values count up in each partition, a copier that reads, writes and commits offsets in
transactions, and readers of a group.  The clients stop when they are told to.  `History` holds what they saw, for the check at the end.
"""

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, Queue
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from proof.cluster.librdkafka_log import Waits

ORDERS: Final = "orders"
COPIES: Final = "copies"
PARTITIONS: Final = 3
WITHIN_S: Final = 120.0
BETWEEN_SENDS_S: Final = 0.005
COPIED_AT_A_TIME: Final = 1000
ABORTED_EVERY: Final = 7
"""The copier aborts one of every so many transactions of its own will."""
LONGEST_UNSENT: Final = 2000
PATIENCE_S: Final = 15.0
"""How long a transactional producer waits for one call before another producer takes its place.

librdkafka 2.10 to 2.16 at least waits for minutes in `send_offsets_to_transaction` if the group's coordinator was missing in the metadata
for a moment (its issue 5511).
"""

EXPLAINING: Final = "cgrp,protocol,broker"
"""The contexts of librdkafka's debug log that tell what the close of a consumer waits for."""
LOG_DEBUG: Final = 7
KEEPS_BROKERS: Final = {"metadata.recovery.strategy": "none"}
"""Do not begin anew from the bootstrap servers when no broker is there: docs/reliability/cluster.md says what librdkafka 2.16 then does."""
FIRST_PATIENCE_S: Final = 600.0
"""How long a new producer waits for its first answer.  The nodes may be up for a few seconds of each minute only, until all faults end."""


@dataclass
class History:
    """The answers that clients got, and the violations that no later event can excuse."""

    acknowledged: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    acknowledged_at_s: list[float] = field(default_factory=list)
    read: Counter[tuple[int, int]] = field(default_factory=Counter)
    jumps: list[tuple[str, int, int, int]] = field(default_factory=list)
    """Reader, partition, a value, and the value that the reader got next although it does not follow."""
    resent: int = 0
    copied: dict[int, int] = field(default_factory=dict)
    """The last value of each partition that a committed transaction holds."""
    committed_transactions: int = 0
    aborted_transactions: int = 0
    calls_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The seconds that each call of a transactional producer took, until it was done."""
    replaced_producers: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """The reasons why producers were replaced."""
    errors: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    explanations: list[str] = field(default_factory=list)
    """The evidence around each violation."""
    journal: list[str] = field(default_factory=list)
    """The copier's transactions, with the ranges of offsets that they hold."""


class Client(threading.Thread):
    """A client that works until it is told to stop.  An unforeseen exception is a violation."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self.bootstrap: Final = bootstrap
        self.history: Final = history
        self.told_to_stop: Final = threading.Event()

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.history.violations.append(f"{self.name}: {error!r}")

    def work(self) -> None:
        raise NotImplementedError

    def stop_writing(self) -> None:
        """Send nothing new, and wait until all that was sent is acknowledged."""

    def stop(self) -> None:
        self.told_to_stop.set()

    def why_it_hangs(self) -> str:
        """What is known of the call that does not return."""
        return ""

    def configured(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "error_cb": self._note, "log_level": 0, **more}

    def _note(self, error: KafkaError) -> None:
        self.history.errors[error.name()] += 1
        if error.fatal():
            self.history.violations.append(f"{self.name}: {error.str()} is fatal")


class Writer(Client):
    """A client that sends 0, 1, 2, … into every partition of `orders`."""

    def work(self) -> None:
        options = {"acks": "all", "enable.idempotence": True, "message.timeout.ms": int(WITHIN_S * 1000), "linger.ms": 5}
        producer = Producer(self.configured(**options))
        sent = 0
        while not self.told_to_stop.wait(BETWEEN_SENDS_S):
            if len(producer) < LONGEST_UNSENT:
                for partition in range(PARTITIONS):
                    producer.produce(ORDERS, b"%d" % sent, partition=partition, on_delivery=self._acknowledged)
                sent += 1
            producer.poll(0)
        if left := producer.flush(WITHIN_S):
            self.history.violations.append(f"{self.name}: {left} records were neither acknowledged nor refused")

    def stop_writing(self) -> None:
        self.stop()
        self.join(WITHIN_S)

    def _acknowledged(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.history.violations.append(f"{self.name}: {message.value()!r} was refused: {error.str()}")
            return
        partition, value = message.partition(), message.value()
        assert partition is not None and value is not None
        # librdkafka reports no offset for a record that a later acknowledgement of the same producer covers.
        self.history.acknowledged[partition].append(int(value))
        self.history.acknowledged_at_s.append(time.monotonic())


REUSED: Final = "sequence desynchronization"
"""Words in the fatal error of a transactional producer of librdkafka (2.16).

If a broker had stored a batch and was killed before it answered, the producer gives the batch up with its transaction.  It then numbers the
records of the next transaction from the same number on.  No broker may take these records.
"""


class GivenUp(Exception):
    """A transactional producer has to be replaced: a call took too long, or the producer has lost count of its records."""


def has_lost_count(error: KafkaError) -> bool:
    return error.fatal() and error.code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER and REUSED in error.str()


def answered_within(seconds: float, call: Callable[..., object], *arguments: object) -> None:
    """Make a call in a thread of its own, and wait for its end.  Errors: GivenUp, and what the call raises.

    librdkafka (2.16) may keep a call for longer than the call's own time-out, until the transaction has timed out (its issue 5511).
    """
    ended: Queue[BaseException | None] = Queue()

    def run() -> None:
        try:
            call(*arguments)
        except BaseException as error:  # raised in the thread that waits
            ended.put(error)
        else:
            ended.put(None)

    threading.Thread(target=run, daemon=True).start()
    try:
        error = ended.get(timeout=seconds)
    except Empty:
        raise GivenUp(f"{call.__name__} has not returned after {seconds:.0f} s") from None
    if error is not None:
        raise error


class Copier(Client):
    """A client that copies `orders` into the same partitions of `copies`, some records at a time.

    Each transaction holds the copied records and the copier's offsets.
    """

    def __init__(self, name: str, bootstrap: str, history: History, *, debug: str = "") -> None:
        """`debug` names contexts of librdkafka's debug log, which the producers then write to stderr."""
        super().__init__(name, bootstrap, history)
        self._logging: Final[dict[str, Any]] = {"debug": debug, "log_level": 7} if debug else {}

    def new_producer(self) -> Producer:
        """A new producer.  It fences the one before and aborts its transaction."""
        producer = Producer(self.configured(**{"transactional.id": "copier", "transaction.timeout.ms": 60_000, **self._logging}))
        self._until_done(producer.init_transactions, PATIENCE_S, patience_s=FIRST_PATIENCE_S)
        return producer

    def work(self) -> None:
        reading = {"group.id": "copier", "isolation.level": "read_committed", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer(self.configured(**reading))
        producer = self.new_producer()
        given_up: list[Producer] = []
        consumer.subscribe([ORDERS])
        try:
            while not self.told_to_stop.is_set():
                if messages := [one for one in consumer.consume(COPIED_AT_A_TIME, 0.2) if one.error() is None]:
                    try:
                        self._copy(consumer, producer, messages)
                    except GivenUp as reason:
                        self._note_in_journal(f"given up: {reason}", messages)
                        self.history.reasons[str(reason)] += 1
                        given_up.append(producer)  # kept, because ending this producer would wait, too
                        self.history.replaced_producers += 1
                        producer = self.new_producer()
                        self._go_back(consumer, messages)
        finally:
            consumer.close()

    def _copy(self, consumer: Consumer, producer: Producer, messages: list[Message]) -> None:
        try:
            producer.begin_transaction()
            for partition, _, value in map(placed, messages):
                producer.produce(COPIES, b"%d" % value, partition=partition)
            after = {partition: offset for partition, offset, _ in map(placed, messages)}
            offsets = [TopicPartition(ORDERS, partition, offset + 1) for partition, offset in after.items()]
            self._until_done(producer.send_offsets_to_transaction, offsets, consumer.consumer_group_metadata(), PATIENCE_S)
            ended = self.history.committed_transactions + self.history.aborted_transactions
            if ended % ABORTED_EVERY == ABORTED_EVERY - 1:
                self._abort(consumer, producer, messages)
                return
            try:
                self._until_done(producer.commit_transaction, PATIENCE_S, patience_s=WITHIN_S)
            except GivenUp as error:  # nobody knows whether the transaction is committed, so nothing may be copied again
                raise AssertionError(str(error)) from error
            self.history.committed_transactions += 1
            self._note_in_journal("committed", messages)
            self.history.copied |= {partition: value for partition, _, value in map(placed, messages)}
        except KafkaException as error:
            self.history.errors[error.args[0].name()] += 1
            if has_lost_count(error.args[0]):
                raise GivenUp(str(error)) from error
            if not error.args[0].txn_requires_abort():
                raise
            self._abort(consumer, producer, messages)

    def _abort(self, consumer: Consumer, producer: Producer, messages: list[Message]) -> None:
        self._until_done(producer.abort_transaction, PATIENCE_S)
        self.history.aborted_transactions += 1
        self._note_in_journal("aborted", messages)
        self._go_back(consumer, messages)

    def _note_in_journal(self, what: str, messages: list[Message]) -> None:
        held: dict[int, list[int]] = defaultdict(list)
        for partition, offset, _ in map(placed, messages):
            held[partition].append(offset)
        ranges = ", ".join(f"{partition}: {offsets[0]}–{offsets[-1]}" for partition, offsets in sorted(held.items()))
        self.history.journal.append(f"{time.monotonic():.1f} {what}; {ranges}")

    def _go_back(self, consumer: Consumer, messages: list[Message]) -> None:
        first: dict[int, int] = {}
        for partition, offset, _ in map(placed, messages):
            first.setdefault(partition, offset)
        mine = {one.partition for one in consumer.assignment()}
        self._note_in_journal(f"back to {first} with {sorted(mine)}", messages)
        for partition, offset in first.items():
            if partition in mine:
                consumer.seek(TopicPartition(ORDERS, partition, offset))

    def _until_done(self, call: Callable[..., object], *arguments: object, patience_s: float = PATIENCE_S) -> None:
        """Call until it is done, again after each error that may be tried again.  Errors: GivenUp, KafkaException."""
        began_s = time.monotonic()
        until = began_s + patience_s
        while True:
            try:
                answered_within(patience_s + PATIENCE_S, call, *arguments)
                self.history.calls_s[call.__name__].append(time.monotonic() - began_s)
                return
            except KafkaException as error:
                self.history.errors[error.args[0].name()] += 1
                if not error.args[0].retriable():
                    raise
                if time.monotonic() > until:
                    raise GivenUp(f"{call.__name__} has no answer after {patience_s:.0f} s") from error


class Reader(Client):
    """One member of the group `readers`.  Within one life, a partition's values count up; after a rebalance they may begin again."""

    def __init__(self, name: str, bootstrap: str, history: History) -> None:
        super().__init__(name, bootstrap, history)
        self._waits: Final = Waits()
        self._closes_since_s: float | None = None

    def why_it_hangs(self) -> str:
        where = "reads" if self._closes_since_s is None else f"has been closing for {time.monotonic() - self._closes_since_s:.0f} s"
        return f"{where}; {self._waits}"

    def work(self) -> None:
        options = {"group.id": "readers", "auto.offset.reset": "earliest", "auto.commit.interval.ms": 500, "session.timeout.ms": 20_000}
        logger = logging.Logger(self.name)
        logger.addHandler(self._waits)
        consumer = Consumer(self.configured(**options, **KEEPS_BROKERS, debug=EXPLAINING, log_level=LOG_DEBUG), logger=logger)
        last: dict[int, int] = {}

        def assigned(_: Consumer, given: list[TopicPartition]) -> None:
            for one in given:
                last.pop(one.partition or 0, None)

        consumer.subscribe([ORDERS], on_assign=assigned)
        while not self.told_to_stop.is_set():
            message = consumer.poll(0.2)
            if message is None:
                continue
            if (error := message.error()) is not None:
                self.history.errors[error.name()] += 1
                continue
            partition, _, value = placed(message)
            if partition in last and value != last[partition] + 1:
                self.history.jumps.append((self.name, partition, last[partition], value))
            last[partition] = value
            self.history.read[partition, value] += 1
        self._closes_since_s = time.monotonic()
        consumer.close()


def placed(message: Message) -> tuple[int, int, int]:
    """Partition, offset and value of a record."""
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None and offset is not None and value is not None
    return partition, offset, int(value)


def read_everything(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """The committed values of every partition, read by a consumer with a fixed assignment."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "audit", "isolation.level": "read_committed", "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    at_the_end: set[int] = set()
    until = time.monotonic() + WITHIN_S
    while len(at_the_end) < PARTITIONS and time.monotonic() < until:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if (error := message.error()) is None:
            partition, _, value = placed(message)
            found[partition].append(value)
        elif error.code() == KafkaError._PARTITION_EOF:
            at_the_end.add(message.partition() or 0)
    consumer.close()
    if len(at_the_end) < PARTITIONS:
        raise AssertionError(f"{topic} could be read to its end in partitions {sorted(at_the_end)} only")
    return found
