"""◇ Compaction: the last value of every key stays, in its place and with its offset.

    plan = plan_cleaning(log, first_dirty_offset, now_ms, …)      on the loop: frozen inputs, None when there is nothing to do
    result = clean(files, plan)                                   in a worker process: reads segments, writes and syncs `.cleaned` files
    install(log, result, now_ms)                                  on the loop: swaps them in, one group after the other

Cleanable is what lies below the last stable offset, outside the active segment, is older than min.compaction.lag.ms and on stable storage.
Of it stays:

- the newest record of each key, unless it is a tombstone whose delete horizon (delete.retention.ms after its first cleaning) has passed;
- nothing of aborted transactions; a transaction's marker until its records are gone and its own horizon has passed;
- offsets, order, and the last batch of every living producer, if need be emptied, so that sequences and epochs are not forgotten.

The swap survives a crash at every step: `.cleaned` (synced) → `.swap` → the old segments go → the final name, with the directory synced
after each; recovery finishes what had reached `.swap` and undoes what had not.
Source: LogCleaner, LogCleanerManager, Cleaner, CleanedTransactionMetadata; KIP-534, KIP-58, KIP-354.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from moldau.protocol.records.batch import (
    CODEC_MASK,
    CRC_START,
    DELETE_HORIZON,
    HEADER,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    read_header,
    verify_crc,
)
from moldau.protocol.records.builder import encode_varint
from moldau.protocol.records.compression import Codec, compress, decompress
from moldau.storage.config import LogConfig
from moldau.storage.files import Files
from moldau.storage.index import AbortedTransaction
from moldau.storage.log import Log
from moldau.storage.recovery import CLEANED_SUFFIX, SWAP_SUFFIX
from moldau.storage.replay import read_marker
from moldau.storage.segment import MAX_RELATIVE_OFFSET, Segment

READ_CHUNK: Final = 1 << 20
BYTES_PER_KEY: Final = 130
"""What an entry of the offset map takes beside the key itself."""

_CRC: Final = Struct(">I")
_CRC_AT: Final = CRC_START - 4

Pace = Callable[[int], None]
"""Called with the number of bytes read or written: a worker sleeps here to keep to its limit."""


class SegmentToClean(NamedTuple):
    base_offset: int
    size: int
    index_bytes: int


class LastRecord(NamedTuple):
    """Where a living producer last was: its last data offset, or -1 and the epoch of its last marker."""

    offset: int
    producer_epoch: int


class CleaningPlan(NamedTuple):
    """Everything that `clean` needs to know; it can be sent to another process."""

    name: str
    directory: str
    segments: tuple[SegmentToClean, ...]
    first_dirty_offset: int
    end_offset: int
    """Exclusive: what lies here or above is not cleanable yet."""
    aborted: tuple[AbortedTransaction, ...]
    last_records: Mapping[int, LastRecord]
    now_ms: int
    delete_retention_ms: int
    max_segment_bytes: int
    max_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    truncations: int


class CleanedGroup(NamedTuple):
    """One new segment and those that it replaces."""

    base_offset: int
    replaced: tuple[int, ...]


class CleaningResult(NamedTuple):
    groups: tuple[CleanedGroup, ...]
    clean_offset: int
    """Exclusive: everything below is compacted now; it belongs into the cleaner's checkpoint."""
    truncations: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int


