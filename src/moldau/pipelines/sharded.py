"""◇ A state processor of single keys, run by Spark for a whole shard of keys at once.

    events.groupBy("shard").transformWithState(Sharded(StockCheck(catalogue), RequestRow._make, "store_id"), PACKS, ...)

The processor inside is written as if Spark called it for each key, with one ValueState and timers.  The step reads the state of all keys of
a micro-batch at once, calls the processor for one key after the other, and writes at once what changed.  The state is a mapping of keys, so
Spark still reads and writes only keys that a micro-batch touches.

Spark has timers for a shard.  The same mapping has the keys that a timer is for, by its time: each mapping costs each task of a micro-batch
its own encoders.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, StatefulProcessor, StatefulProcessorHandle, TimerValues

from moldau.pipelines.records import NO_KEY
from moldau.pipelines.shards import Event, packs, unpacked
from moldau.pipelines.state_calls import Key, Value, get_many, put_many, remove_many

OF_KEY, DUE = "k", "t"
"""The first letters of the mapping's keys: the state of a key, and the keys of a timer."""
KEYS: Final = "due_keys"


class Sharded(StatefulProcessor):
    """`row` makes the processor's rows from events; `key` is the name of their attribute that is their key.  A row that is `malformed` has
    the key `NO_KEY`, and no state.

    The result is the rows that the processor emits.  With `next_key`, the attribute that the next step is keyed by, they are packed into
    rows of `PACKS`.
    """

    def __init__(self, inner: StatefulProcessor, row: Callable[[Event], Any], key: str, *, next_key: str | None = None) -> None:
        self.inner = inner
        self.row = row
        self.key_of = attrgetter(key)
        self.next_key = next_key

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.states = _KeyedStates(handle)
        self.inner.init(self.states)  # type: ignore[arg-type]  # it has what a processor of one ValueState asks for

    def handleInputRows(self, key: tuple[int], rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Any]:
        by_key: dict[str, list[Any]] = {}
        for row in rows:
            for found in map(self.row, unpacked(row.events)):
                name = NO_KEY if found.malformed is not None else self.key_of(found)
                by_key.setdefault(name, []).append(found)
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
        return iter(found) if self.next_key is None else packs(found, attrgetter(self.next_key))

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
        self._nothing: Value = ()

    # a handle

    def getValueState(self, name: str, schema: str) -> "_KeyedStates":
        """Processors of one step ask for the same state."""
        if not self._nothing:
            self._nothing = (None,) * len(schema.split(","))
            self._mapping = self._handle.getMapState(name, "key STRING", f"{schema}, {KEYS} STRING")
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
        kept = get_many(self._mapping, [(OF_KEY + name,) for name in names])
        self._known = {name: None if value is None else value[:-1] for name, value in zip(names, kept, strict=True)}
        self._changed.clear()
        self._due_keys.clear()

    def store(self) -> None:
        """Sorted, so that a micro-batch that is run again writes the same."""
        changed = {name: self._known[name] for name in sorted(self._changed)}
        states: dict[Key, Value] = {(OF_KEY + name,): (*value, None) for name, value in changed.items() if value is not None}
        put_many(self._mapping, states | self._joined_due())
        remove_many(self._mapping, [(OF_KEY + name,) for name, value in changed.items() if value is None])
        for due_ms in sorted(self._due_keys):
            self._handle.registerTimer(due_ms)

    def _joined_due(self) -> dict[Key, Value]:
        times = sorted(self._due_keys)
        kept = get_many(self._mapping, [_due(due_ms) for due_ms in times])
        joined = {due_ms: [*_names(there), *self._due_keys[due_ms]] for due_ms, there in zip(times, kept, strict=True)}
        return {_due(due_ms): (*self._nothing, json.dumps(names, separators=(",", ":"))) for due_ms, names in joined.items()}

    def taken_due(self, due_ms: int) -> list[str]:
        """The keys with a timer at this time, which have it no more."""
        names = _names(self._mapping.getValue(_due(due_ms)))
        self._mapping.removeKey(_due(due_ms))
        return names


def _due(due_ms: int) -> Key:
    return (f"{DUE}{due_ms}",)


def _names(kept: Value | None) -> list[str]:
    found: list[str] = json.loads(kept[-1]) if kept else []
    return found
