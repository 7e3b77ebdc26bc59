"""◇ The state of a log's producers: sequences, epochs, open transactions; and its snapshot files.

Guarantees: a batch that is among a producer's last five is answered with its old offset and not stored again; a gap in the sequence, an
older epoch, a zombie coordinator are refused; the first unstable offset never passes a transaction that is open or whose marker is not yet
below the high watermark.  State follows from the log alone: replaying the batches after a snapshot gives the same state.

Snapshot file `%020d.snapshot` (offset exclusive), version 1:

    int16 version, uint32 CRC-32C of all that follows, int32 count, then 46 bytes a producer:
    int64 id, int16 epoch, int32 last sequence, int64 last offset, int32 offset delta, int64 timestamp, int32 coordinator epoch,
    int64 first offset of the open transaction

Source: KIP-98, KIP-890; ProducerStateManager, ProducerAppendInfo, ProducerStateEntry, VerificationStateEntry.
"""

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from moldau.errors import ErrorCode
from moldau.protocol.records.batch import BatchHeader
from moldau.storage.files import Files
from moldau.types import NO_OFFSET, NO_PRODUCER_EPOCH, NO_SEQUENCE

MAX_SEQUENCE: Final = (1 << 31) - 1
BATCHES_KEPT: Final = 5
SNAPSHOT_SUFFIX: Final = ".snapshot"
SNAPSHOT_HEAD: Final = Struct(">hIi")
SNAPSHOT_ENTRY: Final = Struct(">qhiqiqiq")
CRC_END: Final = 6


class AppendOrigin(IntEnum):
    """The origin of an append; it decides which checks are made."""

    CLIENT = 0
    COORDINATOR = 1
    RAFT_LEADER = 2
    REPLICATION = 3


class StoredBatch(NamedTuple):
    """One of the last five: enough to recognise it and to answer its repetition."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int

    @classmethod
    def of(cls, header: BatchHeader) -> "StoredBatch":
        return cls(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp)


class ProducerEntry:
    """One producer.  `batches` is oldest first; `transaction_first_offset` is -1 outside of a transaction.

    `is_recalled`: the log holds no more of its last batches than `batches` does.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "is_recalled",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.transaction_first_offset = NO_OFFSET
        self.is_recalled = True
        self.batches: list[StoredBatch] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def take_epoch(self, epoch: int) -> None:
        if epoch != self.producer_epoch:
            self.producer_epoch = epoch
            self.batches.clear()


class Refusal(NamedTuple):
    error: ErrorCode
    detail: str


class VerificationGuard:
    """Stands for one verification in flight; only the same object passes."""

    __slots__ = ()


class _Verification:
    """A producer's state while its transaction is being verified with the coordinator (KIP-890)."""

    __slots__ = ("guard", "lowest_sequence", "producer_epoch", "since_ms", "supports_epoch_bump")

    def __init__(self, since_ms: int, sequence: int, producer_epoch: int, *, supports_epoch_bump: bool) -> None:
        self.guard = VerificationGuard()
        self.since_ms = since_ms
        self.lowest_sequence = sequence
        self.producer_epoch = producer_epoch
        self.supports_epoch_bump = supports_epoch_bump

    def note(self, sequence: int, producer_epoch: int) -> None:
        if producer_epoch > self.producer_epoch or (producer_epoch == self.producer_epoch and sequence < self.lowest_sequence):
            self.lowest_sequence = sequence
            self.producer_epoch = producer_epoch