class Dirtiness(NamedTuple):
    """How much of a log waits for compaction."""

    clean_bytes: int
    dirty_bytes: int
    first_dirty_offset: int
    end_offset: int
    is_overdue: bool
    """Whether max.compaction.lag.ms has passed for something in it."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)

    def wants_cleaning(self, config: LogConfig) -> bool:
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio)


# -------------------------------------------------------------------- planning, on the loop


def dirtiness(log: Log, checkpointed_offset: int | None, now_ms: int, *, unflushed_too: bool = False) -> Dirtiness:
    """Where the dirty part begins and ends.  `checkpointed_offset` is what the cleaner's checkpoint says of this log.

    `unflushed_too` counts what a flush would make cleanable.
    """
    first = log.log_start_offset if checkpointed_offset is None else checkpointed_offset
    if not log.log_start_offset <= first <= log.log_end_offset:
        first = log.log_start_offset  # the log was shortened since
    config = log.config
    end = min(log.last_stable_offset, log.active_segment.base_offset)
    overdue_since = now_ms - config.max_compaction_lag_ms
    is_overdue = False
    clean = dirty = 0
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base_offset <= first:
            clean += segment.size
            continue
        is_young = config.min_compaction_lag_ms > 0 and segment.largest_timestamp > now_ms - config.min_compaction_lag_ms
        is_flushed = unflushed_too or following.base_offset <= log.recovery_point
        if following.base_offset > end or not is_flushed or is_young:
            end = min(end, max(segment.base_offset, first))
            break
        dirty += segment.size
        oldest = segment.first_timestamp
        is_overdue = is_overdue or (segment.size > 0 and oldest is not None and 0 <= oldest < overdue_since)
    return Dirtiness(clean, dirty, first, max(end, first), is_overdue)


def plan_cleaning(log: Log, dirt: Dirtiness, now_ms: int, *, map_bytes: int) -> CleaningPlan | None:
    """None when no whole segment is cleanable."""
    segments = tuple(
        SegmentToClean(segment.base_offset, segment.size, max(segment.offset_index.size, segment.time_index.size))
        for segment, following in zip(log.segments, log.segments[1:], strict=False)
        if following.base_offset <= dirt.end_offset
    )
    if not segments or dirt.dirty_bytes == 0:
        return None
    last_records = {entry.producer_id: LastRecord(entry.last_offset, entry.producer_epoch) for entry in log.producers.producers.values()}
    config = log.config
    return CleaningPlan(
        name=str(log.topic_partition),
        directory=log.directory,
        segments=segments,
        first_dirty_offset=dirt.first_dirty_offset,
        end_offset=dirt.end_offset,
        aborted=log.aborted_transactions(segments[0].base_offset, dirt.end_offset),
        last_records=last_records,
        now_ms=now_ms,
        delete_retention_ms=config.delete_retention_ms,
        max_segment_bytes=config.segment_bytes,
        max_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        map_bytes=map_bytes,
        truncations=log.truncations,
    )


# -------------------------------------------------------------------- cleaning, anywhere


def clean(files: Files, plan: CleaningPlan, pace: Pace = lambda _: None) -> CleaningResult:
    """Write the cleaned segments beside the old ones.  Errors: CorruptBatch, OSError; what was written is then left for `discard`."""
    newest, clean_offset = _map_offsets(files, plan, pace)
    work = _Cleaning(files, plan, newest, clean_offset, pace)
    to_clean = [segment for segment in plan.segments if segment.base_offset < clean_offset]
    groups = tuple(work.clean_group(group) for group in grouped(to_clean, plan))
    return CleaningResult(groups, clean_offset, plan.truncations, work.bytes_read, work.bytes_written, work.records_read, work.records_kept)


def grouped(segments: Iterable[SegmentToClean], plan: CleaningPlan) -> Iterator[list[SegmentToClean]]:
    """Neighbours that fit into one segment together, even if nothing of them goes."""
    group: list[SegmentToClean] = []
    ends = {
        segment.base_offset: following
        for segment, following in zip(plan.segments, [s.base_offset for s in plan.segments[1:]], strict=False)
    }
    for segment in segments:
        end = ends.get(segment.base_offset, plan.end_offset)
        fits = (
            bool(group)
            and sum(member.size for member in group) + segment.size <= plan.max_segment_bytes
            and sum(member.index_bytes for member in group) + segment.index_bytes <= plan.max_index_bytes
            and end - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET
        )
        if group and not fits:
            yield group
            group = []
        group.append(segment)
    if group:
        yield group


def _map_offsets(files: Files, plan: CleaningPlan, pace: Pace) -> tuple[dict[bytes, int], int]:
    """The newest offset of each key in the dirty part, as far as the map's memory goes, and where that is."""
    newest: dict[bytes, int] = {}
    used = 0
    clean_offset = plan.first_dirty_offset
    reads_from = max((segment.base_offset for segment in plan.segments if segment.base_offset <= plan.first_dirty_offset), default=0)
    # One whose marker lies before would never end in this reading, and take its producer's later records along.
    transactions = _Transactions(tuple(aborted for aborted in plan.aborted if aborted.last_offset >= reads_from))
    for position, segment in enumerate(plan.segments):
        following = plan.segments[position + 1].base_offset if position + 1 < len(plan.segments) else plan.end_offset
        if following <= plan.first_dirty_offset:
            continue
        for header, batch in _batches(files, plan, segment, pace):
            if used >= plan.map_bytes:
                return newest, clean_offset
            if header.is_control:
                transactions.marker(header, batch)
            elif not transactions.is_aborted(header):
                for offset, _, key, *_ in _skim(header, _plain(header, batch)):
                    if key is not None and offset >= plan.first_dirty_offset:
                        if key not in newest:
                            used += BYTES_PER_KEY + len(key)
                        newest[key] = offset
            clean_offset = max(clean_offset, header.next_offset)
        clean_offset = max(clean_offset, following)
    return newest, clean_offset


