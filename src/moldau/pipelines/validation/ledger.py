"""● The outcome of each order, read from the topics by a stock client.

It reads committed records, which is the client's default.  The job writes each record once, so a repeat is a defect: the ledger takes an
order's first verdict, counts repeats, and names the repeats that say something else.
"""

import json
from collections import Counter, defaultdict
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

from moldau.pipelines.validation.model import State, Topics
from moldau.pipelines.validation.oracle import Expected

METADATA_TIMEOUT_S = 30.0
FINAL_STATES = (State.VALIDATED, State.FAILED, State.TIMED_OUT)


class Freed(NamedTuple):
    """The orders that released money or stock just before this one in its partition, by order id."""

    money: dict[str, list[str]]
    stock: dict[str, list[str]]


class Judged(NamedTuple):
    outcome: Expected
    created_ms: int
    judged_ms: int


class Ledger:
    def __init__(self, bootstrap_servers: str, topics: Topics) -> None:
        self.topics = topics
        self.created_ms: dict[str, int] = {}
        self.verdicts: dict[str, Judged] = {}
        self.repeats = 0
        self.contradictions: list[str] = []
        self.dead_letters: dict[str, str] = {}  # where it came from → reason; a repeat has the same place
        self.freed = Freed({}, {})
        self.released: Counter[str] = Counter()
        self._void: dict[int | None, list[str]] = defaultdict(list)  # by partition, until the next order there
        self._back: dict[int | None, list[str]] = defaultdict(list)
        # No group is joined: partitions are assigned by hand, the name is only what the client insists on.
        self.consumer = Consumer(
            {"bootstrap.servers": bootstrap_servers, "group.id": "ledger", "enable.auto.commit": False, "log_level": 2}
        )
        self.consumer.assign(
            [
                TopicPartition(name, partition, OFFSET_BEGINNING)
                for name in (topics.orders, topics.stock_requests, topics.dead_letters)
                for partition in self.consumer.list_topics(name, timeout=METADATA_TIMEOUT_S).topics[name].partitions
            ]
        )

    def read(self, timeout_s: float) -> int:
        """Take in the records that are there, waiting at most so long for the first one.  Returns how many came."""
        messages = [message for message in self.consumer.consume(2_000, timeout_s) if message.error() is None]
        for message in messages:
            if message.topic() == self.topics.orders:
                self._order(message)
            elif message.topic() == self.topics.stock_requests:
                self._request(message)
            else:
                headers = dict(message.headers() or [])
                self.dead_letters[_text(headers["source"])] = _text(headers["reason"])
        return len(messages)

    def close(self) -> None:
        self.consumer.close()

    def outcomes(self) -> dict[str, Expected]:
        return {order_id: judged.outcome for order_id, judged in self.verdicts.items()}

    def dead_letter_counts(self) -> Counter[str]:
        return Counter(self.dead_letters.values())

    def _order(self, message: Message) -> None:
        try:
            body = json.loads(message.value() or b"null")
            order_id, state = body["order_id"], State(body["state"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # a malformed record of the input
        _, timestamp_ms = message.timestamp()
        if state is State.CREATED:
            if order_id not in self.created_ms:
                self.created_ms[order_id] = timestamp_ms
                self.freed.money[order_id] = self._void.pop(message.partition(), [])
        elif state in FINAL_STATES:
            self._verdict(order_id, Expected(state, body["reasons"]), timestamp_ms)
            if state is not State.VALIDATED:
                self._void[message.partition()].append(order_id)

    def _request(self, message: Message) -> None:
        try:
            body = json.loads(message.value() or b"null")
            order_id, is_release = body["order_id"], body.get("released") is True
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return
        if is_release:
            self.released[order_id] += 1
            self._back[message.partition()].append(order_id)
        elif order_id not in self.freed.stock:
            self.freed.stock[order_id] = self._back.pop(message.partition(), [])

    def _verdict(self, order_id: str, outcome: Expected, judged_ms: int) -> None:
        first = self.verdicts.get(order_id)
        if first is None:
            self.verdicts[order_id] = Judged(outcome, self.created_ms.get(order_id, judged_ms), judged_ms)
            return
        self.repeats += 1
        if first.outcome != outcome:
            self.contradictions.append(f"order {order_id}: first {first.outcome}, then {outcome}")


def _text(header: str | bytes | None) -> str:
    return header.decode() if isinstance(header, bytes) else header or ""
