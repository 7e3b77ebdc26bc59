"""● The loop around `RaftNode`: it owns the log of `__cluster_metadata-0`, the file `quorum-state` and the folder of snapshots.

    propose ─▶ node ─▶ append to the page cache, at once ─▶ one fdatasync for all that waits, off the loop ─▶ high watermark
                                                                                    └─▶ listener.committed, then whoever awaits the offset

Guarantees: an election is on the disk before it is acted on; a listener sees every committed batch once, in order, first the newest
snapshot and what the log holds after it; who awaits `wait_for_commit` is woken after the listener has seen the batch.  When the disk fails
nothing is committed any more: `on_failure` is told, everyone who waits gets KAFKA_STORAGE_ERROR.

What lies below the newest snapshot was on stable storage; after it a torn tail is cut off at the start, as Kafka does.  A whole batch that
contradicts the checkpoint of epochs is no torn tail: such a start is refused.  (A follower, which truncates, must sync a truncation before
it goes on.)  Source: KafkaRaftClient, KafkaMetadataLog, FileQuorumStateStore; KIP-595, 630.  Called by `server/node.py`; its listener is
`metadata/loader.py`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.control import ControlType, build_control_batch, parse_control_key
from moldau.raft.config import QuorumConfig
from moldau.raft.control import control_value, parse_control_value
from moldau.raft.node import Entry, LeaderChange, Proposal, RaftNode, Resign, Synced, Tick, count_committed
from moldau.raft.records import KRaftVersionRecord, LeaderChangeMessage, LeaderChangeMessageVoter, VotersRecord
from moldau.raft.roles import CorruptQuorumState, ElectionState
from moldau.raft.snapshot_folder import SnapshotFolder
from moldau.raft.snapshots import Snapshot, build_snapshot
from moldau.raft.voters import Address, VoterSet
from moldau.storage.config import LogConfig
from moldau.storage.files import Files
from moldau.storage.log import Log
from moldau.storage.producer_state import AppendOrigin
from moldau.storage.segment import delete_files_of
from moldau.storage.validator import AppendFailure
from moldau.types import METADATA_TOPIC, METADATA_TOPIC_ID, OffsetAndEpoch, TopicPartition, uuid_to_text

LOG: Final = logging.getLogger(__name__)

METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
QUORUM_STATE: Final = "quorum-state"
PARTITION_METADATA: Final = "partition.metadata"
ROOM_CHECK_MS: Final = 1000
"""How often metadata that a full disk did not take is tried again."""
READ_BYTES: Final = 1 << 20
MAX_BATCH_BYTES: Final = 8 << 20
"""As in Kafka: a proposal is written, sent and replayed in one go."""


class CommittedBatch(NamedTuple):
    """One batch of the machine's records, in order.  Control batches come with no records: they too move the offset."""

    base_offset: int
    epoch: int
    timestamp_ms: int
    records: Sequence[bytes | memoryview]
    next_offset: int
    """Exclusive."""
    size: int


class QuorumStatus(NamedTuple):
    """What DescribeQuorum tells; offsets are exclusive."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: VoterSet
    end_offsets: Mapping[int, int]
    observers: Mapping[int, int]
    now_ms: int


class Listener(Protocol):
    """The machine that the log drives."""

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Sequence[bytes]) -> None:
        """Everything below the snapshot's offset."""
        ...

    def committed(self, batches: Sequence[CommittedBatch]) -> None: ...

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """Told when this node leads and everything before its epoch has been seen, and when somebody else leads or nobody does."""
        ...


