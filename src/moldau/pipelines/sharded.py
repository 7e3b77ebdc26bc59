"""◇ A state processor of single keys, run by Spark for a whole shard of keys at once.

    events.groupBy("shard").transformWithState(Sharded(StockCheck(catalogue), RequestRow, "store_id"), PACKS, ...)

The processor inside is written as if Spark called it for each key, with one ValueState and timers.  The step reads the state of all keys of
a micro-batch at once, calls the processor for one key after the other, and writes at once what changed.  The state is a mapping of keys, so
Spark still reads and writes only keys that a micro-batch touches.

Spark has timers for a shard, and a mapping from a timer's time to the keys that it is for.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from operator import itemgetter
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

from moldau.pipelines.records import NO_KEY
from moldau.pipelines.shards import packs, unpacked
from moldau.pipelines.state_calls import Value, get_many, put_many, remove_many

DUE: Final = "due"


class Sharded(StatefulProcessor):
    """`row` makes the processor's rows from events; `key` is the name of the field that is their key.  A row that is `malformed` has the
    key `NO_KEY`, and no state.

    The result is the rows that the processor emits.  With `next_key`, the place of the field that the next step is keyed by, they are
    packed into rows of `PACKS`.
    """

    def __init__(self, inner: StatefulProcessor, row: Any, key: str, *, next_key: int | None = None) -> None:
        self.inner = inner
        self.row = row
        self.key_at: int = row._fields.index(key)
        self.malformed_at: int = row._fields.index("malformed")
        self.next_key = next_key

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.states = _KeyedStates(handle)
        self.inner.init(self.states)  # type: ignore[arg-type]  # it has what a processor of one ValueState asks for

    def handleInputRows(self, key: tuple[int], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Any]:
        by_key: dict[str, list[Any]] = {}
        for row in rows:
            for event in unpacked(row.events):
                name = NO_KEY if event[self.malformed_at] is not None else event[self.key_at]
                by_key.setdefault(name, []).append(self.row._make(event))
        return self._emitted(by_key, lambda name: self.inner.handleInputRows((name,), iter(by_key[name]), timerValues))

    def handleExpiredTimer(self, key: tuple[int], timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo) -> Iterator[Any]:
        names = dict.fromkeys(self.states.taken_due(expiredTimerInfo.getExpiryTimeInMs()))
        return self._emitted(names, lambda name: self.inner.handleExpiredTimer((name,), timerValues, expiredTimerInfo))

    def _emitted(self, names: Mapping[str, object], call: Callable[[str], Iterator[Any]]) -> Iterator[Any]:
        self.states.load([name for name in names if name != NO_KEY])
        found: list[Any] = []
        for name in names:
            self.states.key = name
            found += call(name)
        self.states.store()
        return iter(found) if self.next_key is None else packs(map(tuple, found), itemgetter(self.next_key))

    def close(self) -> None:
        self.inner.close()


class _KeyedStates:
    """The handle of the processor inside, and its ValueState: both mean the key that is worked on."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self.key = NO_KEY
        self._handle = handle
        self._known: dict[str, Value | None] = {}
        self._changed: set[str] = set()
        self._due_keys: dict[int, list[str]] = {}

    # a handle

    def getValueState(self, name: str, schema: str) -> "_KeyedStates":
        assert name != DUE, "the name of the step's own mapping"
        self._values = self._handle.getMapState(name, "key STRING", schema)
        self._due = self._handle.getMapState(DUE, "due_ms BIGINT", "keys STRING")
        return self

    def registerTimer(self, due_ms: int) -> None:
        self._due_keys.setdefault(due_ms, []).append(self.key)

    # a ValueState

    def get(self) -> Value | None:
        return self._known[self.key]

    def update(self, value: Value) -> None:
        self._known[self.key] = value
        self._changed.add(self.key)

    def clear(self) -> None:
        self._known[self.key] = None
        self._changed.add(self.key)

    # the step's part

    def load(self, names: list[str]) -> None:
        self._known = dict(zip(names, get_many(self._values, [(name,) for name in names]), strict=True))
        self._changed.clear()
        self._due_keys.clear()

    def store(self) -> None:
        changed = {(name,): self._known[name] for name in sorted(self._changed)}
        put_many(self._values, {key: value for key, value in changed.items() if value is not None})
        remove_many(self._values, [key for key, value in changed.items() if value is None])
        self._store_due()

    def _store_due(self) -> None:
        times = sorted(self._due_keys)
        kept = get_many(self._due, [(due_ms,) for due_ms in times])
        joined = {due_ms: [*_names(there), *self._due_keys[due_ms]] for due_ms, there in zip(times, kept, strict=True)}
        put_many(self._due, {(due_ms,): (json.dumps(names, separators=(",", ":")),) for due_ms, names in joined.items()})
        for due_ms in times:
            self._handle.registerTimer(due_ms)

    def taken_due(self, due_ms: int) -> list[str]:
        """The keys with a timer at this time, which have it no more."""
        names = _names(self._due.getValue((due_ms,)))
        self._due.removeKey((due_ms,))
        return names


def _names(kept: Value | None) -> list[str]:
    found: list[str] = json.loads(kept[0]) if kept else []
    return found
