"""◇ The promises that must hold once everything is calm, and those about earlier views of readers.

torn          all records of a transaction, in all its partitions and with its offsets, are visible, or none
aborted       no record of a transaction is visible that no client asked to commit
lost          everything of a transaction that was answered as committed is visible, once and in order
hanging       every partition can be read to its end; no offset is pending; no transaction is open
markers       epochs of a producer's markers never go back in a partition
zombie        nothing is granted to a client whose successor was initialised before the request, and nothing is appended with an epoch
              older than one that was given out before
went back     records that a reader of committed records saw once stay; last stable and committed offsets never go back
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.control import ControlType, parse_control_key
from moldau.storage.log import FetchData, Log
from moldau.types import TopicPartition
from proof.transactions.schedules.notebook import Attempt, Fate, Notebook, Snapshot

WHOLE: Final = 1 << 30


class Written(NamedTuple):
    """One batch of a log."""

    offset: int
    next_offset: int
    producer_id: int
    epoch: int
    marker: ControlType | None
    values: tuple[int, ...]


def read_log(log: Log) -> Iterator[Written]:
    """All batches of a log."""
    data = log.read(0, WHOLE)
    assert isinstance(data, FetchData), data
    return written_in(memoryview(data.records.read() if data.records is not None else b""), strict=True)


def written_in(view: memoryview, *, strict: bool = False) -> Iterator[Written]:
    """The whole batches in these bytes.  With `strict` there may be nothing else."""
    for position, header in batches(view, strict=strict):
        found = list(records_of(view[position : position + header.size]))
        marker = parse_control_key(found[0].key).type if header.is_control else None
        values = () if header.is_control else tuple(int.from_bytes(each.value or b"", "big") for each in found)
        yield Written(header.base_offset, header.next_offset, header.producer_id, header.producer_epoch, marker, values)


def visible_in(log: Log) -> list[tuple[int, int]]:
    """(offset, value) as a client with isolation.level=read_committed sees them, with the broker's list of aborted transactions."""
    limit, position, visible = log.last_stable_offset, log.log_start_offset, list[tuple[int, int]]()
    while position < limit:  # a read ends with its segment
        data = log.read(position, WHOLE, limit_offset=limit, with_aborted=True)
        assert isinstance(data, FetchData) and data.records is not None, data
        written = list(written_in(memoryview(data.records.read())))
        visible += not_aborted(written, [(each.first_offset, each.producer_id) for each in data.aborted])
        position = written[-1].next_offset
    return visible


