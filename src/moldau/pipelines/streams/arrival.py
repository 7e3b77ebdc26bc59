"""◇ The order in which a task takes the records of its partitions.

Each partition's records come in the order of their offsets.  The task takes the one with the smallest timestamp among the partitions'
next records, as a task of Kafka Streams does (KIP-353).
"""

from collections.abc import Iterable, Iterator, Set
from heapq import heapify, heappop, heapreplace
from typing import Any, NamedTuple


class Arrived(NamedTuple):
    """A row of the frames between the stages."""

    input: str
    from_partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Any
    source: str | None
    """The topic that the record was read from; None: it comes from an earlier stage."""


def in_turn(rows: Iterable[Arrived], inputs: Iterable[str], first: Set[str] = frozenset()) -> Iterator[Arrived]:
    """`inputs`: the inputs in the order in which equal timestamps are taken.  Records of `first` come before all others."""
    rank = {name: (name not in first, number) for number, name in enumerate(inputs)}
    queues: dict[tuple[str, int], list[Arrived]] = {}
    for row in rows:
        queues.setdefault((row.input, row.from_partition), []).append(row)
    heads = []
    for (name, partition), queue in queues.items():
        queue.sort(key=lambda row: row.offset, reverse=True)
        is_later, number = rank[name]
        heads.append((is_later, queue[-1].timestamp, number, partition, name))
    heapify(heads)
    while heads:
        is_later, _, number, partition, name = heads[0]
        queue = queues[name, partition]
        yield queue.pop()
        if queue:
            heapreplace(heads, (is_later, queue[-1].timestamp, number, partition, name))
        else:
            heappop(heads)