class _Transactions:
    """Which transactions the reading is in, and what became of them: for the map and again for the copy."""

    def __init__(self, aborted: tuple[AbortedTransaction, ...]) -> None:
        self._coming = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTransaction] = {}
        self._with_records: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        self._with_records.add(header.producer_id)
        return header.producer_id in self._aborted

    def marker(self, header: BatchHeader, batch: memoryview) -> tuple[bool, AbortedTransaction | None]:
        """Whether no record of its transaction was seen, and the transaction if it was an aborted one."""
        self._advance(header.last_offset)
        marker = read_marker(batch)
        if marker is None:
            return header.producer_id >= 0, None
        had_records = header.producer_id in self._with_records
        self._with_records.discard(header.producer_id)
        transaction = self._aborted.pop(header.producer_id, None) if marker.is_abort else None
        return not had_records, transaction

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            transaction = self._coming.pop()
            self._aborted.setdefault(transaction.producer_id, transaction)


class _Cleaning:
    """The copy: what it needs for every batch, and what it counts."""

    def __init__(self, files: Files, plan: CleaningPlan, newest: dict[bytes, int], clean_offset: int, pace: Pace) -> None:
        self.bytes_read = self.bytes_written = self.records_read = self.records_kept = 0
        self._files = files
        self._plan = plan
        self._newest = newest
        self._clean_offset = clean_offset
        self._pace = pace
        self._transactions = _Transactions(plan.aborted)

    def clean_group(self, group: list[SegmentToClean]) -> CleanedGroup:
        plan = self._plan
        cleaned = Segment.create(
            self._files,
            plan.directory,
            group[0].base_offset,
            index_interval_bytes=plan.index_interval_bytes,
            now_ms=plan.now_ms,
            suffix=CLEANED_SUFFIX,
        )
        for segment in group:
            last: BatchHeader | None = None
            for header, batch in _batches(self._files, plan, segment, self._pace):
                last = header
                self.bytes_read += header.size
                self.records_read += header.records_count
                self._write(cleaned, self._kept(header, batch, cleaned))
            if last is not None and segment is group[-1] and not _ends_at(cleaned, last):
                # The new segment reaches as far as the ones it replaces: a crash within the swap then knows all of them.
                self._write(cleaned, _emptied(last))
        cleaned.seal()
        cleaned.file.sync()
        cleaned.sync_indexes()
        self.bytes_written += cleaned.size
        cleaned.close()
        return CleanedGroup(group[0].base_offset, tuple(segment.base_offset for segment in group))

    def _write(self, cleaned: Segment, batch: bytes | memoryview | None) -> None:
        if batch is not None:
            header = read_header(batch)
            cleaned.append(batch, header)
            self.records_kept += header.records_count
            self._pace(len(batch))

    def _kept(self, header: BatchHeader, batch: memoryview, cleaned: Segment) -> bytes | memoryview | None:
        """The batch as it stays: untouched, with fewer records, emptied, or None."""
        if header.is_control:
            return self._kept_marker(header, batch, cleaned)
        if self._transactions.is_aborted(header):
            return _emptied(header) if self._must_stay(header) else None
        if header.records_count == 0:
            return batch if self._must_stay(header) else None
        data = _plain(header, batch)
        records = list(_skim(header, data))
        kept = [record for record in records if self._stays(header, record)]
        if not kept:
            return _emptied(header) if self._must_stay(header) else None
        needs_horizon = not header.has_delete_horizon and any(record.is_tombstone for record in kept)
        if len(kept) == len(records) and not needs_horizon:
            return batch
        horizon = self._plan.now_ms + self._plan.delete_retention_ms if needs_horizon else None
        return _rebuilt(header, data, kept, horizon)

    def _kept_marker(self, header: BatchHeader, batch: memoryview, cleaned: Segment) -> bytes | memoryview | None:
        is_without_records, transaction = self._transactions.marker(header, batch)
        if not is_without_records:
            if transaction is not None:
                cleaned.txn_index.append(transaction)
            return batch
        if header.records_count == 0:
            return batch if self._must_stay(header) else None
        if not header.has_delete_horizon:
            data = _plain(header, batch)
            return _rebuilt(header, data, list(_skim(header, data)), self._plan.now_ms + self._plan.delete_retention_ms)
        if header.base_timestamp <= self._plan.now_ms:
            return _emptied(header) if self._must_stay(header) else None
        return batch

    def _stays(self, header: BatchHeader, record: "_Skimmed") -> bool:
        if record.offset >= self._clean_offset:
            return True
        if record.key is None or record.offset < self._newest.get(record.key, -1):
            return False
        return not record.is_tombstone or not header.has_delete_horizon or self._plan.now_ms < header.base_timestamp

    def _must_stay(self, header: BatchHeader) -> bool:
        """Whether the batch is a living producer's last, or the last of the round."""
        if header.next_offset == self._plan.end_offset:
            return True
        last = self._plan.last_records.get(header.producer_id)
        if last is None:
            return False
        return header.last_offset == last.offset if last.offset >= 0 else header.is_control and header.producer_epoch == last.producer_epoch


