"""◇ Which partition a record goes to: by its key, as Java's client does; without a key, one partition until a batch is full.

Source: BuiltInPartitioner.java; KIP-480, KIP-794.
"""

from moldau.protocol.murmur import murmur2


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
