"""● The loop around `RaftNode`: it owns the log of `__cluster_metadata-0`, the file `quorum-state`, the folder of snapshots, and the
connections to the other replicas.

    propose, requests, responses, time ─▶ node ─▶ election to the disk ─▶ log (page cache, at once) ─▶ messages and answers
                          one fdatasync for all that waits, off the loop ─▶ node ─▶ high watermark ─▶ listener, then the waiting callers

Guarantees: an election is on the disk before anything that rests on it leaves this node; a listener sees every committed batch once, in
order, first the newest snapshot and what the log holds after it; a caller of `wait_for_commit` is woken after the listener has seen the
batch.  Messages are taken while a sync runs; an answer waits for no sync but that of its own election.  When the disk fails nothing is
committed any more: `on_failure` is called, every waiting caller gets KAFKA_STORAGE_ERROR, and the voters are told to elect another leader.
A leader with a full disk resigns if there is another voter.

`replica_log.py` has the files, `log_keeping.py` the operations on them, `log_bytes.py` their bytes.

Source: KafkaRaftClient; KIP-595, 630, 853. Called by `server/node/node.py`; its listener is `metadata/loader.py`.

A broker without a controller runs the same driver as an observer: its (id, directory) is in no set of voters, so it only fetches.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final
from uuid import UUID

from moldau.background import in_background
from moldau.clock import Clock
from moldau.errors import ErrorCode, KafkaError
from moldau.net.transport import Network
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest
from moldau.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from moldau.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from moldau.protocol.wire import Response
from moldau.raft.config import QuorumConfig
from moldau.raft.events import Answered, Chance, Proposal, Ready, Received, Reply, Resign, Send, Tick, Timeouts, Upgrade
from moldau.raft.listener import Listener, QuorumStatus
from moldau.raft.log_bytes import METADATA_PARTITION, examined
from moldau.raft.log_keeping import ROOM_CHECK_MS, LogKeeper
from moldau.raft.machine.node import RaftNode
from moldau.raft.messages import (
    AddVoter,
    AskVersions,
    ChangeAnswer,
    EndEpoch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    RaftAnswer,
    RemoveVoter,
    UpdateVoter,
)
from moldau.raft.peers import Peers
from moldau.raft.questions import Questions
from moldau.raft.replica_log import MAX_BATCH_BYTES, ReplicaLog
from moldau.raft.roles import NEVER, Leader, Resigned
from moldau.raft.status import status_of
from moldau.raft.voter_wire import VoterRequest, parse_voter_request, parse_voter_response, voter_request_of, voter_response_to
from moldau.raft.voters import Address, ReplicaKey, VoterSet, parse_bootstrap
from moldau.raft.wire import ReplicaRequest, Unreadable, parse_request, parse_response, request_of, response_to
from moldau.storage.files import Files, is_shortage

LOG: Final = logging.getLogger(__name__)


class RaftDriver(LogKeeper):
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

        `addresses`: the addresses at which this node listens as a voter; the voters in the log are corrected by them; empty for an
        observer.  `listener_name`: the first of controller.listener.names, at which voters are reached.  Without `network` no request is
        sent: for a node that is alone.
        """
        disk = ReplicaLog(
            files=files,
            clock=clock,
            directory=f"{directory}/{METADATA_PARTITION}",
            node_id=node_id,
            directory_id=directory_id,
            config=config,
            static_voters=static_voters,
        )
        super().__init__(files=files, clock=clock, config=config, disk=disk)
        self.node_id: Final = node_id
        self.directory_id: Final = directory_id
        self._addresses: Final = addresses
        self._on_failure: Final = on_failure
        self._chance: Final = chance or Random()
        self._cluster_id: Final = cluster_id
        self._listener_name: Final = listener_name
        self._peers: Final = None if network is None else Peers(network, client_id=f"raft-{node_id}", timeout_ms=config.request_timeout_ms)
        self.high_watermark = 0
        """The high watermark, exclusive, of what is in the log; 0 while none is known.  It never goes back.

        The machine may know of a higher one before the log has what came with it, and a full disk does not take that.
        """
        self._is_caught_up = False
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._is_leader_told = False
        self.followed: tuple[int, int] | None = None
        """The leader that this node follows, or followed before it led, and when this leader last answered, by the steady clock in ms."""
        self._questions: Final = Questions()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = NEVER
        self._is_working = False
        self._changed = asyncio.Event()
        self._syncing: asyncio.Task[None] | None = None

    # ---------------------------------------------------------------- state

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
        """The quorum's status; None if this node does not lead."""
        role = self.node.role
        if not self.is_leader or not isinstance(role, Leader):
            return None
        return status_of(self.node, role, self.log.log_end_offset, now_ms=self.clock.now_ms(), monotonic_ms=self.clock.monotonic_ms())

    # ---------------------------------------------------------------- life

    async def start(self, listener: Listener) -> None:
        """Open, recover, load, and take part in the quorum.  Errors: CorruptQuorumState, CorruptSnapshot, LogDamaged, OSError."""
        self._listener = listener
        loaded = await self.files.run(self._disk.open)
        if loaded is not None:
            snapshot_id, snapshot = loaded
            listener.load_snapshot(snapshot_id, snapshot.last_contained_log_timestamp, snapshot.records)
            self._delivered = snapshot_id.offset
        history = await self.files.run(self._disk.history, loaded)
        election, may_vote = self._disk.election(history)
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
        """Stop.  A leader asks the others to elect one of them and waits a while for their answer.

        Proposed records are on the disk afterwards, if it has room.  Waiting callers whose records were not committed get NOT_CONTROLLER.
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
        await self._close_log()

    async def _close_log(self) -> None:
        """Close the log.  Each start reads the log after its newest snapshot, so nothing is lost when a full disk takes no index."""
        try:
            await self.files.run(self.log.close)
        except (OSError, KafkaError) as error:
            LOG.error("%s was not closed whole, and its next start reads it again: %s", METADATA_PARTITION, error)
            if not (isinstance(error, OSError) and is_shortage(error)):
                self._on_failure(error)

    async def abandon(self) -> None:
        """Stop like a crash: nothing more is written, told or answered."""
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
        """Wait until every voter that can be reached knows that it may stand for election."""
        with_patience = asyncio.get_running_loop().time() + self.config.request_timeout_ms / 1000
        while isinstance(role := self.node.role, Resigned) and len(role.told) < len(self.node.voters) - self.node.is_voter:
            self._changed.clear()
            try:
                async with asyncio.timeout_at(with_patience):
                    await self._changed.wait()
            except TimeoutError:
                return

    def propose(self, records: Sequence[bytes]) -> int:
        """Append one atomic batch.  Returns the offset after it (exclusive), for `wait_for_commit`.

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
        """Wait until everything below `offset` (exclusive) is committed and the listener has seen it.

        Errors: KafkaError NOT_CONTROLLER when another leads meanwhile, KAFKA_STORAGE_ERROR.
        """
        if offset <= self._delivered:
            return
        self._check_failure()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        assert not self._waiting or self._waiting[-1][0] <= offset, "later waits are for higher offsets"
        self._waiting.append((offset, future))
        await future

    # ---------------------------------------------------------------- requests of other replicas

    async def change_voters(self, request: VoterRequest) -> Response:
        """Handle AddRaftVoter, RemoveRaftVoter or UpdateRaftVoter.  Errors: KafkaError BROKER_NOT_AVAILABLE."""
        self._refuse_after_failure()
        message = parse_voter_request(request, cluster_id=self._cluster_id)
        if isinstance(message, ChangeAnswer):
            return voter_response_to(request, message)
        return await self._questions.ask(request, 0, lambda token: self._step(Received(token, message)))

    def upgrade_kraft_version(self) -> int:
        """Change from voters of the options to voters of the log.

        Returns the offset after the records of the change, for `wait_for_commit`.

        Errors: KafkaError NOT_CONTROLLER, REQUEST_TIMED_OUT, INVALID_UPDATE_VERSION while not every voter has told its id and address.
        """
        self._check_failure()
        end = self._step(Upgrade())
        if isinstance(end, ErrorCode) or end is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER if end in (None, ErrorCode.NOT_LEADER_OR_FOLLOWER) else ErrorCode.of(end))
        return end

    async def handle(self, request: ReplicaRequest, version: int) -> Response:
        """Handle Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch of the metadata log, or FetchSnapshot.

        Errors: KafkaError BROKER_NOT_AVAILABLE.
        """
        self._refuse_after_failure()
        try:
            message = parse_request(request, version, cluster_id=self._cluster_id)
        except Unreadable as refusal:
            return refusal.response
        return await self._questions.ask(request, version, lambda token: self._step(Received(token, message)))

    def _refuse_after_failure(self) -> None:
        if self.failure is not None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, str(self.failure))

    def _reply(self, reply: Reply) -> None:
        question = self._questions.answered(reply.token)
        if question is None:
            return
        request, version, future = question
        answer: RaftAnswer = reply.answer
        records: Any = None
        if isinstance(answer, FetchAnswer) and answer.read_from >= 0:
            records = self._disk.records_from(answer.read_from, self.config.fetch_max_bytes)
        elif isinstance(answer, FetchSnapshotAnswer) and isinstance(request, FetchSnapshotRequest) and answer.error is ErrorCode.NONE:
            answer, records = self._disk.snapshot_part(answer, min(request.max_bytes, self.config.fetch_snapshot_max_bytes))
        if isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest):
            future.set_result(voter_response_to(request, answer))
        else:
            future.set_result(response_to(request, answer, version, records))

    # ---------------------------------------------------------------- the loop

    def _step(self, event: Any) -> int | ErrorCode | None:
        if self.failure is not None:
            return None
        try:
            result = self.node.step(event, self.clock.monotonic_ms())
            self._work()
        except Exception as error:  # a machine or a replay that cannot go on: no caller must wait for ever
            self._fail(error)
            return None
        return result

    def _tick(self) -> None:
        self._timer, self._timer_due_ms = None, NEVER
        self._step(Tick())

    def _work(self) -> None:
        """Do what is ready, until an election has to reach the disk first."""
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
            await self._until_room(self.files.write_atomically, self._disk.election_path, data)
            self._carry_out(ready)
            self.node.advance(ready, self.clock.monotonic_ms())
            self._persisting = None
            self._step(Tick())
        except Exception as error:
            self._persisting = None
            self._fail(error)

    async def _until_room(self, write: Callable[[str, bytes], None], path: str, data: bytes) -> None:
        """Write when there is room.  On a full disk a vote has to wait; the candidate asks again, or another one does."""
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
            LOG.warning("%s is truncated to offset %d: the records behind it were never committed", METADATA_PARTITION, ready.truncate_to)
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
            answer = examined(answer, send.at)
        if answer is not None and send.to == self.node.leader_id:
            self.followed = send.to, self.clock.monotonic_ms()
        self._step(Answered(send.to, send.number, answer, is_refused))

    # ---------------------------------------------------------------- the log

    # ---------------------------------------------------------------- calls of the listener

    def _leader_changed(self, leader_id: int, epoch: int) -> None:
        self._is_leader_told = False
        if leader_id == self.node_id:
            return  # the listener is told once it has seen everything before its epoch
        self._refuse_waiting(
            KafkaError(ErrorCode.NOT_CONTROLLER, "Another controller may lead by now: it is not known whether the change stands.")
        )
        self._listener.leader_changed(leader_id, epoch)

    def _deliver(self, high_watermark: int) -> None:
        """Call the listener, then wake the waiting callers."""
        self.high_watermark = high_watermark
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
            self.followed = None
        while self._waiting and self._waiting[0][0] <= self._delivered:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def _deliver_from_log(self, end_offset: int) -> None:
        while self._delivered < end_offset:
            found = self._disk.batches(self._delivered, end_offset)
            if not found:
                return  # a follower's offset may lie within a batch: the rest of the batch is committed with it
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
        self._questions.refuse_all(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, str(self.failure)))

    # ---------------------------------------------------------------- bytes

    # ---------------------------------------------------------------- files

    # ---------------------------------------------------------------- snapshots
