"""◇ Runs of records in one delivery state, put together so that no two overlap.

A leader may report a run again, split or joined anew.  Of several reports about an offset the one with the most deliveries holds, and among
those the later state.  Equal neighbours become one run.

Source: PersisterStateBatchCombiner.  Called by `machine`.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from moldau.types import NO_OFFSET


class StateBatch(NamedTuple):
    """`first_offset` and `last_offset` are both inclusive."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


def combined(batches: Iterable[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """The runs in order of offsets, without overlaps.  Anything below `start_offset` is cut off, unless that is -1."""
    return tuple(_joined(_decided(sorted(_cut(batches, start_offset)))))


def _cut(batches: Iterable[StateBatch], start_offset: int) -> Iterator[StateBatch]:
    for batch in batches:
        if start_offset == NO_OFFSET or batch.first_offset >= start_offset:
            yield batch
        elif batch.last_offset >= start_offset:
            yield batch._replace(first_offset=start_offset)


def _decided(batches: list[StateBatch]) -> Iterator[StateBatch]:
    """Sweep once over the offsets.  The heap holds the batches that reach this far, with the valid one on top."""
    reaching: list[tuple[int, int, int]] = []  # (-delivery count, -delivery state, last offset)
    offset, index = NO_OFFSET, 0
    while index < len(batches) or reaching:
        if not reaching:
            offset = batches[index].first_offset
        while index < len(batches) and batches[index].first_offset <= offset:
            begun = batches[index]
            heappush(reaching, (-begun.delivery_count, -begun.delivery_state, begun.last_offset))
            index += 1
        while reaching and reaching[0][2] < offset:
            heappop(reaching)
        if reaching:
            count, state, last_offset = reaching[0]
            if index < len(batches):
                last_offset = min(last_offset, batches[index].first_offset - 1)
            yield StateBatch(offset, last_offset, -state, -count)
            offset = last_offset + 1


def _joined(batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    last: StateBatch | None = None
    for batch in batches:
        if last is not None and last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
            last = last._replace(last_offset=batch.last_offset)
            continue
        if last is not None:
            yield last
        last = batch
    if last is not None:
        yield last