def _ends_at(cleaned: Segment, last: BatchHeader) -> bool:
    return cleaned.last_header is not None and cleaned.last_header.last_offset >= last.last_offset


def _batches(files: Files, plan: CleaningPlan, segment: SegmentToClean, pace: Pace) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Every batch of a segment, whole and checked: what is copied must not get a new CRC over old damage.  Errors: CorruptBatch."""
    source = Segment.open(files, plan.directory, segment.base_offset, index_interval_bytes=0, now_ms=0)
    position = 0
    while position < segment.size:
        chunk = memoryview(source.file.pread(min(READ_CHUNK, segment.size - position), position))
        pace(len(chunk))
        at = 0
        while at + HEADER_SIZE <= len(chunk):
            header = read_header(chunk, at)
            if at + header.size > len(chunk):
                if at > 0:
                    break
                chunk = memoryview(source.file.pread(header.size, position))
            if not verify_crc(chunk, at, header):
                raise CorruptBatch(f"{plan.name}: the batch at offset {header.base_offset} is damaged: it is not compacted")
            yield header, chunk[at : at + header.size]
            at += header.size
        if at == 0:
            raise CorruptBatch(f"{plan.name}: the segment {segment.base_offset} ends within a batch at byte {position}")
        position += at


class _Skimmed(NamedTuple):
    """One record, looked at just enough.  `start`, `rest` (after the timestamp) and `end` are places in the plain bytes of its batch."""

    offset: int
    timestamp: int
    key: bytes | None
    is_tombstone: bool
    start: int
    rest: int
    end: int


def _plain(header: BatchHeader, batch: memoryview) -> bytes:
    """The records' bytes, decompressed; as `bytes`, which are quicker to walk through than a view.  Errors: CorruptBatch."""
    data = batch[HEADER_SIZE:]
    return bytes(decompress(header.codec, data)) if header.attributes & CODEC_MASK else bytes(data)


def _skim(header: BatchHeader, data: bytes) -> Iterator[_Skimmed]:  # hot: 1.0 µs a record
    """The records of one batch.  Numbers of one byte or two, which most are, are read in place.  Errors: CorruptBatch."""
    base_offset, base_timestamp, limit = header.base_offset, header.base_timestamp, len(data)
    position = 0
    make = _Skimmed._make
    try:
        for _ in range(header.records_count):
            start = position
            low, high = data[position], data[position + 1]
            if low >= 0x80 > high and not low & 1:
                position += 2
                end = position + ((low & 0x7F | high << 7) >> 1)
            else:
                size, position = _varint(data, position)
                end = position + size
            byte = data[position + 1]
            if byte < 0x80:
                delta, rest = (byte >> 1) ^ -(byte & 1), position + 2
            else:
                delta, rest = _varint(data, position + 1)
            low, high = data[rest], data[rest + 1]
            if low < 0x80:
                offset_delta, position = low >> 1, rest + 1
            elif high < 0x80:
                offset_delta, position = (low & 0x7F | high << 7) >> 1, rest + 2
            else:
                offset_delta, position = _varint(data, rest)
            byte = data[position]
            if byte < 0x80:
                key_size, position = (byte >> 1) ^ -(byte & 1), position + 1
            else:
                key_size, position = _varint(data, position)
            key = None
            if key_size >= 0:
                key = data[position : position + key_size]
                position += key_size
            if not start < position < end <= limit:
                raise CorruptBatch(f"a record of the batch at offset {base_offset} does not end where it says")
            is_tombstone = bool(data[position] & 1)  # the value's size: zig-zag keeps the sign in the lowest bit
            yield make((base_offset + offset_delta, base_timestamp + delta, key, is_tombstone, start, rest, end))
            position = end
    except IndexError:
        raise CorruptBatch(f"the batch at offset {base_offset} ends within a record") from None


