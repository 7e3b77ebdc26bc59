"""Progress as metrics and as a line."""

import json
from typing import Any

from prometheus_client import generate_latest

from moldau.pipelines.running.figures import lag_of, reading_of
from moldau.pipelines.running.metrics import SAID_EVERY_S, Metrics


class Thing:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def progress(at: str, rows: int, *, letters: int = 0, late: int = 0, end: int = 5) -> Any:
    return Thing(
        timestamp=at,
        batchId=int(at),
        numInputRows=rows,
        batchDuration=1_500,
        sources=[Thing(endOffset=json.dumps({"t": {"0": end, "id": "x"}}), latestOffset=json.dumps({"t": {"0": 12, "1": 2, "id": "x"}}))],
        stateOperators=[Thing(numRowsTotal=7, numRowsDroppedByWatermark=1)],
        observedMetrics={"written": {"dead_letters": letters, "late": late}},
    )


def test_lag_is_what_is_there_and_not_read() -> None:
    assert lag_of({"t": {"0": 5}}, {"t": {"0": 12, "1": 2, "id": "x"}}) == 9
    assert lag_of({}, {}) == 0


def test_a_source_that_does_not_say_its_latest_offset_has_no_lag() -> None:
    told = progress("1", 3)
    told.sources = [Thing(endOffset='{"t":{"0":5}}', latestOffset=None), Thing(endOffset=None, latestOffset="null")]
    assert reading_of(told).lag == 0


def test_each_micro_batch_is_counted_once() -> None:
    said: list[str] = []
    metrics = Metrics(said.append)
    query = Thing(recentProgress=[progress("1", 10, letters=2, late=1)])
    metrics.look("checks", query)
    query.recentProgress += [progress("2", 5)]
    metrics.look("checks", query)
    metrics.look("checks", query)
    metrics.restarted("checks")
    shown = generate_latest(metrics.registry).decode()
    for line in (
        'moldau_pipeline_rows_total{query="checks"} 15.0',
        'moldau_pipeline_dead_letters_total{query="checks"} 2.0',
        'moldau_pipeline_late_total{query="checks"} 3.0',
        'moldau_pipeline_restarts_total{query="checks"} 1.0',
        'moldau_pipeline_lag_records{query="checks"} 9.0',
        'moldau_pipeline_state_rows{query="checks"} 7.0',
        'moldau_pipeline_batch_seconds_sum{query="checks"} 3.0',
    ):
        assert line in shown.splitlines()
    metrics.say_now_and_then(SAID_EVERY_S)
    metrics.say_now_and_then(2 * SAID_EVERY_S)
    assert said == [
        "query checks: micro-batch 2, 15 rows in 2 of 1.50 s, lag 9, state 7 rows, 1 late, 2 dead letters, 1 restarts",
    ]
