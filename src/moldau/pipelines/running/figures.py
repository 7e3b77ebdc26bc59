"""◇ The figures in a query's progress that people watch."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class Reading(NamedTuple):
    """One micro-batch."""

    at: str  # when it was triggered: no two micro-batches of a query begin at one time
    batch_id: int
    rows: int
    seconds: float
    lag: int  # records that are there and not read yet
    state_rows: int
    dropped: int  # by Spark, as late
    late: int
    dead_letters: int


def reading_of(progress: Any) -> Reading:
    """The figures of a `StreamingQueryProgress`."""
    written = progress.observedMetrics.get("written")
    return Reading(
        at=progress.timestamp,
        batch_id=progress.batchId,
        rows=max(progress.numInputRows, 0),
        seconds=progress.batchDuration / 1000,
        lag=sum(lag_of(_offsets(source.endOffset), _offsets(source.latestOffset)) for source in progress.sources),
        state_rows=sum(operator.numRowsTotal for operator in progress.stateOperators),
        dropped=sum(operator.numRowsDroppedByWatermark for operator in progress.stateOperators),
        late=written["late"] or 0 if written else 0,
        dead_letters=written["dead_letters"] or 0 if written else 0,
    )


def lag_of(end: Mapping[str, Mapping[str, Any]], latest: Mapping[str, Mapping[str, Any]]) -> int:
    """The number of records between both.  Offsets are as in `{"orders": {"0": 23, "id": "…"}}`."""
    return sum(
        max(0, offset - end.get(topic, {}).get(partition, 0))
        for topic, of in latest.items()
        for partition, offset in of.items()
        if isinstance(offset, int)
    )


def _offsets(found: Any) -> Mapping[str, Mapping[str, Any]]:
    """The parsed offsets.  Progress gives them as a text of JSON, and `null` before the first ones."""
    parsed = json.loads(found) if isinstance(found, str) else found
    return parsed if isinstance(parsed, dict) else {}


class Told(NamedTuple):
    """The content of a log line: sums since the line before."""

    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    late: int = 0
    dead_letters: int = 0
    last: Reading | None = None

    def plus(self, one: Reading) -> "Told":
        counts = (self.batches + 1, self.rows + one.rows, self.seconds + one.seconds)
        return Told(*counts, self.late + one.late, self.dead_letters + one.dead_letters, one)

    def line(self, query: str, restarts: int) -> str:
        last = self.last
        assert last is not None, "something was told"
        return (
            f"query {query}: micro-batch {last.batch_id}, {self.rows} rows in {self.batches} of {self.seconds / self.batches:.2f} s, "
            f"lag {last.lag}, state {last.state_rows} rows, {self.late} late, {self.dead_letters} dead letters, {restarts} restarts"
        )
