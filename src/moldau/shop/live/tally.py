"""◇ The figures of the live page: orders by state, verdicts by reason, by the second, and how long a verdict took.

    take(change)          frame()  →  what the page is sent

It remembers counts, the last two minutes and the last few hundred verdicts, however many orders there are.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moldau.pipelines.validation.model import State
from moldau.shop.orders.rows import Change

SECONDS: Final = 120
LATENCIES: Final = 500
RECENT: Final = 14


class Tally:
    def __init__(self, states: Mapping[str, int], reasons: Mapping[str, int], newest: Iterable[Change] = ()) -> None:
        """`newest`: the last changes, which the counts hold already."""
        self.states: Counter[str] = Counter(states)
        self.reasons: Counter[str] = Counter(reasons)
        self._created: Counter[int] = Counter()
        self._judged: Counter[int] = Counter()
        self._latencies: deque[int] = deque(maxlen=LATENCIES)
        self._recent: dict[str, dict[str, Any]] = {}  # by order id, the newest change last
        self.number = 0
        """How many changes were taken."""
        for change in newest:
            self._show(change)

    def take(self, change: Change) -> None:
        self.number += 1
        if change.before is not None:
            self.states[change.before] -= 1
            self.reasons.subtract(change.reasons_before)
        row = change.row
        if row is None:
            self._recent.pop(change.order_id, None)
            return
        self.states[row.state] += 1
        self.reasons.update(row.reasons)
        self._show(change)

    def _show(self, change: Change) -> None:
        row = change.row
        if row is None:
            return
        if row.is_final:
            self._judged[row.changed_ms // 1000] += 1
            self._latencies.append(max(0, row.changed_ms - change.created_ms))
        if change.before is None:
            self._created[change.created_ms // 1000] += 1
        self._recent.pop(row.order_id, None)
        self._recent[row.order_id] = {
            "order_id": row.order_id,
            "customer_id": row.customer_id,
            "state": row.state,
            "cents": row.total_cents,
            "reasons": list(row.reasons),
            "at_ms": row.changed_ms,
            "took_ms": row.changed_ms - change.created_ms if row.is_final else None,
        }
        if len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]

    def frame(self, now_ms: int) -> dict[str, Any]:
        now = now_ms // 1000
        for seconds in (self._created, self._judged):
            for second in [one for one in seconds if one < now - SECONDS]:
                del seconds[second]
        span = range(now - SECONDS, now)
        latencies = sorted(self._latencies)
        return {
            "now_ms": now_ms,
            "states": {state: self.states[state] for state in State},
            "reasons": dict(+self.reasons),
            "created": [self._created[second] for second in span],
            "judged": [self._judged[second] for second in span],
            "latency_ms": {"p50": _share(latencies, 0.5), "p99": _share(latencies, 0.99)},
            "recent": list(self._recent.values())[::-1],
        }


def _share(ordered: list[int], share: float) -> int | None:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None