class CompletedTransaction(NamedTuple):
    """`last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class EndMarker(NamedTuple):
    """The content of a transaction marker."""

    is_abort: bool
    coordinator_epoch: int


class CorruptSnapshot(Exception):
    """A producer snapshot that cannot be used; the state is rebuilt from the log instead."""


class ProducerStates:
    """All producers of one log."""

    def __init__(self, name: str) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        self.open_transactions: dict[int, int] = {}
        """First offset → producer id, oldest first."""
        self.unreplicated: dict[int, int] = {}
        """First offset → offset of the marker, of completed transactions whose marker may still be lost."""
        self.end_offset = 0
        """Exclusive: batches below it are in this state."""
        self.first_unstable_offset: int | None = None
        self._name = name
        self._verifications: dict[int, _Verification] = {}

    def __len__(self) -> int:
        return len(self.producers)

    # deciding: nothing changes

    def duplicate_of(self, header: BatchHeader) -> StoredBatch | None:
        """The stored batch that a client sends again."""
        entry = self.producers.get(header.producer_id)
        if entry is None or entry.producer_epoch != header.producer_epoch:
            return None
        for batch in entry.batches:
            if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                return batch
        return None

    def half_known(self, header: BatchHeader) -> ProducerEntry | None:
        """The sender of `header` where it came of a snapshot, which tells of the last batch only, and the log has not been asked yet."""
        entry = self.producers.get(header.producer_id)
        is_asked_for = entry is not None and not entry.is_recalled and entry.producer_epoch == header.producer_epoch
        return entry if is_asked_for and entry is not None and len(entry.batches) < BATCHES_KEPT else None

    def refusal_of(
        self, header: BatchHeader, origin: AppendOrigin, guard: VerificationGuard | None = None, *, verify: bool = False
    ) -> Refusal | None:
        """Why a batch of data must not be appended.

        Errors: INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_TXN_STATE.
        """
        if origin is AppendOrigin.REPLICATION:
            return None  # the leader has decided
        entry = self.producers.get(header.producer_id)
        if verify and header.is_transactional and not self._is_verified(header, guard):
            return Refusal(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")
        if entry is not None and header.producer_epoch < entry.producer_epoch:
            return Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, self._says(header, "epoch", header.producer_epoch, entry.producer_epoch))
        if origin is AppendOrigin.CLIENT:
            wrong = self._wrong_sequence(entry, header)
            if wrong is not None:
                return wrong
        if entry is not None and entry.transaction_first_offset >= 0 and not header.is_transactional:
            return Refusal(ErrorCode.INVALID_TXN_STATE, f"Expected transactional write from producer {header.producer_id} in {self._name}")
        return None

    def marker_refusal_of(
        self, header: BatchHeader, marker: EndMarker, origin: AppendOrigin, *, transaction_version: int = 0
    ) -> Refusal | None:
        """Why a transaction marker must not be appended.  From transaction version 2 on a marker carries a newer epoch than the data.

        Errors: INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None or origin is AppendOrigin.REPLICATION:
            return None
        too_old = header.producer_epoch < entry.producer_epoch
        if transaction_version >= 2 and header.producer_epoch == entry.producer_epoch:
            too_old = entry.transaction_first_offset >= 0  # the repetition of a marker that is written already is fine
        if too_old:
            return Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, self._says(header, "epoch", header.producer_epoch, entry.producer_epoch))
        if marker.coordinator_epoch < entry.coordinator_epoch:
            return Refusal(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                self._says(header, "coordinator epoch", marker.coordinator_epoch, entry.coordinator_epoch),
            )
        return None

    # replaying: the only changes

    def append(self, header: BatchHeader) -> None:
        """A batch of data is in the log, `header` with its final offsets."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_id, header.producer_epoch)
        elif entry.producer_epoch != header.producer_epoch:
            entry.take_epoch(header.producer_epoch)
        batches = entry.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(StoredBatch.of(header))
        entry.last_timestamp = header.max_timestamp
        if header.is_transactional and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = header.base_offset
            self.open_transactions[header.base_offset] = header.producer_id
            if self.first_unstable_offset is None:
                self.first_unstable_offset = header.base_offset
        if self._verifications and header.is_transactional:
            self._verifications.pop(header.producer_id, None)

    def complete(self, header: BatchHeader, marker: EndMarker) -> CompletedTransaction | None:
        """A marker is in the log.  None when no transaction was open here."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_id, header.producer_epoch)
        entry.take_epoch(header.producer_epoch)
        first_offset, entry.transaction_first_offset = entry.transaction_first_offset, NO_OFFSET
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.base_timestamp
        self._end_verification(header)
        if first_offset < 0:
            return None
        return CompletedTransaction(header.producer_id, first_offset, header.base_offset, marker.is_abort)

    def last_stable_offset_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset after `completed` has ended, for the transaction index.  Call this before `settle`."""
        for first_offset, producer_id in self.open_transactions.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def settle(self, completed: CompletedTransaction) -> None:
        """Its marker waits for the high watermark from now on."""
        del self.open_transactions[completed.first_offset]
        self.unreplicated[completed.first_offset] = completed.last_offset

    def high_watermark_moved(self, high_watermark: int) -> None:
        if self.unreplicated:
            self.unreplicated = {first: last for first, last in self.unreplicated.items() if last >= high_watermark}
            self.note_first_unstable()

    def note_first_unstable(self) -> None:
        first = next(iter(self.open_transactions), None)
        if self.unreplicated:
            oldest = min(self.unreplicated)
            first = oldest if first is None else min(first, oldest)
        self.first_unstable_offset = first

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget who has been silent for `expiration_ms` and has nothing open.  How many went."""
        expired = [
            producer_id
            for producer_id, entry in self.producers.items()
            if entry.transaction_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        self._verifications = {
            producer_id: waiting for producer_id, waiting in self._verifications.items() if now_ms - waiting.since_ms < expiration_ms
        }
        return len(expired)

    def clear(self, end_offset: int) -> None:
        self.producers.clear()
        self.open_transactions.clear()
        self.unreplicated.clear()
        self._verifications.clear()
        self.first_unstable_offset = None
        self.end_offset = end_offset

    # verification of transactions with their coordinator (KIP-890)

    def has_open_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the producer has an open transaction of that epoch.

        A transaction that an earlier epoch left open waits for its marker, and takes no more records.
        """
        entry = self.producers.get(producer_id)
        return entry is not None and entry.transaction_first_offset >= 0 and entry.producer_epoch == producer_epoch

    def begin_verification(
        self, producer_id: int, sequence: int, producer_epoch: int, now_ms: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        """The guard to append with once the coordinator has said yes; None when the transaction is open here already."""
        if self.has_open_transaction(producer_id, producer_epoch):
            return None
        waiting = self._verifications.get(producer_id)
        if waiting is None:
            waiting = _Verification(now_ms, sequence, producer_epoch, supports_epoch_bump=supports_epoch_bump)
            self._verifications[producer_id] = waiting
        waiting.note(sequence, producer_epoch)
        return waiting.guard

    # snapshots

    def snapshot(self) -> bytes:
        """The content of a snapshot file at `end_offset`."""
        body = bytearray(SNAPSHOT_HEAD.size - CRC_END)
        for entry in self.producers.values():
            last = entry.batches[-1] if entry.batches else None
            body += SNAPSHOT_ENTRY.pack(
                entry.producer_id,
                entry.producer_epoch,
                last.last_sequence if last else NO_SEQUENCE,
                last.last_offset if last else NO_OFFSET,
                last.last_offset - last.first_offset if last else 0,
                entry.last_timestamp,
                entry.coordinator_epoch,
                entry.transaction_first_offset,
            )
        body[: SNAPSHOT_HEAD.size - CRC_END] = len(self.producers).to_bytes(4, "big")
        return b"\0\1" + crc32c(body).to_bytes(4, "big") + body

    def restore(self, raw: bytes, end_offset: int) -> None:
        """Errors: CorruptSnapshot."""
        entries = _parse_snapshot(raw)
        self.clear(end_offset)
        for entry in entries:
            self.producers[entry.producer_id] = entry
        opened = sorted((entry.transaction_first_offset, entry.producer_id) for entry in entries if entry.transaction_first_offset >= 0)
        self.open_transactions.update(opened)
        self.note_first_unstable()

    # below the surface

    def _end_verification(self, marker: BatchHeader) -> None:
        """A marker ends a verification, unless it is of the transaction before.

        From transaction version 2 on a marker carries the epoch of the producer's next transaction, and the producer begins that one before
        all markers are written.  Source: UnifiedLog.updateProducers.
        """
        waiting = self._verifications.get(marker.producer_id)
        if waiting is not None and not (waiting.supports_epoch_bump and waiting.producer_epoch == marker.producer_epoch):
            del self._verifications[marker.producer_id]

    def _is_verified(self, header: BatchHeader, guard: VerificationGuard | None) -> bool:
        if self.has_open_transaction(header.producer_id, header.producer_epoch):
            return True
        waiting = self._verifications.get(header.producer_id)
        return waiting is not None and guard is waiting.guard

    def _wrong_sequence(self, entry: ProducerEntry | None, header: BatchHeader) -> Refusal | None:
        sequence = header.base_sequence
        waiting = self._verifications.get(header.producer_id) if self._verifications else None
        if waiting is not None:
            must_begin = waiting.supports_epoch_bump and (entry is None or not entry.batches) and sequence != 0
            if must_begin or sequence > waiting.lowest_sequence:
                expected = 0 if must_begin else waiting.lowest_sequence
                return Refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, self._says(header, "sequence", sequence, expected))
        if entry is None or entry.producer_epoch == NO_PRODUCER_EPOCH:
            return None  # nobody remembers this producer: it may start anywhere
        last = entry.last_sequence if entry.producer_epoch == header.producer_epoch else NO_SEQUENCE
        if sequence == last + 1 or (sequence == 0 and last == MAX_SEQUENCE):
            return None
        return Refusal(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, self._says(header, "sequence", sequence, last))

    def _says(self, header: BatchHeader, what: str, came: int, known: int) -> str:
        return f"Producer {header.producer_id} epoch {header.producer_epoch} in {self._name}: {what} {came} came, {known} is the last known"


def _parse_snapshot(raw: bytes) -> list[ProducerEntry]:
    if len(raw) < SNAPSHOT_HEAD.size:
        raise CorruptSnapshot(f"{len(raw)} bytes are too few")
    version, crc, count = SNAPSHOT_HEAD.unpack_from(raw)
    if version != 1:
        raise CorruptSnapshot(f"version {version} is unknown")
    if crc != crc32c(memoryview(raw)[CRC_END:]):
        raise CorruptSnapshot("the CRC does not fit")
    if len(raw) != SNAPSHOT_HEAD.size + count * SNAPSHOT_ENTRY.size:
        raise CorruptSnapshot(f"{count} producers do not fit in {len(raw)} bytes")
    return [_entry_of(numbers) for numbers in SNAPSHOT_ENTRY.iter_unpack(memoryview(raw)[SNAPSHOT_HEAD.size :])]


def _entry_of(numbers: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = numbers
    entry = ProducerEntry(producer_id, epoch)
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.transaction_first_offset = max(first_offset, NO_OFFSET)
    if last_offset >= 0:
        first_sequence = last_sequence - offset_delta
        if first_sequence < 0 and last_sequence >= 0:
            first_sequence += MAX_SEQUENCE + 1
        entry.batches.append(StoredBatch(first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp))
        entry.is_recalled = False
    return entry


def load_snapshot(files: Files, path: str, states: ProducerStates, end_offset: int) -> None:
    """Errors: CorruptSnapshot."""
    try:
        states.restore(files.read(path), end_offset)
    except CorruptSnapshot as error:
        raise CorruptSnapshot(f"{path}: {error}") from None
