"""◇ A model of a log's possible states after a crash, in few lines, which recovery is held against.

The model knows every batch that was ever appended, the offset up to which batches were promised to be durable, and where the log may start.
A recovered log must be a prefix of the appended batches that holds at least the promised ones.  Between a truncation and the next flush the
log from before the truncation may come back, too, because its end was promised no more.
"""

from typing import NamedTuple

from moldau.protocol.records.batch import BatchHeader, batches
from moldau.storage.log import Log
from moldau.storage.producers.replay import read_marker
from proof.storage.logs import stored_bytes


class StoredBatch(NamedTuple):
    header: BatchHeader
    content: bytes


class ProducerModel(NamedTuple):
    """The state of producers that follows from the batches alone."""

    last_sequences: dict[int, int]
    open_since: dict[int, int]
    aborted: list[tuple[int, int, int]]
    """(producer id, first offset, marker's offset)"""


class LogModel:
    """The model of one log."""

    def __init__(self) -> None:
        self.timelines: list[list[StoredBatch]] = [[]]
        self.promised = 0
        """Everything below this offset survives."""
        self.lowest_start = 0
        self.highest_start = 0

    @property
    def now(self) -> list[StoredBatch]:
        return self.timelines[-1]

    def appended(self, content: bytes) -> None:
        self.now.extend(parsed(content))

    def not_appended(self, batches_count: int) -> None:
        del self.now[len(self.now) - batches_count :]

    def flushed(self, upto: int) -> None:
        self.timelines = [self.now]
        self.promised = max(self.promised, upto)

    def truncated(self, offset: int) -> None:
        self.promised = min(self.promised, offset)
        self.timelines.append([batch for batch in self.now if batch.header.next_offset <= offset])

    def allows(self, log: Log) -> str | None:
        """The fault of a recovered log in words; None if the log is allowed."""
        start, end = log.log_start_offset, log.log_end_offset
        if not self.lowest_start <= start <= self.highest_start:
            return f"it starts at {start}, not between {self.lowest_start} and {self.highest_start}"
        if end < self.promised:
            return f"it ends at {end}, {self.promised} was promised"
        found = parsed(stored_bytes(log))
        for timeline in self.timelines:
            expected = [batch for batch in timeline if batch.header.next_offset > start]
            if found == expected[: len(found)]:
                break
        else:
            return f"its batches {[batch.header.base_offset for batch in found]} are no prefix of what was appended"
        if found and end != found[-1].header.next_offset:
            return f"it ends at {end}, its last batch at {found[-1].header.next_offset}"
        return wrong_epochs(log, found) or wrong_producers(log, found, complete=self.highest_start == 0)


def parsed(content: bytes) -> list[StoredBatch]:
    return [StoredBatch(header, content[at : at + header.size]) for at, header in batches(content, strict=True)]


def wrong_epochs(log: Log, found: list[StoredBatch]) -> str | None:
    for header, _ in found:
        visible = max(header.base_offset, log.log_start_offset)
        if log.epochs.epoch_for_offset(visible) != header.partition_leader_epoch:
            return f"offset {header.base_offset} belongs to epoch {header.partition_leader_epoch}, its epochs say {log.epochs.entries}"
    if found and log.epochs.latest_epoch != found[-1][0].partition_leader_epoch:
        return f"its latest epoch is {log.epochs.latest_epoch}"
    return None


def wrong_producers(log: Log, found: list[StoredBatch], *, complete: bool) -> str | None:
    """Compare producers, if the log is `complete`: a log that started later may have forgotten producers that the model remembers."""
    model = producers_of(found)
    last_sequences = {entry.producer_id: entry.last_sequence for entry in log.producers.producers.values()}
    open_since = {producer_id: first for first, producer_id in log.producers.open_transactions.items()}
    aborted = [entry[:3] for entry in log.aborted_transactions(log.log_start_offset, log.log_end_offset)]
    if complete and (last_sequences, open_since, aborted) != model:
        return f"its producers are {last_sequences}, {open_since}, {aborted}, not {model}"
    return None


def producers_of(found: list[StoredBatch]) -> ProducerModel:
    model = ProducerModel({}, {}, [])
    for header, content in found:
        producer_id = header.producer_id
        if producer_id < 0:
            continue
        if not header.is_control:
            model.last_sequences[producer_id] = header.last_sequence
            if header.is_transactional:
                model.open_since.setdefault(producer_id, header.base_offset)
            continue
        marker = read_marker(content)
        model.last_sequences.setdefault(producer_id, -1)
        first = model.open_since.pop(producer_id, None)
        if marker is not None and marker.is_abort and first is not None:
            model.aborted.append((producer_id, first, header.base_offset))
    return model