class RaftDriver:
    """See the module.  `start` once, `stop` once."""

    def __init__(
        self,
        *,
        files: Files,
        clock: Clock,
        directory: str,
        node_id: int,
        directory_id: UUID,
        config: QuorumConfig,
        static_voters: VoterSet | None = None,
        addresses: tuple[Address, ...] = (),
        on_failure: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """`directory` is the metadata log directory; the partition's folder is inside it.  `addresses`: where this node listens as a voter,
        if the log is to be corrected by them."""
        self.files: Final = files
        self.clock: Final = clock
        self.directory: Final = f"{directory}/{METADATA_PARTITION}"
        self.node_id: Final = node_id
        self.directory_id: Final = directory_id
        self.config: Final = config
        self.snapshots: Final = SnapshotFolder(files, self.directory)
        self.kraft_version = 0
        self.log: Log
        self.node: RaftNode
        self.bytes_since_snapshot = 0
        self.last_append_ms = -1
        self.failure: Exception | None = None
        self._static_voters: Final = static_voters
        self._addresses: Final = addresses
        self._on_failure: Final = on_failure
        self._listener: Listener
        self._unwritten: deque[Entry] = deque()
        self._room_check: asyncio.TimerHandle | None = None
        self._appended: deque[tuple[Entry, int]] = deque()
        """Appended and not yet committed, with their size."""
        self._delivered = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_leader_told = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    # ---------------------------------------------------------------- what is

    @property
    def high_watermark(self) -> int:
        """Exclusive; 0 while none is known."""
        return self.node.high_watermark or 0

    @property
    def is_leader(self) -> bool:
        return self.node.is_leader and self._is_leader_told and self.failure is None

    @property
    def is_lone_voter(self) -> bool:
        """This node alone decides, so it leads as soon as its vote is on the disk."""
        return self.node.voters.is_only(self.node_id, self.directory_id)

    def status(self) -> QuorumStatus | None:
        """None where no leader is known."""
        if not self.is_leader:
            return None
        ends = {self.node_id: self.log.log_end_offset}
        return QuorumStatus(self.node_id, self.node.epoch, self.high_watermark, self.node.voters, ends, {}, self.clock.now_ms())

    # ---------------------------------------------------------------- life

    async def start(self, listener: Listener) -> None:
        """Open, recover, load, and elect.  Errors: CorruptQuorumState, CorruptSnapshot, LogDamaged, OSError."""
        self._listener = listener
        loaded = await self.files.run(self._open)
        voters = self._static_voters or VoterSet()
        if loaded is not None:
            snapshot_id, snapshot = loaded
            self.kraft_version = snapshot.kraft_version
            voters = snapshot.voters or voters
            listener.load_snapshot(snapshot_id, snapshot.last_contained_log_timestamp, snapshot.records)
            self._delivered = snapshot_id.offset
        written = await self.files.run(self._voters_in_log, voters)
        voters = written.listening_at(self._addresses, self.node_id, self.directory_id) if self._addresses else written
        last_epoch = max(self.log.epochs.latest_epoch, loaded[0].epoch if loaded is not None else 0, 0)
        self.node = RaftNode(
            node_id=self.node_id,
            directory_id=self.directory_id,
            voters=voters,
            has_written_voters=voters == written and self.log.log_end_offset > 0,
            kraft_version=self.kraft_version,
            election=self._read_election(last_epoch),
            end_offset=self.log.log_end_offset,
            last_epoch=last_epoch,
        )
        self.node.step(Tick(), self.clock.now_ms())
        self._task = asyncio.get_running_loop().create_task(self._run(), name="raft")

    async def stop(self) -> None:
        """What was proposed is on the disk afterwards, if it has room; what waits and was not committed gets NOT_CONTROLLER."""
        self.node.step(Resign(), self.clock.now_ms())
        if self._room_check is not None:
            self._room_check.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._refuse_waiting(KafkaError(ErrorCode.NOT_CONTROLLER, "The controller is shutting down."))
        await self.files.run(self.log.close)

    def propose(self, records: Sequence[bytes]) -> int:
        """Append one atomic batch; the offset after it (exclusive), to `wait_for_commit`.

        Errors: KafkaError NOT_CONTROLLER, KAFKA_STORAGE_ERROR, POLICY_VIOLATION for more than `MAX_BATCH_BYTES`.
        """
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))
        if sum(map(len, records)) > MAX_BATCH_BYTES:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        if self._unwritten:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"There is no room for metadata in {self.directory}.")
        end = self.node.step(Proposal(tuple(records)), self.clock.now_ms())
        if isinstance(end, ErrorCode) or end is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        self._append_ready()
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))
        return end

    async def wait_for_commit(self, offset: int) -> None:
        """Until everything below `offset` (exclusive) is committed and the listener has seen it.

        Errors: KafkaError NOT_CONTROLLER, KAFKA_STORAGE_ERROR.
        """
        if offset <= self._delivered:
            return
        if self.failure is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(self.failure))
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        assert not self._waiting or self._waiting[-1][0] <= offset, "who asks later waits for more"
        self._waiting.append((offset, future))
        await future

    # ---------------------------------------------------------------- the loop

    async def _run(self) -> None:
        try:
            while True:
                await self._persist_election()
                self._append_ready()
                await self._sync()
                if self.node.ready().election is None and self.log.is_flushed:
                    self._wake.clear()
                    await self._wake.wait()
        except Exception as error:  # a disk that fails, or a machine that cannot replay: nobody must wait for what will not come
            self._fail(error)

    async def _persist_election(self) -> None:
        while (ready := self.node.ready()).election is not None:
            data = ready.election.to_json(self.kraft_version, tuple(self.node.voters.by_id))
            await self.files.run(self.files.write_atomically, f"{self.directory}/{QUORUM_STATE}", data)
            self.node.advance(ready, self.clock.now_ms())

    def _append_ready(self) -> None:
        """Entries into the page cache, at once: offsets are given in the order of the proposals."""
        ready = self.node.ready()
        if not ready.entries or ready.election is not None:
            return
        self._unwritten += ready.entries
        self.node.advance(ready, self.clock.now_ms())
        self._append_unwritten()

    def _append_unwritten(self) -> None:
        """All of them; those that the disk has no room for wait until it has."""
        while self._unwritten:
            entry = self._unwritten[0]
            batch = self._encode(entry)
            done = self.log.append_as_leader(batch, leader_epoch=entry.epoch, now_ms=entry.timestamp_ms, origin=AppendOrigin.RAFT_LEADER)
            if isinstance(done, AppendFailure):
                if done.error is ErrorCode.KAFKA_STORAGE_ERROR and self.log.failure is None:
                    if self._room_check is None:
                        LOG.error("%s: metadata waits for room, and no more is taken until then.  Make room", done.detail)
                    self._room_check = asyncio.get_running_loop().call_later(ROOM_CHECK_MS / 1000, self._append_unwritten)
                else:
                    self._fail(KafkaError(done.error, done.detail))
                return
            assert (done.first_offset, done.last_offset) == (entry.base_offset, entry.next_offset - 1), f"{done} for {entry.base_offset}"
            self._unwritten.popleft()
            self._appended.append((entry, len(batch)))
            self.last_append_ms = entry.timestamp_ms
        self._room_check = None
        self._wake.set()

    async def _sync(self) -> None:
        """Group commit: one sync for all that was appended while the one before it ran."""
        if self.log.is_flushed:
            return
        flush = self.log.begin_flush()
        await self.files.run(flush.sync)
        self.node.step(Synced(self.log.end_flush(flush)), self.clock.now_ms())
        ready = self.node.ready()
        if ready.high_watermark is not None:
            assert not ready.entries and ready.election is None, "a leader's entries are appended when they are proposed"
            self.node.advance(ready, self.clock.now_ms())
            self._deliver(ready.high_watermark)

    def _deliver(self, high_watermark: int) -> None:
        """Tell the listener, then those who wait."""
        self.log.update_high_watermark(high_watermark)
        if self._appended and self._delivered < self._appended[0][0].base_offset:
            self._deliver_from_log(self._appended[0][0].base_offset)
        count = count_committed([entry for entry, _ in self._appended], high_watermark)
        done = [self._appended.popleft() for _ in range(count)]
        if done:
            self._listener.committed([_as_committed(entry, size) for entry, size in done])
            self.bytes_since_snapshot += sum(size for _, size in done)
            self._delivered = done[-1][0].next_offset
        if self.node.is_leader and not self._is_leader_told:
            self._is_leader_told = True
            self._listener.leader_changed(self.node_id, self.node.epoch)
        while self._waiting and self._waiting[0][0] <= self._delivered:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def _deliver_from_log(self, end_offset: int) -> None:
        """What lay in the log when this process started."""
        while self._delivered < end_offset:
            found: list[CommittedBatch] = []
            for batch in self._read_batches(self._delivered, end_offset):
                found.append(batch)
                self._delivered = batch.next_offset
            assert found, f"the log has nothing at {self._delivered}, below {end_offset}"
            self._listener.committed(found)
            self.bytes_since_snapshot += sum(batch.size for batch in found)

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
            self.node.step(Resign(), self.clock.now_ms())
            self._refuse_waiting(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
            self._on_failure(error)

    def _refuse_waiting(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)

    # ---------------------------------------------------------------- bytes

    def _encode(self, entry: Entry) -> bytearray:
        if not isinstance(entry.payload, LeaderChange):
            return build_batch(NewRecord(entry.timestamp_ms, None, record) for record in entry.payload)
        change = entry.payload
        message = LeaderChangeMessage(
            version=0,
            leader_id=change.leader_id,
            voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in change.voters],
            granting_voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in change.granting_voters],
        )
        records = [(ControlType.LEADER_CHANGE, control_value(message))]
        if change.kraft_version is not None:
            version = KRaftVersionRecord(version=0, kraft_version=change.kraft_version)
            records.append((ControlType.KRAFT_VERSION, control_value(version)))
            records.append((ControlType.KRAFT_VOTERS, control_value(self.node.voters.to_record())))
        return build_control_batch(records, timestamp_ms=entry.timestamp_ms)

    def _read_batches(self, offset: int, end_offset: int) -> list[CommittedBatch]:
        data = self.log.read(offset, READ_BYTES, limit_offset=end_offset)
        if isinstance(data, ErrorCode) or data.records is None:
            raise KafkaError(data if isinstance(data, ErrorCode) else ErrorCode.OFFSET_OUT_OF_RANGE, f"{METADATA_PARTITION} at {offset}")
        found = []
        view = memoryview(data.records.read())
        for position, header in batches(view):
            if header.next_offset <= offset:
                continue
            batch = view[position : position + header.size]
            records = [] if header.is_control else [record.value for record in records_of(batch) if record.value is not None]
            found.append(
                CommittedBatch(
                    header.base_offset, header.partition_leader_epoch, header.max_timestamp, records, header.next_offset, header.size
                )
            )
        return found

    # ---------------------------------------------------------------- files

    def _open(self) -> tuple[OffsetAndEpoch, Snapshot] | None:
        """Opens the log and reads the newest snapshot.  Blocks."""
        self.files.mkdir(self.directory)
        self.snapshots.open()
        newest = self.snapshots.newest
        start = newest.offset if newest is not None else 0
        oldest = self.snapshots.ids[0].offset if newest is not None else 0
        self.log = Log.open(
            self.files,
            self.directory,
            METADATA_PARTITION,
            self._log_config(),
            now_ms=self.clock.now_ms(),
            recovery_point=start,
            log_start_offset=oldest,
            topic_id=METADATA_TOPIC_ID,
            is_never_truncated=True,
        )
        flush = self.log.begin_flush()  # what recovery cut off must not come back behind what is appended now
        flush.sync()
        self.log.end_flush(flush)
        if self.log.log_end_offset < start:
            self.log.truncate_fully_and_start_at(start, self.clock.now_ms())
        self._write_partition_metadata()
        return (newest, self.snapshots.read(newest)) if newest is not None else None

    def _log_config(self) -> LogConfig:
        """Segments by metadata.log.*; what goes is decided here, by snapshots, never by age or size of the log alone."""
        return LogConfig.load(
            {
                "log.segment.bytes": str(self.config.segment_bytes),
                "log.roll.ms": str(self.config.segment_ms),
                "message.max.bytes": str(MAX_BATCH_BYTES),
                "log.retention.ms": "-1",
                "log.retention.bytes": "-1",
            }
        )

    def _write_partition_metadata(self) -> None:
        path = f"{self.directory}/{PARTITION_METADATA}"
        if not self.files.exists(path):
            self.files.write_atomically(path, f"version: 0\ntopic_id: {uuid_to_text(METADATA_TOPIC_ID)}".encode("ascii"))

    def _read_election(self, last_epoch: int) -> ElectionState:
        """`last_epoch` is the log's: an election is on the disk before anything of its epoch."""
        path = f"{self.directory}/{QUORUM_STATE}"
        if not self.files.exists(path):
            return ElectionState()
        try:
            election = ElectionState.from_json(self.files.read(path))
            if election.epoch < last_epoch:
                raise CorruptQuorumState(f"it says epoch {election.epoch}, the log has {last_epoch}")
        except CorruptQuorumState as error:
            raise CorruptQuorumState(f"{path}: {error}; bring it back from a backup: without it this node could vote twice") from error
        return election

    def _voters_in_log(self, voters: VoterSet) -> VoterSet:
        """The newest voter set that the log holds after the snapshot, and its kraft.version.  Blocks."""
        offset = self._delivered
        while offset < self.log.log_end_offset:
            data = self.log.read(offset, READ_BYTES)
            if isinstance(data, ErrorCode) or data.records is None:
                break
            view = memoryview(data.records.read())
            for position, header in batches(view):
                offset = max(offset, header.next_offset)
                if not header.is_control:
                    continue
                for record in records_of(view[position : position + header.size]):
                    message = parse_control_value(parse_control_key(record.key).type, record.value)
                    if isinstance(message, KRaftVersionRecord):
                        self.kraft_version = message.kraft_version
                    elif isinstance(message, VotersRecord):
                        voters = VoterSet.from_record(message)
        return voters

    # ---------------------------------------------------------------- snapshots

    async def write_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Callable[[], Sequence[bytes]]) -> None:
        """A snapshot of everything below `snapshot_id.offset`; `records` encodes them, in a thread, from what no longer changes.

        Old snapshots, and the log before those that stay, go by metadata.max.retention.*.
        """
        if self.snapshots.newest is not None and snapshot_id <= self.snapshots.newest:
            return
        self.bytes_since_snapshot = 0
        await self.files.run(self._write_snapshot, snapshot_id, timestamp_ms, records)
        self.snapshots.ids.append(snapshot_id)
        await self._retire_snapshots()

    def _write_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Callable[[], Sequence[bytes]]) -> None:
        parts = build_snapshot(
            records(),
            epoch=snapshot_id.epoch,
            now_ms=self.clock.now_ms(),
            last_contained_log_timestamp=timestamp_ms,
            kraft_version=self.kraft_version,
            voters=self.node.voters if self.kraft_version > 0 else None,
        )
        self.snapshots.write(snapshot_id, parts)

    async def _retire_snapshots(self) -> None:
        """The log then begins with the oldest that stays."""
        now_ms = self.clock.now_ms()
        while len(self.snapshots.ids) > 1:
            is_large = self.log.size + self.snapshots.total_size() > self.config.max_retention_bytes
            if not is_large and not self.snapshots.is_oldest_older_than(self.config.max_retention_ms, now_ms):
                break
            retired = self.snapshots.retire_oldest()
            self.log.raise_log_start_offset(self.snapshots.ids[0].offset)
            await self.files.run(self.files.unlink, retired)
        self.log.delete_old_segments(now_ms)
        await self.files.run(delete_files_of, self.log.due_segments(now_ms))


def _as_committed(entry: Entry, size: int) -> CommittedBatch:
    records = () if isinstance(entry.payload, LeaderChange) else entry.payload
    return CommittedBatch(entry.base_offset, entry.epoch, entry.timestamp_ms, records, entry.next_offset, size)
