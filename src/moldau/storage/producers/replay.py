"""◇ Updates the state of producers from stored batches: the same steps after an append, at a recovery and at a truncation."""

from collections.abc import Callable, Iterator

from moldau.protocol.records.batch import BatchHeader, records_of
from moldau.protocol.records.control import ControlType, parse_control_key, parse_end_txn_marker
from moldau.storage.index import AbortedTransaction
from moldau.storage.producers.state import CompletedTransaction, EndMarker, ProducerStates
from moldau.storage.segment import Segment


def replay_producer(producers: ProducerStates, header: BatchHeader, segment: Segment, batch: Callable[[], memoryview | bytes]) -> None:
    """Replay one stored batch of a producer.  This is the only way in which its state changes, at an append and at a recovery alike."""
    if not header.is_control:
        producers.append(header)
        return
    marker = read_marker(batch())
    if marker is None:
        return
    completed = producers.complete(header, marker)
    if completed is not None:
        _settle(producers, completed, segment)


def _settle(producers: ProducerStates, completed: CompletedTransaction, segment: Segment) -> None:
    if completed.is_aborted and not segment.txn_index.knows(completed.last_offset):
        stable = producers.last_stable_offset_after(completed)
        segment.txn_index.append(AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable))
    producers.settle(completed)


def read_marker(batch: memoryview | bytes) -> EndMarker | None:
    """The end of a transaction in a control batch; None for other control batches and for one that compaction emptied."""
    for record in records_of(batch):
        kind = parse_control_key(record.key).type
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            return EndMarker(kind is ControlType.ABORT, parse_end_txn_marker(record.value).coordinator_epoch)
    return None


def headers_from(segments: list[Segment], offset: int) -> Iterator[tuple[Segment, int, BatchHeader]]:
    """Every stored batch whose last offset is `offset` or more: its segment, its position, its header."""
    for number, segment in enumerate(segments):
        if number + 1 < len(segments) and segments[number + 1].base_offset <= offset:
            continue
        position = segment.position_of(max(offset, segment.base_offset))
        if position is not None:
            for at, header in segment.headers(position):
                yield segment, at, header
