"""● Faults to plant in all nodes of a simulated cluster.  Some seed must find each of them.

with planted("lost-log-stays-eligible"):
    live(seed).violations
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final
from unittest.mock import patch

from moldau.errors import ErrorCode
from moldau.metadata import brokers, delta, departures, elections, heartbeats, partition_change
from moldau.metadata.image import MetadataImage, PartitionRegistration
from moldau.metadata.outcome import Piece
from moldau.metadata.records import BrokerRegistrationChangeRecord
from moldau.protocol.messages.alter_partition import BrokerState
from moldau.raft.driver import RaftDriver
from moldau.raft.machine.leading import Leading
from moldau.raft.machine.node import RaftNode
from moldau.raft.roles import Leader, Unattached
from moldau.replication.follower import Followed, Stage
from moldau.replication.partition import Partition
from moldau.server.coordinators.log import PartitionLog
from moldau.server.node import taken_folders
from moldau.storage.log import Log
from moldau.storage.producers.state import AppendOrigin, ProducerStates
from proof.transactions.schedules.plants import PLANTS as TRANSACTION_PLANTS

Patch = AbstractContextManager[Any]
Build = partition_change._Build


def _left_without_loss(leave: Callable[..., Any]) -> Callable[..., Any]:
    def patched(image: MetadataImage, schema: Any, broker_id: int, *, lost_its_log: bool = False, lost_a_directory: bool = False) -> Any:
        return leave(image, schema, broker_id, lost_a_directory=lost_a_directory)

    return patched


def _only_noted(image: MetadataImage, schema: Any, broker_id: int) -> Piece:
    epoch = image.brokers[broker_id].epoch
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=departures.FENCE)
    return Piece([change], is_complete=True)


@contextmanager
def _without_fencing() -> Iterator[None]:
    with patch.object(heartbeats, "fence", _only_noted), patch.object(departures, "fence", _only_noted):
        yield


def _of_any_life(refusal: Callable[..., ErrorCode]) -> Callable[..., ErrorCode]:
    def patched(image: MetadataImage, broker_id: int, partition: Any, asked: Any, proposed: Any) -> ErrorCode:
        return refusal(image, broker_id, partition, asked, [BrokerState(broker_id=one.broker_id) for one in proposed])

    return patched


def _whoever_lives(self: Any, replica: int) -> bool:
    return bool(self.change.may_lead(replica))


def _eligible_wherever(self: Any) -> None:
    is_enough = len(self.isr) >= self.change.min_insync_replicas
    gone = {*self.isr, *self.change.lost_their_log}
    self.elr = () if is_enough else tuple(sorted({*self.before.elr, *self.before.isr} - gone))


def _complete_at_once(self: Any) -> None:
    if self.removing or self.adding:
        self.replicas = tuple(replica for replica in self.replicas if replica not in self.removing)
        self.isr = self.replicas
        self.removing, self.adding = (), ()


def _same_epoch(changed: Callable[..., PartitionRegistration]) -> Callable[..., PartitionRegistration]:
    def patched(partition: PartitionRegistration, change: Any, *more: Any) -> PartitionRegistration:
        made = changed(partition, change, *more)
        return made._replace(leader_epoch=partition.leader_epoch)

    return patched


def _lost_but_committed(self: Leading, end_offset: int, now_ms: int) -> None:
    self.history.truncate(end_offset)
    self.synced_offset = min(self.synced_offset, end_offset)
    for ready in (self._ready, self._in_hand):
        if ready is not None:
            ready.entries.clear()
    if isinstance(self.role, Leader):
        self._resign(now_ms)
    self._paused_until_ms = now_ms + self.timeouts.election_ms


def _waits_for_winner(send: Callable[..., None]) -> Callable[..., None]:
    def patched(self: RaftNode, now_ms: int) -> None:
        role = self.role
        if not (isinstance(role, Unattached) and role.election.has_voted and not role.election.has_leader):
            send(self, now_ms)

    return patched


async def _in_memory(self: RaftDriver, write: Any, path: str, data: bytes) -> None:
    pass


def _until_leader_has_it(self: Partition, end_offset: int, wait: Any, slot: Any) -> bool:
    return True


def _release_soon(self: PartitionLog, end_offset: int) -> None:
    asyncio.get_running_loop().call_soon(self._on_acknowledged)


@contextmanager
def _answered_by_leader() -> Iterator[None]:
    with (
        patch.object(PartitionLog, "watch", _release_soon),
        patch.object(PartitionLog, "committed_offset", property(lambda self: self.end_offset)),
    ):
        yield


@contextmanager
def _unnoticed_by_followers() -> Iterator[None]:
    append_batches, note = Log._append_batches, ProducerStates.append
    is_follower = [False]

    def append(self: Log, view: Any, headers: Any, largest: int, origin: AppendOrigin, *more: Any) -> Any:
        is_follower[0] = origin is AppendOrigin.REPLICATION
        return append_batches(self, view, headers, largest, origin, *more)

    def noted(self: ProducerStates, header: Any) -> None:
        if not is_follower[0]:
            note(self, header)

    with patch.object(Log, "_append_batches", append), patch.object(ProducerStates, "append", noted):
        yield


PLANTS: Final[dict[str, tuple[str, Callable[[], Patch]]]] = {
    "new-disk-leads": (
        "the last known leader is elected on the empty disk that replaced its own",
        lambda: patch.object(Build, "_last_known", lambda self: self.before.last_known_elr),
    ),
    "lost-but-committed": (
        "metadata that a full disk did not take counts as committed",
        lambda: patch.object(RaftNode, "_lost", _lost_but_committed),
    ),
    "waits-for-winner": (
        "a replica that has voted and votes no more does not look for the leader",
        lambda: patch.object(RaftNode, "_send_what_is_due", _waits_for_winner(RaftNode._send_what_is_due)),
    ),
    "unclean-stop-unnoticed": (
        "a broker that stopped uncleanly stays eligible (KIP-966)",
        lambda: patch.object(brokers, "leave", _left_without_loss(departures.leave)),
    ),
    "eligible-wherever": (
        "a replica that is moved away stays eligible, as with Kafka 4.3.1",
        lambda: patch.object(Build, "_find_eligible", _eligible_wherever),
    ),
    "fenced-stay-in-sync": (
        "a fenced broker stays in the in-sync sets and goes on leading",
        _without_fencing,
    ),
    "whoever-lives-leads": (
        "any replica that lives is elected",
        lambda: patch.object(Build, "_is_valid_leader", _whoever_lives),
    ),
    "moves-end-at-once": (
        "a reassignment is complete at once, and all new replicas count as in sync",
        lambda: patch.object(Build, "_maybe_complete_reassignment", _complete_at_once),
    ),
    "same-leader-epoch": (
        "a new leader gets the epoch of the one before",
        lambda: patch.object(delta, "merge", _same_epoch(delta.merge)),
    ),
    "stale-broker-epoch": (
        "the controller takes a follower in sync that was so in an earlier life (KIP-903)",
        lambda: patch.object(elections, "_isr_refusal", _of_any_life(elections._isr_refusal)),
    ),
    "any-in-sync-set": (
        "the controller takes every in-sync set that a broker proposes",
        lambda: patch.object(elections, "_isr_refusal", lambda *_: ErrorCode.NONE),
    ),
    "votes-in-memory": (
        "what an election rests on never reaches the disk",
        lambda: patch.object(RaftDriver, "_until_room", _in_memory),
    ),
    "acknowledged-by-leader": (
        "acks=all is answered when the leader has the records",
        lambda: patch.object(Partition, "await_acknowledgement", _until_leader_has_it),
    ),
    "anybody's-disk": (
        "a node starts on the disk of another",
        lambda: patch.object(taken_folders, "check_folders", lambda metas, node_id: _CLUSTER_ID),
    ),
    "end-told-after-failed-sync": (
        "a follower whose sync has failed tells the leader its end all the same",
        lambda: patch.object(Followed, "may_ask", property(lambda self: self.stage is Stage.FETCHING)),
    ),
    "producers-unnoticed": (
        "a follower does not note which producer wrote what",
        _unnoticed_by_followers,
    ),
}
"""Name → the fault in words, and the patch that plants it."""
COORDINATOR_PLANTS: Final[dict[str, tuple[str, Callable[[], Patch]]]] = {
    "coordinator-answers-early": (
        "a coordinator answers when the leader of its partition has the records",
        _answered_by_leader,
    ),
    **TRANSACTION_PLANTS,
}
"""The faults that only users of coordinators meet."""

_CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"


@contextmanager
def planted(name: str) -> Iterator[None]:
    with (PLANTS | COORDINATOR_PLANTS)[name][1]():
        yield