def not_aborted(written: Iterable[Written], aborted: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """(offset, value) of the records that count.  `aborted` are pairs (first offset, producer id).

    Source: CompletedFetch.fetchRecords of Kafka's consumer.
    """
    waiting = sorted(aborted)
    in_abort: set[int] = set()
    visible = []
    for each in written:
        while waiting and waiting[0][0] <= each.offset:
            in_abort.add(waiting.pop(0)[1])
        if each.marker is ControlType.ABORT:
            in_abort.discard(each.producer_id)
        elif each.marker is None and each.producer_id not in in_abort:
            visible += [(each.offset + index, value) for index, value in enumerate(each.values)]
    return visible


def judge(notebook: Notebook, logs: Mapping[TopicPartition, Log], last: Snapshot, group_of: Mapping[str, str]) -> list[str]:
    """The violations in words.  `last` is the view when all is calm."""
    found = judge_attempts(notebook, last, group_of)
    for name, log in logs.items():
        found += _judge_log(name, log, notebook)
    found += _judge_snapshots([*notebook.snapshots, last])
    return found


def judge_attempts(notebook: Notebook, last: Snapshot, group_of: Mapping[str, str]) -> list[str]:
    """Hold the clients' knowledge against the records that are visible in the end.  Returns the violations in words."""
    found = list(notebook.violations)
    place = {value: (partition, offset) for partition, seen in last.visible.items() for offset, value in seen}
    count = sum(len(seen) for seen in last.visible.values())
    if count != len(place):
        found.append(f"doubled: {count - len(place)} visible records are there twice")
    for attempt in notebook.attempts:
        found += _judge_attempt(attempt, place)
    for transactional_id, group in group_of.items():
        found += _judge_offsets([each for each in notebook.attempts if each.transactional_id == transactional_id], place, last, group)
    found += _judge_order(notebook, last)
    return found


def _judge_attempt(attempt: Attempt, place: Mapping[int, tuple[TopicPartition, int]]) -> Iterator[str]:
    acknowledged = [value for values in attempt.values.values() for value in values]
    seen = [value for value in attempt.sent if value in place]
    if attempt.fate is Fate.ABORTED and seen:
        yield f"aborted: {len(seen)} records of {attempt.name} are visible, {attempt.fate.value}"
    elif attempt.fate is Fate.COMMITTED and len(seen) < len(attempt.sent):
        yield f"lost: {len(attempt.sent) - len(seen)} of {len(attempt.sent)} records of {attempt.name}"
    elif attempt.fate is Fate.UNKNOWN and 0 < len(seen) < len(acknowledged):
        yield f"torn: {len(seen)} of {len(acknowledged)} records of {attempt.name} are visible"
    for partition, values in attempt.values.items():
        offsets = [place[value][1] for value in values if value in place]
        if offsets != sorted(offsets):
            yield f"reordered: {attempt.name} in {partition}"


def _judge_offsets(
    attempts: Sequence[Attempt], place: Mapping[int, tuple[TopicPartition, int]], last: Snapshot, group: str
) -> Iterator[str]:
    """Check that the group's offset is the one that the last visible transaction with an offset for it committed."""
    expected = None
    for attempt in attempts:
        if attempt.offset is not None and any(value in place for value in attempt.sent):
            expected = attempt.offset
    committed = last.committed_offsets[group]
    if committed != expected:
        yield f"torn: {group} stands at {committed}, the last transaction that is visible committed {expected}"


def _judge_order(notebook: Notebook, last: Snapshot) -> Iterator[str]:
    owner = {value: attempt for attempt in notebook.attempts for value in attempt.sent}
    for partition, seen in last.visible.items():
        before: dict[str, int] = {}
        for _, value in seen:
            attempt = owner[value]
            if attempt.number < before.get(attempt.transactional_id, 0):
                yield f"reordered: {attempt.name} stands behind a later one in {partition}"
                return
            before[attempt.transactional_id] = attempt.number


def _judge_log(name: TopicPartition, log: Log, notebook: Notebook) -> Iterator[str]:
    if log.last_stable_offset != log.log_end_offset:
        yield f"hanging: {name} can be read to {log.last_stable_offset}, its end is {log.log_end_offset}"
    epochs: dict[int, int] = {}
    for each in read_log(log):
        if each.producer_id < 0:
            continue
        if each.marker is not None:
            if each.epoch < epochs.get(each.producer_id, -1):
                known = epochs[each.producer_id]
                yield f"markers: epoch {each.epoch} of producer {each.producer_id} at {name} offset {each.offset}, {known} was there"
            epochs[each.producer_id] = each.epoch
        else:
            for fence in notebook.fences:
                is_old = each.producer_id == fence.producer_id and each.epoch < fence.epoch
                if is_old and each.offset >= fence.ends.get(name, each.offset + 1):
                    yield (
                        f"zombie: producer {each.producer_id} wrote to {name} at offset {each.offset} with epoch {each.epoch} after "
                        f"{fence.epoch} was given out"
                    )


def _judge_snapshots(snapshots: Sequence[Snapshot]) -> Iterator[str]:
    for before, after in pairwise(snapshots):
        for partition, seen in before.visible.items():
            if after.visible[partition][: len(seen)] != seen:
                yield f"went back: {partition} showed {seen[-3:]}, later {after.visible[partition][-3:]}"
            if after.last_stable_offsets[partition] < before.last_stable_offsets[partition]:
                yield f"went back: the last stable offset of {partition}"
        for group, offset in before.committed_offsets.items():
            later = after.committed_offsets[group]
            if offset is not None and (later is None or later < offset):
                yield f"went back: {group} from {offset} to {later}"
