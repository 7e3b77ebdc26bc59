"""● The files of one replica of the metadata log: the log of `__cluster_metadata-0`, the folder of its snapshots, and `quorum-state`.

Everything below the newest snapshot was on stable storage.  At the start a torn tail after it is cut off, as in Kafka, and fetched again.
A lone voter never truncates: there a whole batch that contradicts the checkpoint of epochs is no torn tail, and the start is refused.  The
voters are those that the snapshot and the log after it tell of: both the first and the last of several voters were alone once.
Source: KafkaRaftLog, FileQuorumStateStore; KIP-630.  Called by `driver.py`.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, Final
from uuid import UUID

from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.batch import batches
from moldau.raft.config import QuorumConfig
from moldau.raft.history import FORMATTED, LogHistory, VoterChange
from moldau.raft.listener import CommittedBatch
from moldau.raft.log_bytes import METADATA_PARTITION, batch_of, committed_batches
from moldau.raft.messages import Batch, FetchSnapshotAnswer
from moldau.raft.roles import CorruptQuorumState, ElectionState
from moldau.raft.snapshot_folder import SnapshotFolder
from moldau.raft.snapshots import Snapshot, build_snapshot
from moldau.raft.voters import VoterSet
from moldau.storage.config import LogConfig
from moldau.storage.files import Files
from moldau.storage.log import Log
from moldau.storage.recovery import base_offset_of
from moldau.storage.segment import LOG_SUFFIX, Segment, delete_files_of
from moldau.storage.verification import BadBatch, verified
from moldau.types import METADATA_TOPIC_ID, OffsetAndEpoch, uuid_to_text

LOG: Final = logging.getLogger(__name__)

QUORUM_STATE: Final = "quorum-state"
PARTITION_METADATA: Final = "partition.metadata"
READ_BYTES: Final = 1 << 20
MAX_BATCH_BYTES: Final = 8 << 20
"""The most bytes of a batch, as in Kafka: a proposal is written, sent and replayed in one go."""
LOST_VOTES: Final = (
    "{path} is missing, and the log is not: node {node} does not know how it voted, so it follows and votes no more.  Bring the file back "
    "from a backup, or make a new voter of it: remove voter {node} with directory {directory}, format the folder, and add it again"
)


class ReplicaLog:
    """See the module.  `open` first: it makes `log`."""

    def __init__(
        self,
        *,
        files: Files,
        clock: Clock,
        directory: str,
        node_id: int,
        directory_id: UUID,
        config: QuorumConfig,
        static_voters: VoterSet | None,
    ) -> None:
        """`directory` is the partition's folder."""
        self.directory: Final = directory
        self.snapshots: Final = SnapshotFolder(files, directory)
        self.log: Log
        self._files: Final = files
        self._clock: Final = clock
        self._node_id: Final = node_id
        self._directory_id: Final = directory_id
        self._config: Final = config
        self._static_voters: Final = static_voters

    @property
    def election_path(self) -> str:
        return f"{self.directory}/{QUORUM_STATE}"

    def open(self) -> tuple[OffsetAndEpoch, Snapshot] | None:
        """Opens the log and reads the newest snapshot.  Blocks."""
        self._files.mkdir(self.directory)
        self.snapshots.open()
        newest = self.snapshots.newest
        snapshot = None if newest is None else self.snapshots.read(newest)
        formatted = self._static_voters if snapshot is None or snapshot.voters is None else snapshot.voters
        start = newest.offset if newest is not None else 0
        is_to_go = self.snapshots.fetched is not None  # a crash came before all of the log was gone
        self.log = Log.open(
            self._files,
            self.directory,
            METADATA_PARTITION,
            self._log_config(),
            now_ms=self._clock.now_ms(),
            recovery_point=0 if is_to_go else start,
            log_start_offset=self.snapshots.ids[0].offset if newest is not None and not is_to_go else 0,
            topic_id=METADATA_TOPIC_ID,
            is_never_truncated=lambda: not is_to_go and self._is_alone(start, formatted or VoterSet()),
        )
        self._sync()  # records that recovery cut off must not come back behind new appends
        if newest is not None and (is_to_go or self._parts_from(newest)):
            self.log.truncate_fully_and_start_at(start, self._clock.now_ms())
            self._sync()
        self.snapshots.log_is_replaced()
        self._write_partition_metadata()
        return None if newest is None or snapshot is None else (newest, snapshot)

    def _is_alone(self, offset: int, voters: VoterSet) -> bool:
        """Whether this node is the only voter, by the newest voters in the files from `offset` on, of whatever epochs; else by `voters`."""
        bases = (base_offset_of(name, LOG_SUFFIX) for name in self._files.listdir(self.directory))
        for base_offset in sorted(base for base in bases if base is not None):
            segment = Segment.open(self._files, self.directory, base_offset, index_interval_bytes=1, now_ms=0)
            with suppress(BadBatch), closing(segment):
                for position, header in verified(segment, base_offset):
                    if header.is_control and header.base_offset >= offset:
                        voters = batch_of(header, memoryview(segment.batch_at(position, header))).voters or voters
        return voters.is_only(self._node_id, self._directory_id)

    def _sync(self) -> None:
        flush = self.log.begin_flush()
        flush.sync()
        self.log.end_flush(flush)

    def _parts_from(self, snapshot_id: OffsetAndEpoch) -> bool:
        """Whether a snapshot was fetched in place of this log, and a crash came before the log was removed."""
        before = [entry.epoch for entry in self.log.epochs.entries if entry.start_offset < snapshot_id.offset]
        return bool(before) and before[-1] != snapshot_id.epoch

    def history(self, loaded: tuple[OffsetAndEpoch, Snapshot] | None) -> LogHistory:
        """The history of the loaded log.  Blocks."""
        snapshot_id = OffsetAndEpoch(0, 0) if loaded is None else loaded[0]
        change = VoterChange(FORMATTED, self._static_voters or VoterSet(), 0)
        if loaded is not None:
            snapshot = loaded[1]
            offset = FORMATTED if snapshot_id.offset == 0 else snapshot_id.offset - 1
            change = VoterChange(offset, snapshot.voters or change.voters, snapshot.kraft_version)
        log_start_offset = self.log.log_start_offset
        start = next((one for one in self.snapshots.ids if one.offset == log_start_offset), OffsetAndEpoch(log_start_offset, 0))
        history = LogHistory(
            start=start,
            newest_snapshot=snapshot_id,
            end_offset=self.log.log_end_offset,
            epochs=[(entry.epoch, entry.start_offset) for entry in self.log.epochs.entries],
            changes=[change],
        )
        for batch in self._batches_from(snapshot_id.offset):
            if batch.voters is not None or batch.kraft_version is not None:
                history.change_voters(batch.base_offset, batch.voters, batch.kraft_version)
        return history

    def _batches_from(self, offset: int) -> Iterator[Batch]:
        while offset < self.log.log_end_offset:
            data = self.log.read(offset, READ_BYTES)
            if isinstance(data, ErrorCode) or data.records is None:
                return
            view = memoryview(data.records.read())
            for position, header in batches(view):
                if header.next_offset > offset:
                    yield batch_of(header, view[position : position + header.size])
                    offset = header.next_offset

    def _log_config(self) -> LogConfig:
        """The options of the log: segments by metadata.log.*.  Snapshots decide what is deleted, never the log's age or size alone."""
        return LogConfig.load(
            {
                "log.segment.bytes": str(self._config.segment_bytes),
                "log.roll.ms": str(self._config.segment_ms),
                "message.max.bytes": str(MAX_BATCH_BYTES),
                "log.retention.ms": "-1",
                "log.retention.bytes": "-1",
            }
        )

    def _write_partition_metadata(self) -> None:
        path = f"{self.directory}/{PARTITION_METADATA}"
        if not self._files.exists(path):
            self._files.write_atomically(path, f"version: 0\ntopic_id: {uuid_to_text(METADATA_TOPIC_ID)}".encode("ascii"))

    def election(self, history: LogHistory) -> tuple[ElectionState, bool]:
        """The election, and whether this node may vote.

        An election is on the disk before anything of its epoch, so the file cannot be behind the log.
        A replica that has a log but lost the file may have voted in any epoch.  It follows and votes no more, unless it is the only voter.
        """
        path = self.election_path
        if not self._files.exists(path):
            is_new = history.end_offset == 0 and history.start.offset == 0
            may_vote = is_new or history.voters.is_only(self._node_id, self._directory_id)
            if not may_vote and history.voters.is_voter(self._node_id, self._directory_id):
                LOG.error(LOST_VOTES.format(path=path, node=self._node_id, directory=uuid_to_text(self._directory_id)))
            return ElectionState(), may_vote
        try:
            election = ElectionState.from_json(self._files.read(path))
            if election.epoch < history.last_epoch:
                raise CorruptQuorumState(f"it says epoch {election.epoch}, the log has {history.last_epoch}")
        except CorruptQuorumState as error:
            raise CorruptQuorumState(f"{path}: {error}; bring it back from a backup: without it this node could vote twice") from error
        return election, True

    def records_from(self, offset: int, max_bytes: int) -> Any:
        if offset >= self.log.log_end_offset:
            return None  # what waits for room
        data = self.log.read(offset, max_bytes)
        if isinstance(data, ErrorCode):
            LOG.error("%s cannot be read at offset %d: %s", METADATA_PARTITION, offset, data.name)
            return None
        return data.records

    def snapshot_part(self, answer: FetchSnapshotAnswer, max_bytes: int) -> tuple[FetchSnapshotAnswer, Any]:
        if answer.snapshot_id not in self.snapshots.ids:
            return answer._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND), None
        try:
            size, part = self.snapshots.read_part(answer.snapshot_id, answer.position, max_bytes)
        except OSError as error:
            LOG.error("a snapshot cannot be read: %s", error)
            return answer._replace(error=ErrorCode.SNAPSHOT_NOT_FOUND), None
        if not 0 <= answer.position < size:
            return answer._replace(error=ErrorCode.POSITION_OUT_OF_RANGE), None
        return answer._replace(size=size), part

    def batches(self, offset: int, end_offset: int) -> list[CommittedBatch]:
        data = self.log.read(offset, READ_BYTES, limit_offset=end_offset)
        if isinstance(data, ErrorCode) or data.records is None:
            raise KafkaError(data if isinstance(data, ErrorCode) else ErrorCode.OFFSET_OUT_OF_RANGE, f"{METADATA_PARTITION} at {offset}")
        return committed_batches(memoryview(data.records.read()), offset)

    def write_snapshot(
        self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Callable[[], Sequence[bytes]], change: VoterChange
    ) -> None:
        parts = build_snapshot(
            records(),
            epoch=snapshot_id.epoch,
            now_ms=self._clock.now_ms(),
            last_contained_log_timestamp=timestamp_ms,
            kraft_version=change.kraft_version,
            voters=change.voters if change.kraft_version > 0 else None,
        )
        self.snapshots.write(snapshot_id, parts)

    async def retire_snapshots(self) -> None:
        """Retire old snapshots.  The log then begins with the oldest remaining one."""
        now_ms = self._clock.now_ms()
        while len(self.snapshots.ids) > 1:
            is_large = self.log.size + self.snapshots.total_size() > self._config.max_retention_bytes
            if not is_large and not self.snapshots.is_oldest_older_than(self._config.max_retention_ms, now_ms):
                break
            retired = self.snapshots.retire_oldest()
            self.log.raise_log_start_offset(self.snapshots.ids[0].offset)
            await self._files.run(self._files.unlink, retired)
        self.log.delete_old_segments(now_ms)
        await self._files.run(delete_files_of, self.log.due_segments(now_ms))

    def replace(self, snapshot_id: OffsetAndEpoch) -> None:
        """Replace the log by a fetched snapshot."""
        self.log.truncate_fully_and_start_at(snapshot_id.offset, self._clock.now_ms())
        self.snapshots.ids = sorted({*self.snapshots.ids, snapshot_id})
        while self.snapshots.ids[0] != snapshot_id:
            self._files.unlink(self.snapshots.retire_oldest())
