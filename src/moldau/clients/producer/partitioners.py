"""◇ The partitioners: each chooses a record's partition.

    default              by the key, as Java's client does; without one, the partition with the least on its way, for a batch at a time
    uniform_sticky       as without a key, always
    round_robin          each record to the next partition
    consistent_random    librdkafka's default: CRC-32 of the key, at random without one or with an empty one
    murmur2_random       librdkafka's name for Java's rule
    fnv1a_random         as Sarama and some others: FNV-1a of the key

Any function of (topic, key, value, partition count) is a partitioner, too.

Source: BuiltInPartitioner.java; KIP-480, KIP-794; rdkafka_partitioner.c.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from moldau.protocol.murmur import murmur2

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
MAX_CACHED_KEY: Final = 256
_hash_of: Final = lru_cache(maxsize=65536)(murmur2)


def partition_for_key(key: bytes | bytearray | memoryview, partition_count: int) -> int:
    """The partition by Java's rule: murmur2 without its sign bit, modulo the number of partitions."""
    if type(key) is bytes and len(key) <= MAX_CACHED_KEY:
        return (_hash_of(key) & 0x7FFFFFFF) % partition_count
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """Chooses for records without a key: one partition for about `batch_bytes`, then the one with the least bytes on their way.

    So batches fill, and a slow partition gets less.
    """

    __slots__ = ("_batch_bytes", "_is_adaptive", "_places")

    def __init__(self, batch_bytes: int, *, is_adaptive: bool = True) -> None:
        self._batch_bytes = batch_bytes
        self._is_adaptive = is_adaptive
        self._places: dict[str, list[int]] = {}
        """By topic: the present partition, and how many bytes it has got."""

    def partition(self, topic: str, size: int, partition_count: int, load: Callable[[int], float] | None = None) -> int:
        """The next record's partition.  `load`: how many bytes wait for a partition; infinite where it has no leader."""
        current = self.stay(topic, size, partition_count)
        if current < 0:
            current = self._next(self._places[topic][0], partition_count, load)
            self._places[topic] = [current, size]
        return current

    def stay(self, topic: str, size: int, partition_count: int) -> int:  # hot: 0.2 µs
        """The same partition as before.  -1: it is the next one's turn."""
        place = self._places.get(topic)
        if place is None:
            place = self._places[topic] = [0, 0]
        current, filled = place
        if (filled and filled + size > self._batch_bytes) or current >= partition_count:
            return -1
        place[1] = filled + size
        return current

    def used(self, topic: str) -> int:
        """The present partition.  -1: it has got no record."""
        place = self._places.get(topic)
        return place[0] if place is not None and place[1] else -1

    def room(self, topic: str) -> int:
        """How many bytes the present partition gets before it is the next one's turn."""
        place = self._places.get(topic)
        return 0 if place is None else max(0, self._batch_bytes - place[1])

    def filled(self, topic: str, size: int) -> None:
        """Note that the present partition has got `size` bytes more."""
        self._places[topic][1] += size

    def leave(self, topic: str, partition_count: int, load: Callable[[int], float] | None = None) -> None:
        """Choose another partition from the next record on, because this one takes nothing now."""
        current, _ = self._places.get(topic, (0, 0))
        self._places[topic] = [self._next(current, partition_count, load), 0]

    def _next(self, current: int, partition_count: int, load: Callable[[int], float] | None) -> int:
        first = (current + 1) % partition_count
        if load is None or not self._is_adaptive or not load(first):
            return first
        return min(((first + step) % partition_count for step in range(partition_count)), key=load)


class RoundRobin:
    """Sends each record of a topic to the next partition."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        following = self._next.get(topic, -1) + 1
        self._next[topic] = following
        return following % partition_count


def _keyed(hash_of: Callable[[bytes], int], *, is_empty_random: bool) -> Callable[[Callable[[], float]], Partitioner]:
    def make(draw: Callable[[], float]) -> Partitioner:
        def partition(topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
            if key is None or (is_empty_random and not key):
                return min(int(draw() * partition_count), partition_count - 1)
            return hash_of(key) % partition_count

        return partition

    return make


def fnv1a(key: bytes) -> int:
    """32 bits, read as signed and made positive, as librdkafka and Sarama do."""
    value = 0x811C9DC5
    for byte in key:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return abs(signed)


HASHED: Final[Mapping[str, Callable[[Callable[[], float]], Partitioner]]] = {
    "consistent_random": _keyed(zlib.crc32, is_empty_random=True),
    "murmur2_random": _keyed(lambda key: murmur2(key) & 0x7FFFFFFF, is_empty_random=False),
    "fnv1a_random": _keyed(fnv1a, is_empty_random=False),
}
NAMES: Final[Sequence[str]] = ("default", "uniform_sticky", "round_robin", *HASHED)


def partitioner_of(given: object, draw: Callable[[], float]) -> Partitioner | None:
    """The partitioner with this name, or the given function.  None: the default.

    `draw`: returns a random number from 0 to 1.  Errors: ValueError.
    """
    if callable(given):
        return given
    if given in ("default", "uniform_sticky"):
        return None
    if given == "round_robin":
        return RoundRobin()
    if isinstance(given, str) and given in HASHED:
        return HASHED[given](draw)
    raise ValueError(f"partitioner cannot be {given!r}: a function, or one of {', '.join(NAMES)}")
