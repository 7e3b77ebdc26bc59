"""◇ A share group member's acknowledgements of records, and their form on the wire: runs of offsets."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from moldau.clients.records import ConsumerRecord


class Acknowledge(IntEnum):
    """The result of a record, numbered as on the wire."""

    GAP = 0
    """There is no record at this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The record is not done yet, and its lock begins anew.  `commit` sends this.  The record must still be acknowledged (KIP-1222)."""


class SharedRecord(NamedTuple):
    """A record with its delivery.

    `delivery_count`: 1 for the first delivery.  `asked_at`: the loop's time of the fetch; the record's lock has not begun before it.
    """

    record: ConsumerRecord
    delivery_count: int
    asked_at: float


def runs_of(kinds: Mapping[int, Acknowledge]) -> Iterable[tuple[int, int, list[int]]]:
    """Runs as (first offset, last offset, kinds): one kind for a run of equal ones, else one per offset."""
    run: list[int] = []
    for offset in sorted(kinds):
        if run and run[-1] + 1 != offset:
            yield run[0], run[-1], _shortened([kinds[each] for each in run])
            run = []
        run.append(offset)
    if run:
        yield run[0], run[-1], _shortened([kinds[each] for each in run])


def _shortened(kinds: list[Acknowledge]) -> list[int]:
    return list(map(int, kinds[:1] if len(set(kinds)) == 1 else kinds))