def _varint(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, shift = byte & 0x7F, 7
    while True:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7


def _rebuilt(header: BatchHeader, data: bytes, kept: list[_Skimmed], horizon: int | None) -> bytes:
    """The same batch with these records.  A new delete horizon takes the place of the base timestamp, so all deltas change with it."""
    base_timestamp = header.base_timestamp
    attributes = header.attributes
    if horizon is None:
        records = b"".join([data[record.start : record.end] for record in kept])
    else:
        records = b"".join([_with_delta(data, record, record.timestamp - horizon) for record in kept])
        base_timestamp = horizon
        attributes |= DELETE_HORIZON
    max_timestamp = header.max_timestamp if attributes & LOG_APPEND_TIME else max(record.timestamp for record in kept)
    payload = compress(Codec(attributes & CODEC_MASK), records)
    return _sealed(header, payload, attributes, base_timestamp, max_timestamp, count=len(kept))


def _with_delta(data: bytes, record: _Skimmed, delta: int) -> bytes:
    body = b"\0" + encode_varint(delta) + data[record.rest : record.end]
    return encode_varint(len(body)) + body


def _emptied(header: BatchHeader) -> bytes:
    """Only what a producer's state needs: offsets, sequence, epoch."""
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return _sealed(header, b"", attributes, header.max_timestamp, header.max_timestamp, count=0)


def _sealed(
    header: BatchHeader, payload: bytes | bytearray | memoryview, attributes: int, base_timestamp: int, max_timestamp: int, *, count: int
) -> bytes:
    batch = bytearray(
        HEADER.pack(
            header.base_offset,
            HEADER_SIZE - LOG_OVERHEAD + len(payload),
            header.partition_leader_epoch,
            MAGIC,
            0,
            attributes,
            header.last_offset_delta,
            base_timestamp,
            max(max_timestamp, NO_TIMESTAMP),
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            count,
        )
    )
    batch += payload
    with memoryview(batch)[CRC_START:] as covered:
        crc = crc32c(covered)
    _CRC.pack_into(batch, _CRC_AT, crc)
    return bytes(batch)


# -------------------------------------------------------------------- swapping in, on the loop


def install(log: Log, result: CleaningResult, now_ms: int) -> bool:
    """Put the cleaned segments in place of the old ones.  False when the log changed its past meanwhile: then they are thrown away.

    Errors: OSError.
    """
    bases = {segment.base_offset for segment in log.segments}
    if log.truncations != result.truncations:
        discard(log.files, log.directory, result)
        return False
    for group in result.groups:
        if bases.issuperset(group.replaced):
            _swap(log, group, now_ms)
        else:  # retention was faster: its segments are gone
            discard(log.files, log.directory, result._replace(groups=(group,)))
    return True


def _swap(log: Log, group: CleanedGroup, now_ms: int) -> None:
    cleaned = Segment.open(
        log.files,
        log.directory,
        group.base_offset,
        index_interval_bytes=log.config.index_interval_bytes,
        now_ms=now_ms,
        suffix=CLEANED_SUFFIX,
    )
    cleaned.rename_suffix(SWAP_SUFFIX)
    log.files.sync_dir(log.directory)
    log.replace_segments(group.replaced, cleaned, now_ms)


def discard(files: Files, directory: str, result: CleaningResult) -> None:
    """Cleaned segments that are not wanted."""
    for group in result.groups:
        path = f"{directory}/{group.base_offset:020d}.log{CLEANED_SUFFIX}"
        if files.exists(path):
            Segment.open(files, directory, group.base_offset, index_interval_bytes=0, now_ms=0, suffix=CLEANED_SUFFIX).delete_files()
