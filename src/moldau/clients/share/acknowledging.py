"""◇ What a member of a share group says of records, and how it lies on the wire: runs of offsets."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from moldau.clients.records import ConsumerRecord


class Acknowledge(IntEnum):
    """What became of a record, numbered as on the wire."""

    GAP = 0
    """There is no record at this offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """Not done yet: its lock begins anew.  Sent by `commit`, and the record is still to be spoken of (KIP-1222)."""


class SharedRecord(NamedTuple):
    """`delivery_count`: 1 when it was delivered for the first time.  `asked_at`: the loop's time before which its lock has not begun."""

    record: ConsumerRecord
    delivery_count: int
    asked_at: float


def runs_of(kinds: Mapping[int, Acknowledge]) -> Iterable[tuple[int, int, list[int]]]:
    """(first offset, last offset, kinds): one kind for a run that has but one, else one an offset."""
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
