"""◇ The state of a task: two mappings of text, and the stores that processors make of them.

Spark's MapState, a dictionary and a file of JSON can all be a mapping of text.  Keys and values are packed as JSON when they are put and
unpacked when they are asked for, so a processor sees the same thing within a micro-batch as after a restart, and cannot change a stored
value by accident.

`points` is asked key by key.  `pending` holds entries that wait for time to pass.  It is read as a whole and in order when it is first
needed, so only waiting entries are kept there.
"""

import json
from base64 import b64decode, b64encode
from bisect import bisect_left, insort
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

from moldau.pipelines.streams.records import Change, Windowed

_BYTES: Final = "$b"
_PAIRS: Final = "$d"
_WINDOWED: Final = "$w"
_CHANGE: Final = "$c"
_SEPARATOR: Final = "|"


def pack(value: Any) -> str:
    """Packs None, bool, int, float, str, bytes, lists, dictionaries, `Windowed` and `Change`.  Tuples become lists.  Errors: TypeError."""
    return json.dumps(_to_json(value), separators=(",", ":"))


def unpack(text: str) -> Any:
    return _from_json(json.loads(text))


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes | bytearray):
        return {_BYTES: b64encode(value).decode()}
    if isinstance(value, Windowed):
        return {_WINDOWED: [_to_json(value.key), value.start, value.end]}
    if isinstance(value, Change):
        return {_CHANGE: [_to_json(value.new), _to_json(value.old), value.is_latest]}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _to_json(item) for key, item in value.items()}
        return {_PAIRS: [[_to_json(key), _to_json(item)] for key, item in value.items()]}
    raise TypeError(f"a value in a state is JSON or bytes, and this is {type(value).__name__}: turn it into a dictionary, a list or bytes")


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return [_from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (mark, inner), *_ = value.items()
        if mark == _BYTES:
            return b64decode(inner)
        if mark == _WINDOWED:
            return Windowed(_from_json(inner[0]), inner[1], inner[2])
        if mark == _CHANGE:
            return Change(_from_json(inner[0]), _from_json(inner[1]), *inner[2:])
        if mark == _PAIRS:
            return {_from_json(key): _from_json(item) for key, item in inner}
    return {key: _from_json(item) for key, item in value.items()}


@dataclass(slots=True)
class State:
    """The state of a task; see the module."""

    points: MutableMapping[str, str] = field(default_factory=dict)
    pending: MutableMapping[str, str] = field(default_factory=dict)


class Store:
    """One processor's values by key."""

    def __init__(self, texts: MutableMapping[str, str], name: str) -> None:
        self._texts = texts
        self._prefix = name + _SEPARATOR

    def get(self, key: Any, default: Any = None) -> Any:
        text = self._texts.get(self._prefix + pack(key))
        return default if text is None else unpack(text)

    def put(self, key: Any, value: Any) -> None:
        """Set a value; None removes the key."""
        place = self._prefix + pack(key)
        if value is None:
            self._texts.pop(place, None)
        else:
            self._texts[place] = pack(value)


class Pending:
    """One processor's entries that wait for time to pass, in order of (time, side, packed key)."""

    def __init__(self, texts: MutableMapping[str, str], name: str) -> None:
        self._texts = texts
        self._prefix = name + _SEPARATOR
        # Entries of one mapping are told apart by their processor's name.  They are few, since only waiting entries are kept.
        self._order = sorted(_place(text[len(self._prefix) :]) for text in texts if text.startswith(self._prefix))

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[tuple[int, int, Any]]:
        """Places in order.  Changes meanwhile are not seen."""
        return ((time, side, unpack(key)) for time, side, key in list(self._order))

    @property
    def first_time(self) -> int | None:
        return self._order[0][0] if self._order else None

    def first(self) -> tuple[int, int, Any]:
        time, side, key = self._order[0]
        return time, side, unpack(key)

    def get(self, time: int, side: int, key: Any) -> Any:
        text = self._texts.get(self._text((time, side, pack(key))))
        return None if text is None else unpack(text)

    def put(self, time: int, side: int, key: Any, value: Any) -> None:
        place = (time, side, pack(key))
        text = self._text(place)
        if text not in self._texts:
            insort(self._order, place)
        self._texts[text] = pack(value)

    def remove(self, time: int, side: int, key: Any) -> None:
        place = (time, side, pack(key))
        if self._texts.pop(self._text(place), None) is not None:
            del self._order[bisect_left(self._order, place)]

    def _text(self, place: tuple[int, int, str]) -> str:
        return f"{self._prefix}{place[0]} {place[1]} {place[2]}"


def _place(text: str) -> tuple[int, int, str]:
    time, side, key = text.split(" ", 2)
    return int(time), int(side), key


class Stores:
    """The stores of a task's processors, by name."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._stores: dict[str, Store] = {}
        self._pending: dict[str, Pending] = {}

    def store(self, name: str) -> Store:
        found = self._stores.get(name)
        if found is None:
            found = self._stores[name] = Store(self._state.points, name)
        return found

    def pending(self, name: str) -> Pending:
        found = self._pending.get(name)
        if found is None:
            found = self._pending[name] = Pending(self._state.pending, name)
        return found

    def advance(self, name: str, timestamp: int) -> int:
        """The newest timestamp that was seen under this name: its stream time.  Source: KIP-353."""
        times = self.store("time")
        known = times.get(name)
        if known is None or timestamp > known:
            times.put(name, timestamp)
            return timestamp
        return int(known)
