"""● The loop around `RaftNode`: it owns the log of `__cluster_metadata-0`, the file `quorum-state`, the folder of snapshots, and the
connections to the other replicas.

    propose, requests, responses, time ─▶ node ─▶ election to the disk ─▶ log (page cache, at once) ─▶ messages and answers
                          one fdatasync for all that waits, off the loop ─▶ node ─▶ high watermark ─▶ listener, then whoever awaits it

Guarantees: an election is on the disk before anything that rests on it leaves this node; a listener sees every committed batch once, in
order, first the newest snapshot and what the log holds after it; who awaits `wait_for_commit` is woken after the listener has seen the
batch.  Messages are taken while a sync runs; an answer waits for no sync but that of its own election.  When the disk fails nothing is
committed any more: `on_failure` is told, everyone who waits gets KAFKA_STORAGE_ERROR, and the voters are told to elect another leader.
A disk that is full costs a leader its office where there is another voter.

What lies below the newest snapshot was on stable storage; after it a torn tail is cut off at the start, as Kafka does, and fetched again.
Where only this node votes nothing is ever truncated: there a whole batch that contradicts the checkpoint of epochs is no torn tail, and
such a start is refused.  Source: KafkaRaftClient, KafkaRaftLog, FileQuorumStateStore; KIP-595, 630, 853.  Called by
`server/node/node.py`; its listener is `metadata/loader.py`.

A broker without a controller runs the same driver as an observer: its (id, directory) is in no set of voters, so it only fetches.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from moldau.background import in_background
from moldau.clock import Clock
from moldau.config import ConfigError
from moldau.errors import ErrorCode, KafkaError
from moldau.net.transport import Network
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest
from moldau.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from moldau.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from moldau.protocol.records.batch import BatchHeader, CorruptBatch, batches, records_of, verify_crc
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.control import ControlType, build_control_batch, parse_control_key
from moldau.protocol.wire import DecodeError, Response
from moldau.raft.config import QuorumConfig
from moldau.raft.control import control_value, parse_control_value
from moldau.raft.events import (
    Answered,
    Chance,
    Entry,
    Fetched,
    LeaderChange,
    Lost,
    Proposal,
    Ready,
    Received,
    Reply,
    Resign,
    Send,
    SnapshotChunk,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotWritten,
    Synced,
    Tick,
    Timeouts,
    Upgrade,
    VotersChange,
)
from moldau.raft.history import FORMATTED, LogHistory, VoterChange
from moldau.raft.messages import (
    AddVoter,
    AskVersions,
    Batch,
    ChangeAnswer,
    EndEpoch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    RaftAnswer,
    RaftRequest,
    RemoveVoter,
    UpdateVoter,
)
from moldau.raft.node import RaftNode
from moldau.raft.peers import Peers
from moldau.raft.records import KRaftVersionRecord, LeaderChangeMessage, LeaderChangeMessageVoter, VotersRecord
from moldau.raft.roles import NEVER, CorruptQuorumState, ElectionState, Leader, Resigned
from moldau.raft.snapshot_folder import SnapshotFolder
from moldau.raft.snapshots import CorruptSnapshot, Snapshot, build_snapshot
from moldau.raft.voter_wire import VoterRequest, parse_voter_request, parse_voter_response, voter_request_of, voter_response_to
from moldau.raft.voters import Address, HostPort, ReplicaKey, VoterSet
from moldau.raft.wire import ReplicaRequest, Unreadable, parse_request, parse_response, request_of, response_to
from moldau.storage.config import LogConfig
from moldau.storage.files import Files, is_shortage
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
"""How often what a full disk did not take is tried again."""
READ_BYTES: Final = 1 << 20
MAX_BATCH_BYTES: Final = 8 << 20
"""As in Kafka: a proposal is written, sent and replayed in one go."""
MAX_SNAPSHOT_BYTES: Final = 8 << 30
"""More is no snapshot of metadata."""


class CommittedBatch(NamedTuple):
    """One batch of the machine's records, in order.  Control batches come with no records: they too move the offset."""

    base_offset: int
    epoch: int
    timestamp_ms: int
    records: Sequence[bytes | memoryview]
    next_offset: int
    """Exclusive."""
    size: int


class ReplicaStatus(NamedTuple):
    """One that has the log or fetches it.  Times are of the wall clock, -1 for never."""

    key: ReplicaKey
    end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


