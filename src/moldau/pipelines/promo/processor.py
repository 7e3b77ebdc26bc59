"""◇ The promotion's limit as a Spark state processor."""

from pyspark.sql import Row

from moldau.pipelines import rolling
from moldau.pipelines.keyed import InPartitionOrder, dead_letter, record
from moldau.pipelines.promo.model import PromoTopics, promo_verdict_json
from moldau.pipelines.rolling import Limit, Outcome, Window


class PromoLimit(InPartitionOrder[Window]):
    """One verdict a line; a line that comes too late to be judged fails, and is dead-lettered too."""

    def __init__(self, topics: PromoTopics, limit: Limit) -> None:
        self.topics = topics
        self.limit = limit

    def judge(self, memory: Window, row: Row) -> tuple[Window, list[Row]]:
        memory, outcome = rolling.judge(self.limit, memory, row.bought_ms, row.quantity)
        reason = None if outcome is Outcome.PASSED else str(outcome)
        records = [record(self.topics.verdicts, row.line_id, promo_verdict_json(row.line_id, reason))]
        if outcome is Outcome.LATE:
            records.append(dead_letter(self.topics.dead_letters, row, outcome))
        return memory, records

    def pass_on(self, row: Row) -> list[Row]:
        return [dead_letter(self.topics.dead_letters, row, row.malformed)]

    def pack(self, memory: Window) -> str:
        return rolling.pack(memory)

    def unpack(self, text: str | None) -> Window:
        return rolling.unpack(text)
