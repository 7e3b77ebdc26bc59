"""◇ The batches of a producer that its snapshot leaves out, read from the log itself.

A snapshot in Kafka's format tells of a producer's last batch only.  After a start, a client may send several of its last five again: their
answers were lost when the broker stopped.  Kafka refuses all but the last with OUT_OF_ORDER_SEQUENCE_NUMBER, which ends an idempotent
producer though nothing is wrong.  Here they are looked for where they are, when one comes that would be refused, once a producer.
Called by `log`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from moldau.protocol.records.batch import BatchHeader
from moldau.storage.producers.state import BATCHES_KEPT, ProducerEntry, StoredBatch
from moldau.storage.segment import Segment

FIRST_STEP: Final = 64
STEPS_GROW: Final = 4
MOST_BYTES: Final = 64 << 20
"""Read of the log for one producer: what five batches in flight beside others' records may span."""


def recall(entry: ProducerEntry, segments: Sequence[Segment], *, start_offset: int) -> None:
    """Puts what the log has of the producer's epoch, before the first batch that `entry` knows.  Errors: CorruptBatch, OSError."""
    entry.is_recalled = True
    if not entry.batches:
        return
    known = entry.batches
    found: list[StoredBatch] = []
    for header in _backwards(segments, known[0].first_offset, start_offset):
        if header.producer_id == entry.producer_id:
            if header.producer_epoch != entry.producer_epoch or len(found) + len(known) == BATCHES_KEPT:
                break
            if not header.is_control:
                found.append(StoredBatch.of(header))
    entry.batches = [*reversed(found), *known]


def _backwards(segments: Sequence[Segment], before: int, start_offset: int) -> Iterator[BatchHeader]:
    """The batches below `before`, newest first, in stretches that grow."""
    left, step = MOST_BYTES, FIRST_STEP
    for segment in reversed(segments):
        lowest = max(segment.base_offset, start_offset)
        while lowest < before:
            begin = max(lowest, before - step)
            stretch = list(_between(segment, begin, before))
            yield from reversed(stretch)
            left -= sum(header.size for header in stretch)
            if left <= 0:
                return
            before, step = min(begin, stretch[0].base_offset) if stretch else begin, step * STEPS_GROW


def _between(segment: Segment, begin: int, end: int) -> Iterator[BatchHeader]:
    position = segment.position_of(begin)
    if position is None:
        return
    for _, header in segment.headers(position):
        if header.base_offset >= end:
            return
        yield header
