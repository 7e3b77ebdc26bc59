"""◇ The promotion's limit as a Spark state processor."""

from typing import NamedTuple

from pyspark.sql import Row

from moldau.pipelines import customer
from moldau.pipelines.customer import Customer
from moldau.pipelines.keyed import InPartitionOrder, dead_letter, record
from moldau.pipelines.promo.model import PromoTopics, promo_verdict_json
from moldau.pipelines.rolling import Limit, Outcome


class LineRow(NamedTuple):
    """A record of `promo-lines`: its place, and the fields of the line, which are None if it is malformed."""

    malformed: str | None
    topic: str
    partition: int
    offset: int
    accepted_ms: int
    key: bytes | None
    value: bytes | None
    line_id: str
    customer_id: str
    bought_ms: int
    quantity: int


class PromoLimit(InPartitionOrder[Customer]):
    """One verdict a line; a line too late or too early to be judged fails, and is dead-lettered too."""

    def __init__(self, topics: PromoTopics, limit: Limit) -> None:
        self.topics = topics
        self.limit = limit

    def judge(self, memory: Customer, row: LineRow) -> tuple[Customer, list[Row]]:
        memory, outcome = customer.judge(self.limit, memory, row.line_id, row.bought_ms, row.accepted_ms, row.quantity)
        if outcome is Outcome.REPEATED:
            return memory, [self.letter(row, outcome)]
        reason = None if outcome is Outcome.PASSED else str(outcome)
        records = [record(self.topics.verdicts, row.line_id, promo_verdict_json(row.line_id, reason))]
        if outcome in (Outcome.LATE, Outcome.CLOCK_AHEAD):
            records.append(self.letter(row, outcome))
        return memory, records

    def letter(self, row: LineRow, reason: str) -> Row:
        return dead_letter(self.topics.dead_letters, row, reason)

    def pack(self, memory: Customer) -> str:
        return customer.pack(memory)

    def unpack(self, text: str | None) -> Customer:
        return customer.unpack(text)