class QuorumStatus(NamedTuple):
    """What DescribeQuorum tells; offsets are exclusive."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: VoterSet
    replicas: Sequence[ReplicaStatus]
    """The voters."""
    observers: Sequence[ReplicaStatus]


class Listener(Protocol):
    """The machine that the log drives."""

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Sequence[bytes]) -> None:
        """Everything below the snapshot's offset; also in mid-life, in place of all that was told before."""
        ...

    def committed(self, batches: Sequence[CommittedBatch]) -> None: ...

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """Told when another node leads or nobody does (-1), and when this node leads and everything before its epoch has been seen."""
        ...

    def caught_up(self) -> None:
        """Told once: all that was committed when this node learned of it first has been seen."""
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
        network: Network | None = None,
        chance: Chance | None = None,
        cluster_id: str = "",
        listener_name: str = "CONTROLLER",
    ) -> None:
        """`directory` is the metadata log directory; the partition's folder is inside it.

        `addresses`: where this node listens as a voter, by which the log is corrected; empty for an observer.  `listener_name`: the first
        of controller.listener.names, by which voters are reached.  Without `network` nobody is asked anything: for a node that is alone.
        """
        self.files: Final = files
        self.clock: Final = clock
        self.directory: Final = f"{directory}/{METADATA_PARTITION}"
        self.node_id: Final = node_id
        self.directory_id: Final = directory_id
        self.config: Final = config
        self.snapshots: Final = SnapshotFolder(files, self.directory)
        self.log: Log
        self.node: RaftNode
        self.bytes_since_snapshot = 0
        self.last_append_ms = -1
        self.failure: Exception | None = None
        self._static_voters: Final = static_voters
        self._addresses: Final = addresses
        self._on_failure: Final = on_failure
        self._chance: Final = chance or Random()
        self._cluster_id: Final = cluster_id
        self._listener_name: Final = listener_name
        self._peers: Final = None if network is None else Peers(network, client_id=f"raft-{node_id}", timeout_ms=config.request_timeout_ms)
        self._listener: Listener
        self._delivered = 0
        self._is_caught_up = False
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_leader_told = False
        self._tokens = 0
        self._requests: dict[int, tuple[ReplicaRequest | VoterRequest, int, asyncio.Future[Response]]] = {}
        self._unwritten: deque[Entry] = deque()
        self._retry: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = NEVER
        self._is_working = False
        self._persisting: asyncio.Task[None] | None = None
        self._installing: asyncio.Task[None] | None = None
        self._unsynced = asyncio.Event()
        self._changed = asyncio.Event()
        self._syncing: asyncio.Task[None] | None = None

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
        return self.node.is_lone_voter

    @property
    def kraft_version(self) -> int:
        return self.node.kraft_version

    def status(self) -> QuorumStatus | None:
        """None where this node does not lead."""
        role = self.node.role
        if not self.is_leader or not isinstance(role, Leader):
            return None
        now_ms, to_wall_ms = self.clock.now_ms(), self.clock.now_ms() - self.clock.monotonic_ms()
        voting = {voter.key: ReplicaStatus(voter.key, -1, -1, -1) for voter in self.node.voters.by_id.values()}
        observing: dict[ReplicaKey, ReplicaStatus] = {}
        for key, known in role.replicas.items():
            times = [at + to_wall_ms if at >= 0 else -1 for at in (known.last_fetch_ms, known.last_caught_up_ms)]
            if key.id == self.node_id:
                times = [now_ms, now_ms]
            end_offset = self.log.log_end_offset if key.id == self.node_id else known.end_offset
            told = voting if key in voting else observing
            told[key] = ReplicaStatus(ReplicaKey(key.id, known.directory_id), end_offset, *times)
        return QuorumStatus(
            self.node_id, self.node.epoch, self.high_watermark, self.node.voters, tuple(voting.values()), tuple(observing.values())
        )

    # ---------------------------------------------------------------- life

    async def start(self, listener: Listener) -> None:
        """Open, recover, load, and take part.  Errors: CorruptQuorumState, CorruptSnapshot, LogDamaged, OSError."""
        self._listener = listener
        loaded = await self.files.run(self._open)
        if loaded is not None:
            snapshot_id, snapshot = loaded
            listener.load_snapshot(snapshot_id, snapshot.last_contained_log_timestamp, snapshot.records)
            self._delivered = snapshot_id.offset
        history = await self.files.run(self._read_history, loaded)
        election, may_vote = self._read_election(history)
        config = self.config
        self.node = RaftNode(
            ReplicaKey(self.node_id, self.directory_id),
            history,
            election=election,
            chance=self._chance,
            now_ms=self.clock.monotonic_ms(),
            timeouts=Timeouts(
                election_ms=config.election_timeout_ms,
                fetch_ms=config.fetch_timeout_ms,
                election_backoff_max_ms=config.election_backoff_max_ms,
                request_ms=config.request_timeout_ms,
                retry_backoff_ms=config.retry_backoff_ms,
            ),
            may_vote=may_vote,
            may_join=config.auto_join_enable and bool(self._addresses),
            listener_name=self._listener_name,
            addresses=self._addresses,
            bootstrap=parse_bootstrap(config.bootstrap_servers),
        )
        self._syncing = in_background(self._sync_for_ever(), name="raft sync")
        self._step(Tick())

    async def stop(self) -> None:
        """A leader asks the others to elect one of them and waits for their answer a while.

        What was proposed is on the disk afterwards, if it has room; what waits and was not committed gets NOT_CONTROLLER.
        """
        was_leader = self.node.is_leader
        if self.failure is None:
            self._step(Resign())
        if was_leader and self._peers is not None:
            await self._until_told()
        await self._end_tasks()
        if self.failure is None:
            self.failure = KafkaError(ErrorCode.NOT_CONTROLLER, "The controller is shutting down.")
        self._refuse_waiting(KafkaError(ErrorCode.NOT_CONTROLLER, "The controller is shutting down."))
        self._refuse_requests()
        await self.files.run(self.log.close)

    async def abandon(self) -> None:
        """As a crash would: nothing more is written, told or answered."""
        self.failure = self.failure or KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "abandoned")
        await self._end_tasks()

    async def _end_tasks(self) -> None:
        for timer in (self._timer, self._retry):
            if timer is not None:
                timer.cancel()
        tasks = [task for task in (self._persisting, self._syncing, self._installing) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._peers is not None:
            await self._peers.close()

    async def _until_told(self) -> None:
        """Every voter that can be reached knows that it may stand."""
        with_patience = asyncio.get_running_loop().time() + self.config.request_timeout_ms / 1000
        while isinstance(role := self.node.role, Resigned) and len(role.told) < len(self.node.voters) - self.node.is_voter:
            self._changed.clear()
            try:
                async with asyncio.timeout_at(with_patience):
                    await self._changed.wait()
            except TimeoutError:
                return

    def propose(self, records: Sequence[bytes]) -> int:
        """Append one atomic batch; the offset after it (exclusive), to `wait_for_commit`.

        Errors: KafkaError NOT_CONTROLLER, KAFKA_STORAGE_ERROR, POLICY_VIOLATION for more than `MAX_BATCH_BYTES`, or INVALID_REQUEST for
        no records or too many.
        """
        self._check_failure()
        if sum(map(len, records)) > MAX_BATCH_BYTES:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        if self._unwritten:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"There is no room for metadata in {self.directory}.")
        end = self._step(Proposal(tuple(records)))
        if isinstance(end, ErrorCode) or end is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER if end is ErrorCode.NOT_LEADER_OR_FOLLOWER or end is None else end)
        self._check_failure()
        if end > self.node.end_offset:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"There is no room for metadata in {self.directory}.")
        return end

    def _check_failure(self) -> None:
        if self.failure is not None:
            code = self.failure.code if isinstance(self.failure, KafkaError) else ErrorCode.KAFKA_STORAGE_ERROR
            raise KafkaError(code, str(self.failure))

    async def wait_for_commit(self, offset: int) -> None:
        """Until everything below `offset` (exclusive) is committed and the listener has seen it.

        Errors: KafkaError NOT_CONTROLLER when another leads meanwhile, KAFKA_STORAGE_ERROR.
        """
        if offset <= self._delivered:
            return
        self._check_failure()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        assert not self._waiting or self._waiting[-1][0] <= offset, "who asks later waits for more"
        self._waiting.append((offset, future))
        await future

    # ---------------------------------------------------------------- requests of other replicas

    async def change_voters(self, request: VoterRequest) -> Response:
        """AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter.  Errors: KafkaError BROKER_NOT_AVAILABLE."""
        self._refuse_after_failure()
        message = parse_voter_request(request, cluster_id=self._cluster_id)
        if isinstance(message, ChangeAnswer):
            return voter_response_to(request, message)
        return await self._ask_node(message, request, 0)

    def upgrade_kraft_version(self) -> int:
        """From voters of the options to voters of the log: the offset after the records that say so, to `wait_for_commit`.

        Errors: KafkaError NOT_CONTROLLER, REQUEST_TIMED_OUT, INVALID_UPDATE_VERSION while not every voter has said who and where it is.
        """
        self._check_failure()
        end = self._step(Upgrade())
        if isinstance(end, ErrorCode) or end is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER if end in (None, ErrorCode.NOT_LEADER_OR_FOLLOWER) else ErrorCode.of(end))
        return end

    async def handle(self, request: ReplicaRequest, version: int) -> Response:
        """Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch of the metadata log, FetchSnapshot.  Errors: KafkaError BROKER_NOT_AVAILABLE."""
        self._refuse_after_failure()
        try:
            message = parse_request(request, version, cluster_id=self._cluster_id)
        except Unreadable as refusal:
            return refusal.response
        return await self._ask_node(message, request, version)

    def _refuse_after_failure(self) -> None:
        if self.failure is not None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, str(self.failure))

    async def _ask_node(self, message: RaftRequest, request: ReplicaRequest | VoterRequest, version: int) -> Response:
        self._tokens += 1
        token = self._tokens
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._requests[token] = request, version, future
        try:
            self._step(Received(token, message))
            return await future
        finally:
            self._requests.pop(token, None)

    def _reply(self, reply: Reply) -> None:
        waiting = self._requests.pop(reply.token, None)
        if waiting is None or waiting[2].done():
            return
        request, version, future = waiting
        answer: RaftAnswer = reply.answer
        records: Any = None
        if isinstance(answer, FetchAnswer) and answer.read_from >= 0:
            records = self._read(answer.read_from, self.config.fetch_max_bytes)
        elif isinstance(answer, FetchSnapshotAnswer) and isinstance(request, FetchSnapshotRequest) and answer.error is ErrorCode.NONE:
            answer, records = self._snapshot_bytes(answer, min(request.max_bytes, self.config.fetch_snapshot_max_bytes))
        if isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest):
            future.set_result(voter_response_to(request, answer))
        else:
            future.set_result(response_to(request, answer, version, records))

    def _read(self, offset: int, max_bytes: int) -> Any:
        if offset >= self.log.log_end_offset:
            return None  # what waits for room
        data = self.log.read(offset, max_bytes)
        if isinstance(data, ErrorCode):
            LOG.error("%s cannot be read at offset %d: %s", METADATA_PARTITION, offset, data.name)
            return None
        return data.records

    def _snapshot_bytes(self, answer: FetchSnapshotAnswer, max_bytes: int) -> tuple[FetchSnapshotAnswer, Any]:
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

    # ---------------------------------------------------------------- the loop

    def _step(self, event: Any) -> int | ErrorCode | None:
        if self.failure is not None:
            return None
        try:
            result = self.node.step(event, self.clock.monotonic_ms())
            self._work()
        except Exception as error:  # a machine that cannot go on, or replay: nobody must wait for what will not come
            self._fail(error)
            return None
        return result

    def _tick(self) -> None:
        self._timer, self._timer_due_ms = None, NEVER
        self._step(Tick())

    def _work(self) -> None:
        """Carries out what is ready, until an election has to reach the disk first."""
        if self._is_working or self._persisting is not None:
            return
        self._is_working = True
        try:
            while self.failure is None:
                ready = self.node.ready()
                if ready.election is not None:
                    self._persisting = in_background(self._persist(ready), name="raft election")
                    return
                is_empty = ready.is_empty
                self._carry_out(ready)
                self.node.advance(ready, self.clock.monotonic_ms())
                if is_empty:
                    break
        finally:
            self._is_working = False
        self._changed.set()
        self._set_timer()

    async def _persist(self, ready: Ready) -> None:
        assert ready.election is not None
        try:
            data = ready.election.to_json(self.kraft_version, tuple(self.node.voters.by_id))
            await self._until_room(self.files.write_atomically, f"{self.directory}/{QUORUM_STATE}", data)
            self._carry_out(ready)
            self.node.advance(ready, self.clock.monotonic_ms())
            self._persisting = None
            self._step(Tick())
        except Exception as error:
            self._persisting = None
            self._fail(error)

    async def _until_room(self, write: Callable[[str, bytes], None], path: str, data: bytes) -> None:
        """On a full disk a vote has to wait; whoever asked for it asks again, or another."""
        while True:
            try:
                await self.files.run(write, path, data)
                return
            except OSError as error:
                if not is_shortage(error):
                    raise
                LOG.error("%s: this node takes no part in elections until there is room", error)
                await asyncio.sleep(ROOM_CHECK_MS / 1000)

    def _carry_out(self, ready: Ready) -> None:
        if ready.truncate_to is not None:
            LOG.warning("%s is truncated to offset %d: what lay behind it was never committed", METADATA_PARTITION, ready.truncate_to)
            self.log.truncate_to(ready.truncate_to, self.clock.now_ms())
            self._unsynced.set()
        self._append(list(ready.entries))
        for chunk in ready.snapshot_chunks:
            self._take_chunk(chunk)
        if ready.leader is not None:
            self._leader_changed(*ready.leader)
        if ready.high_watermark is not None:
            self._deliver(ready.high_watermark)
        for send in ready.sends:
            self._send(send)
        for reply in ready.replies:
            self._reply(reply)

    def _set_timer(self) -> None:
        due_ms = self.node.next_due_ms
        if due_ms == self._timer_due_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_due_ms = None, due_ms
        if due_ms < NEVER:
            delay_ms = max(due_ms - self.clock.monotonic_ms(), 0)
            self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._tick)

    def _send(self, send: Send) -> None:
        if self._peers is None:
            self._answer_later(send, None)
            return
        if isinstance(send.request, AddVoter | RemoveVoter | UpdateVoter | AskVersions):
            asked = voter_request_of(send.request, self._cluster_id)
            self._peers.send(send.at, asked, partial(self._responded, send))
            return
        is_snapshot = isinstance(send.request, FetchSnapshot)
        max_bytes = self.config.fetch_snapshot_max_bytes if is_snapshot else self.config.fetch_max_bytes
        request = request_of(send.request, cluster_id=self._cluster_id, listener_name=self._listener_name, max_bytes=max_bytes)
        self._peers.send(send.at, request, partial(self._responded, send))

    def _answer_later(self, send: Send, answer: RaftAnswer | None) -> None:
        asyncio.get_running_loop().call_soon(self._step, Answered(send.to, send.number, answer))

    def _responded(self, send: Send, response: Response | None, is_refused: bool) -> None:
        answer = None if response is None else parse_voter_response(response) or parse_response(response)
        if isinstance(answer, FetchAnswer) and answer.records is not None and len(answer.records):
            answer = self._examined(answer, send)
        self._step(Answered(send.to, send.number, answer, is_refused))

    def _examined(self, answer: FetchAnswer, send: Send) -> FetchAnswer | None:
        """The batches that came whole; None where they are not what a leader sends."""
        assert isinstance(answer.records, bytes | bytearray | memoryview)
        view = memoryview(answer.records)
        found: list[Batch] = []
        end = 0
        try:
            for position, header in batches(view):
                batch = view[position : position + header.size]
                if not verify_crc(view, position, header):
                    raise CorruptBatch(f"the batch at offset {header.base_offset} does not match its checksum")
                found.append(_batch(header, batch))
                end = position + header.size
        except (CorruptBatch, DecodeError, KeyError) as error:
            LOG.error("what %s:%d sent of %s cannot be read, and is fetched again: %s", *send.at, METADATA_PARTITION, error)
            return None
        return answer._replace(batches=tuple(found), records=view[:end])

    # ---------------------------------------------------------------- the log

    def _append(self, entries: Sequence[Entry | Fetched]) -> None:
        """Into the page cache, at once: offsets are given in the order of the proposals."""
        for entry in entries:
            if isinstance(entry, Entry):
                self._unwritten.append(entry)
            elif not self._append_fetched(entry):
                return
        if self._retry is None:
            self._append_unwritten()

    def _append_fetched(self, entry: Fetched) -> bool:
        assert isinstance(entry.records, bytes | bytearray | memoryview)
        done = self.log.append_as_follower(memoryview(entry.records), entry.epoch)
        if isinstance(done, AppendFailure):
            if not self._is_full(done):
                raise KafkaError(done.error, done.detail)
            LOG.error("%s: metadata is fetched again when there is room", done.detail)
            self.node.step(Lost(self.log.log_end_offset), self.clock.monotonic_ms())
            return False
        assert self.log.log_end_offset == entry.next_offset, f"{done} for {entry.base_offset}"
        self._unsynced.set()
        return True

    def _is_full(self, failure: AppendFailure) -> bool:
        return failure.error is ErrorCode.KAFKA_STORAGE_ERROR and self.log.failure is None

    def _append_unwritten(self) -> None:
        """All of them.  Those that the disk has no room for: who votes alone lets them wait until it has, another resigns."""
        while self._unwritten:
            entry = self._unwritten[0]
            now_ms = self.clock.now_ms()
            batch = self._encode(entry, now_ms)
            done = self.log.append_as_leader(batch, leader_epoch=entry.epoch, now_ms=now_ms, origin=AppendOrigin.RAFT_LEADER)
            if isinstance(done, AppendFailure):
                if not self._is_full(done):
                    raise KafkaError(done.error, done.detail)
                self._no_room(done)
                return
            assert (done.first_offset, done.last_offset) == (entry.base_offset, entry.next_offset - 1), f"{done} for {entry.base_offset}"
            self._unwritten.popleft()
            self.last_append_ms = now_ms
            self._unsynced.set()
        self._retry = None

    def _no_room(self, failure: AppendFailure) -> None:
        if self.node.is_lone_voter:
            if self._retry is None:
                LOG.error("%s: metadata waits for room, and no more is taken until then.  Make room", failure.detail)
            self._retry = asyncio.get_running_loop().call_later(ROOM_CHECK_MS / 1000, self._try_again)
        else:
            LOG.error("%s: this node leads the metadata no more.  Make room", failure.detail)
            self._unwritten.clear()
            self.node.step(Lost(self.log.log_end_offset), self.clock.monotonic_ms())

    def _try_again(self) -> None:
        if self.failure is None:
            try:
                self._append_unwritten()
            except KafkaError as error:
                self._fail(error)

    async def _sync_for_ever(self) -> None:
        """Group commit: one sync for all that was appended while the one before it ran."""
        try:
            while True:
                await self._unsynced.wait()
                self._unsynced.clear()
                flush = self.log.begin_flush()
                await self.files.run(flush.sync)
                if self._persisting is not None:
                    await asyncio.wait([self._persisting])
                if flush.truncations != self.log.truncations:
                    self._unsynced.set()
                    continue
                self._step(Synced(min(self.log.end_flush(flush), self.node.end_offset)))
        except Exception as error:
            self._fail(error)

    # ---------------------------------------------------------------- what the listener is told

    def _leader_changed(self, leader_id: int, epoch: int) -> None:
        self._is_leader_told = False
        if leader_id == self.node_id:
            return  # told once it has seen everything before its epoch
        self._refuse_waiting(
            KafkaError(ErrorCode.NOT_CONTROLLER, "Another controller may lead by now: whether the change stands is not known.")
        )
        self._listener.leader_changed(leader_id, epoch)

    def _deliver(self, high_watermark: int) -> None:
        """Tell the listener, then those who wait."""
        self.log.update_high_watermark(high_watermark)
        self._deliver_from_log(high_watermark)
        catch_up_offset = self.node.catch_up_offset
        if not self._is_caught_up and catch_up_offset is not None and self._delivered >= catch_up_offset:
            self._is_caught_up = True
            self._listener.caught_up()
        role = self.node.role
        if isinstance(role, Leader) and not self._is_leader_told and self._delivered > role.epoch_start_offset:
            self._is_leader_told = True
            self._listener.leader_changed(self.node_id, self.node.epoch)
        while self._waiting and self._waiting[0][0] <= self._delivered:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def _deliver_from_log(self, end_offset: int) -> None:
        while self._delivered < end_offset:
            found = self._read_batches(self._delivered, end_offset)
            if not found:
                return  # a follower's offset within a batch: the rest of it is committed with it
            self._listener.committed(found)
            self._delivered = found[-1].next_offset
            self.bytes_since_snapshot += sum(batch.size for batch in found)

    def _fail(self, error: Exception) -> None:
        if self.failure is not None:
            return
        self.failure = error
        self.node.step(Resign(), self.clock.monotonic_ms())
        for send in self.node.ready().sends:
            if isinstance(send.request, EndEpoch):
                self._send(send)
        self._refuse_waiting(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        self._refuse_requests()
        self._on_failure(error)

    def _refuse_waiting(self, error: KafkaError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)

    def _refuse_requests(self) -> None:
        for _, _, future in self._requests.values():
            if not future.done():
                future.set_exception(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, str(self.failure)))

    # ---------------------------------------------------------------- bytes

    def _encode(self, entry: Entry, now_ms: int) -> bytearray:
        payload = entry.payload
        match payload:
            case LeaderChange():
                message = LeaderChangeMessage(
                    version=0,
                    leader_id=payload.leader_id,
                    voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in payload.voters],
                    granting_voters=[LeaderChangeMessageVoter(voter_id=voter) for voter in payload.granting_voters],
                )
                records = [(ControlType.LEADER_CHANGE, control_value(message))]
                voters, kraft_version = payload.written, None if payload.written is None else payload.kraft_version
            case VotersChange():
                records, voters, kraft_version = [], payload.voters, payload.kraft_version
            case _:
                return build_batch(NewRecord(now_ms, None, record) for record in payload)
        if kraft_version is not None:
            version = KRaftVersionRecord(version=0, kraft_version=kraft_version)
            records.append((ControlType.KRAFT_VERSION, control_value(version)))
        if voters is not None:
            records.append((ControlType.KRAFT_VOTERS, control_value(voters.to_record())))
        return build_control_batch(records, timestamp_ms=now_ms)

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
        snapshot = None if newest is None else self.snapshots.read(newest)
        voters = self._static_voters if snapshot is None or snapshot.voters is None else snapshot.voters
        start = newest.offset if newest is not None else 0
        self.log = Log.open(
            self.files,
            self.directory,
            METADATA_PARTITION,
            self._log_config(),
            now_ms=self.clock.now_ms(),
            recovery_point=start,
            log_start_offset=self.snapshots.ids[0].offset if newest is not None else 0,
            topic_id=METADATA_TOPIC_ID,
            is_never_truncated=voters is not None and voters.is_only(self.node_id, self.directory_id),
        )
        flush = self.log.begin_flush()  # what recovery cut off must not come back behind what is appended now
        flush.sync()
        self.log.end_flush(flush)
        if newest is not None and (self.log.log_end_offset < start or self._parts_from(newest)):
            self.log.truncate_fully_and_start_at(start, self.clock.now_ms())
        self._write_partition_metadata()
        return None if newest is None or snapshot is None else (newest, snapshot)

    def _parts_from(self, snapshot_id: OffsetAndEpoch) -> bool:
        """A snapshot was fetched in place of this log, and a crash came before the log went."""
        before = [entry.epoch for entry in self.log.epochs.entries if entry.start_offset < snapshot_id.offset]
        return bool(before) and before[-1] != snapshot_id.epoch

    def _read_history(self, loaded: tuple[OffsetAndEpoch, Snapshot] | None) -> LogHistory:
        """Blocks."""
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
                    yield _batch(header, view[position : position + header.size])
                    offset = header.next_offset

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

    def _read_election(self, history: LogHistory) -> tuple[ElectionState, bool]:
        """And whether this node may vote.  An election is on the disk before anything of its epoch: the file cannot be behind the log.

        A replica with a log that has lost the file may have voted in any epoch: it follows and votes no more, unless nobody else votes.
        """
        path = f"{self.directory}/{QUORUM_STATE}"
        if not self.files.exists(path):
            is_new = history.end_offset == 0 and history.start.offset == 0
            may_vote = is_new or history.voters.is_only(self.node_id, self.directory_id)
            if not may_vote and history.voters.is_voter(self.node_id, self.directory_id):
                LOG.error(LOST_VOTES.format(path=path, node=self.node_id, directory=uuid_to_text(self.directory_id)))
            return ElectionState(), may_vote
        try:
            election = ElectionState.from_json(self.files.read(path))
            if election.epoch < history.last_epoch:
                raise CorruptQuorumState(f"it says epoch {election.epoch}, the log has {history.last_epoch}")
        except CorruptQuorumState as error:
            raise CorruptQuorumState(f"{path}: {error}; bring it back from a backup: without it this node could vote twice") from error
        return election, True

    # ---------------------------------------------------------------- snapshots

    async def write_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Callable[[], Sequence[bytes]]) -> None:
        """A snapshot of everything below `snapshot_id.offset`; `records` encodes them, in a thread, from what no longer changes.

        Old snapshots, and the log before those that stay, go by metadata.max.retention.*.
        """
        if self.snapshots.newest is not None and snapshot_id <= self.snapshots.newest:
            return
        self.bytes_since_snapshot = 0
        change = self.node.history.voters_at(snapshot_id.offset)
        await self.files.run(self._write_snapshot, snapshot_id, timestamp_ms, records, change)
        if self.snapshots.newest is not None and snapshot_id <= self.snapshots.newest:
            return  # one that was fetched meanwhile is newer
        self.snapshots.ids.append(snapshot_id)
        await self._retire_snapshots()
        start = next((one for one in self.snapshots.ids if one.offset == self.log.log_start_offset), self.node.history.start)
        self._step(SnapshotWritten(snapshot_id, start))

    def _write_snapshot(
        self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Callable[[], Sequence[bytes]], change: VoterChange
    ) -> None:
        parts = build_snapshot(
            records(),
            epoch=snapshot_id.epoch,
            now_ms=self.clock.now_ms(),
            last_contained_log_timestamp=timestamp_ms,
            kraft_version=change.kraft_version,
            voters=change.voters if change.kraft_version > 0 else None,
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

    def _take_chunk(self, chunk: SnapshotChunk) -> None:
        """Of a snapshot that is fetched: into its file at once; the last one puts the snapshot in place of the log."""
        try:
            self.snapshots.write_part(chunk.snapshot_id, chunk.position, chunk.data)
        except OSError as error:
            if not is_shortage(error):
                raise
            LOG.error("%s: the snapshot is fetched again when there is room", error)
            self.node.step(SnapshotRefused(), self.clock.monotonic_ms())
            return
        if chunk.is_last:
            self._installing = in_background(self._install(chunk.snapshot_id), name="raft snapshot")

    async def _install(self, snapshot_id: OffsetAndEpoch) -> None:
        try:
            snapshot = await self.files.run(self.snapshots.finish, snapshot_id)
        except CorruptSnapshot as error:
            LOG.error("the snapshot that was fetched is not whole, and is fetched again: %s", error)
            self._step(SnapshotRefused())
            return
        except Exception as error:
            self._fail(error)
            return
        if self._persisting is not None:
            await asyncio.wait([self._persisting])
        try:
            self._replace_log(snapshot_id, snapshot)
        except Exception as error:
            self._fail(error)
            return
        self._step(SnapshotInstalled(snapshot_id, snapshot.voters, snapshot.kraft_version))
        await self._retire_snapshots()

    def _replace_log(self, snapshot_id: OffsetAndEpoch, snapshot: Snapshot) -> None:
        self.log.truncate_fully_and_start_at(snapshot_id.offset, self.clock.now_ms())
        self.snapshots.ids = sorted({*self.snapshots.ids, snapshot_id})
        while self.snapshots.ids[0] != snapshot_id:
            self.files.unlink(self.snapshots.retire_oldest())
        self._listener.load_snapshot(snapshot_id, snapshot.last_contained_log_timestamp, snapshot.records)
        self._delivered = snapshot_id.offset
        self.bytes_since_snapshot = 0
        self._unsynced.set()


LOST_VOTES: Final = (
    "{path} is missing, and the log is not: node {node} does not know how it voted, so it follows and votes no more.  Bring the file back "
    "from a backup, or make a new voter of it: remove voter {node} with directory {directory}, format the folder, and add it again"
)


def _batch(header: BatchHeader, batch: memoryview) -> Batch:
    """Errors: CorruptBatch, DecodeError, KeyError for a control record that cannot be read."""
    voters: VoterSet | None = None
    kraft_version: int | None = None
    if header.is_control:
        for record in records_of(batch):
            message = parse_control_value(parse_control_key(record.key).type, record.value)
            if isinstance(message, KRaftVersionRecord):
                kraft_version = message.kraft_version
            elif isinstance(message, VotersRecord):
                voters = VoterSet.from_record(message)
    return Batch(header.base_offset, header.next_offset, header.partition_leader_epoch, voters, kraft_version)


def parse_bootstrap(servers: Sequence[str]) -> list[HostPort]:
    """`controller.quorum.bootstrap.servers`: host:port,…  Errors: ConfigError."""
    found = []
    for server in servers:
        host, colon, port = server.strip().rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
            raise ConfigError("controller.quorum.bootstrap.servers", server, "each entry is host:port, as in controller1.example.com:9093")
        found.append(HostPort(host.strip("[]"), int(port)))
    return found
