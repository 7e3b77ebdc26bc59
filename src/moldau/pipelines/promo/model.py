"""◇ The words of the promotion: lines, topics, verdicts, and how they look as JSON."""

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from moldau.pipelines.rolling import Limit
from moldau.pipelines.validation.model import MOST_LETTER_BYTES, Order

BURGER_LIMIT = Limit(most=5)
PASS, FAIL = "PASS", "FAIL"


class PromoTopics(NamedTuple):
    lines: str = "promo-lines"
    verdicts: str = "promo-verdicts"
    dead_letters: str = "promo.dlq"

    @classmethod
    def prefixed(cls, prefix: str) -> "PromoTopics":
        return cls(*(prefix + name for name in cls()))

    def configs(self) -> dict[str, dict[str, str]]:
        """The topics' configs: lines of any age may be replayed, and a dead letter is larger than its line by its headers."""
        keep = {"retention.ms": "-1"}
        return {self.lines: keep, self.verdicts: keep, self.dead_letters: {**keep, "max.message.bytes": str(MOST_LETTER_BYTES)}}


class PromoLine(NamedTuple):
    line_id: str
    customer_id: str
    bought_ms: int
    quantity: int


def promo_lines(orders: Iterable[Order], product_ids: frozenset[int]) -> Iterator[PromoLine]:
    """The lines of these products, in the order of their orders."""
    for order in orders:
        for line in order.lines:
            if line.product_id in product_ids:
                yield PromoLine(f"{order.order_id}-{line.product_id}", order.customer_id, order.ordered_ms, line.quantity)


def promo_line_json(line: PromoLine) -> bytes:
    return json.dumps(line._asdict(), separators=(",", ":")).encode()


def promo_verdict_json(line_id: str, reason: str | None) -> bytes:
    verdict = {"line_id": line_id, "verdict": FAIL if reason else PASS, "reason": reason}
    return json.dumps(verdict, separators=(",", ":")).encode()
