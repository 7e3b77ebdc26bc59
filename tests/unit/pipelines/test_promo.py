"""The promotion: its processor against its oracle, wherever the batches are cut."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from moldau.pipelines.promo.model import BURGER_LIMIT, PromoLine, PromoTopics, promo_lines
from moldau.pipelines.promo.oracle import expect
from moldau.pipelines.promo.processor import PromoLimit
from moldau.pipelines.rolling import HOUR_MS
from moldau.pipelines.validation.model import Line, Order

TOPICS = PromoTopics()
HOURS = st.integers(0, 60).map(lambda hours: hours * HOUR_MS)
SHOPPING = st.lists(st.tuples(HOURS, st.integers(1, 6)), max_size=20)


def row_of(offset: int, line: PromoLine, **fields: Any) -> Row:
    place = {
        "topic": "promo-lines",
        "partition": 0,
        "offset": offset,
        "accepted_ms": 100 * HOUR_MS,
        "key": line.line_id.encode(),
        "value": b"{}",
    }
    return Row(**({"malformed": None} | line._asdict() | place | fields))


@settings(deadline=None)
@given(SHOPPING, st.integers(1, 5))
def test_verdicts_are_the_oracles_however_the_batches_are_cut(shopping: list[tuple[int, int]], size: int) -> None:
    lines = [PromoLine(str(n), "c", bought_ms, quantity) for n, (bought_ms, quantity) in enumerate(shopping)]
    harness = TwsTester(PromoLimit(TOPICS, BURGER_LIMIT), timeMode="ProcessingTime")
    found = {}
    for start in range(0, len(lines), size):
        batch = [row_of(start + n, line) for n, line in enumerate(lines[start : start + size])]
        for record in harness.test("c", batch[::-1]):
            if record.topic == TOPICS.verdicts:
                body = json.loads(record.value)
                found[body["line_id"]] = body["reason"]
    assert found == expect(lines)


def test_by_hand() -> None:
    lines = [PromoLine("a", "c", 0, 5), PromoLine("b", "c", 1, 1), PromoLine("c", "d", 1, 1), PromoLine("d", "c", 24 * HOUR_MS, 5)]
    assert expect(lines) == {"a": None, "b": "OVER_LIMIT", "c": None, "d": None}


def test_what_is_no_line_is_dead_lettered() -> None:
    harness = TwsTester(PromoLimit(TOPICS, BURGER_LIMIT), timeMode="ProcessingTime")
    row = row_of(3, PromoLine("", "", 0, 0), malformed="NOT_JSON", value=b"?")
    (letter,) = harness.test("", [row])
    assert (letter.topic, letter.value, letter.reason, letter.source) == (TOPICS.dead_letters, b"?", "NOT_JSON", "promo-lines-0@3")


def test_only_the_lines_of_the_promotion() -> None:
    order = Order("o", "c", "s", 7, (Line(1, 2, 100), Line(2, 1, 50)), 150)
    assert list(promo_lines([order], frozenset([1]))) == [PromoLine("o-1", "c", 7, 2)]
