"""◇ Events packed by shard: a frame has one row for all events of a shard, instead of a row for each.

    shard_of(key)  →  0..SHARDS-1          packs(events, key_of)  →  rows of `PACKS`          unpacked(pack)  →  events

Spark moves a row of thirteen columns through shuffle, sort and Arrow for more than a rule needs to judge it, and calls a state processor
for each key.  A shard is a fixed part of all keys: a step has few of them, whatever the number of keys.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple
from zlib import crc32

PACKS: Final = "shard INT, events BINARY"
SHARDS: Final = 16
"""State lies by shard, so another number is another version of state."""
MOST_PACK_BYTES: Final = 4 * 1024 * 1024

Event = tuple[Any, ...]


class Pack(NamedTuple):
    """Events of one shard, as a row of `PACKS`."""

    shard: int
    events: bytes

    def asDict(self, recursive: bool = False) -> dict[str, Any]:
        """The name is the one that Spark's Row has for it."""
        return self._asdict()


def shard_of(key: str) -> int:
    return crc32(key.encode()) % SHARDS


def packs(events: Iterable[Event], key_of: Callable[[Any], str]) -> Iterator[Pack]:
    """The events of a shard keep their order, and a named tuple becomes a plain one.

    An event holds plain values: text, bytes, numbers, lists and mappings of them, None.
    """
    by_shard: dict[int, list[Event]] = {}
    for event in events:
        by_shard.setdefault(shard_of(key_of(event)), []).append(tuple(event))
    for shard, of_it in by_shard.items():
        for pack in _packed(of_it):
            yield Pack(shard, pack)


def unpacked(pack: bytes) -> Sequence[Event]:
    """The pack comes from another step of the same query: nobody else writes into a shuffle."""
    found: Sequence[Event] = pickle.loads(pack)
    return found


def _packed(events: list[Event]) -> Iterator[bytes]:
    pack = pickle.dumps(events, pickle.HIGHEST_PROTOCOL)
    if len(pack) <= MOST_PACK_BYTES or len(events) == 1:
        yield pack
        return
    half = len(events) // 2
    yield from _packed(events[:half])
    yield from _packed(events[half:])
