"""◇ Which partition a record goes to: by its key, as Java's client does; without a key, one partition until a batch is full.

Source: Utils.murmur2, BuiltInPartitioner.java; KIP-480, KIP-794.
"""

from struct import Struct
from typing import Final

_WORD: Final = Struct("<I")
_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes | bytearray | memoryview) -> int:
    """Unsigned 32 bits."""
    size = len(data)
    value = (_SEED ^ size) & _MASK
    whole = size & ~3
    for position in range(0, whole, 4):
        word = _WORD.unpack_from(data, position)[0] * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    if size > whole:
        value ^= int.from_bytes(data[whole:], "little")
        value = value * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_for_key(key: bytes | bytearray | memoryview, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyPartitioner:
    """For records without a key: one partition for about `batch_bytes`, then the next, so that batches fill."""

    __slots__ = ("_batch_bytes", "_places")

    def __init__(self, batch_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self._places: dict[str, tuple[int, int]] = {}

    def partition(self, topic: str, size: int, partition_count: int) -> int:
        current, filled = self._places.get(topic, (0, 0))
        if filled and filled + size > self._batch_bytes:
            current, filled = current + 1, 0
        self._places[topic] = (current, filled + size)
        return current % partition_count
