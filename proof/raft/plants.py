"""◇ Mistakes that a consensus machine or its driver could have.  The simulation must find each of them."""

from typing import Any, Final
from unittest.mock import patch

from moldau.raft.events import Answered, Entry, Fetched, Ready, Synced
from moldau.raft.machine.node import RaftNode
from moldau.raft.messages import Fetch, FetchAnswer, Vote, VoteAnswer
from moldau.raft.roles import Candidate, ElectionState, Follower, Leader, Prospective, Resigned, Unattached
from moldau.raft.voters import ReplicaKey, VoterSet
from moldau.types import NO_LEADER, OffsetAndEpoch
from proof.raft.replica import Driver, Plant


class VotesBeforeTheDisk(Driver):
    """Sends messages that rest on an election before it is on the disk."""

    def persist(self, ready: Ready) -> None:
        for reply in ready.replies:
            self.reply(reply.token, reply.answer)
        ready.replies = []
        super().persist(ready)


class NeverPersists(Driver):
    """Keeps elections in memory only."""

    def persisted(self, life: int) -> None:
        before = self.disk.election
        super().persisted(life)
        if life == self.life:
            self.disk.election = before


class AppendsAreDurableAtOnce(Driver):
    """Reports an append as synced when it has only been written."""

    def append(self, entry: Entry | Fetched) -> bool:
        done = super().append(entry)
        if done:
            self.world.later(0, self.say_synced, self.life)
        return done

    def say_synced(self, life: int) -> None:
        if life == self.life and self.node is not None and self.persisting is None:
            self.step(Synced(self.disk.end_offset))


class TruncationIsNotSynced(Driver):
    """Reports a truncation as synced when it is not.  The truncated records may come back."""

    def carry_out(self, ready: Ready) -> None:
        super().carry_out(ready)
        if ready.truncate_to is not None:
            self.world.later(0, self.say_synced, self.life)

    def say_synced(self, life: int) -> None:
        if life == self.life and self.node is not None and self.persisting is None:
            self.step(Synced(self.disk.end_offset))


class ForgetsTheVote(RaftNode):
    """Forgets its vote when a leader is known, so that a Prospective in the same epoch votes again."""

    def _learn(self, epoch: int, leader_id: int, leader_at: Any, now_ms: int) -> None:
        before = self.role
        super()._learn(epoch, leader_id, leader_at, now_ms)
        if self.role is not before and isinstance(self.role, Follower):
            self.role.election = self._to_persist(self.role.election._replace(voted_id=-1, voted_directory_id=ReplicaKey(0).directory_id))


class ForgetsLeaderAndVote(ForgetsTheVote):
    """Forgets its vote as above, and the leader when the leader is lost."""

    def _ask_first(self, role: Any, now_ms: int) -> None:
        role.election = role.election._replace(leader_id=NO_LEADER)
        super()._ask_first(role, now_ms)


class VotesForAnyLog(RaftNode):
    """Votes without a look at the candidate's log."""

    def _grants(self, request: Vote) -> bool:
        return super()._grants(request._replace(last_epoch=1 << 30))


class ComparesLogsByLength(RaftNode):
    """Prefers a longer log to a newer one."""

    def _grants(self, request: Vote) -> bool:
        longer = request.end_offset >= self.end_offset
        return super()._grants(request._replace(last_epoch=1 << 30 if longer else -1))


class ComparesLogsByEpoch(RaftNode):
    """Compares logs by their last epochs alone, however short they are."""

    def _grants(self, request: Vote) -> bool:
        newer = request.last_epoch >= self.history.last_epoch
        return super()._grants(request._replace(last_epoch=1 << 30 if newer else -1))


class VotesTwice(RaftNode):
    """Votes again in an epoch in which it has voted."""

    def _grants(self, request: Vote) -> bool:
        election = self.role.election
        if isinstance(self.role, Unattached | Prospective) and election.has_voted and not request.is_pre_vote:
            self.role.election = election._replace(voted_id=-1)
        return super()._grants(request)


class LeadsOnAfterRestart(RaftNode):
    """Goes on leading its epoch after a restart."""

    def _first_role(self, election: ElectionState, now_ms: int) -> Any:
        role = super()._first_role(election, now_ms)
        if isinstance(role, Resigned):
            leader = Leader(election, self.end_offset - 1, (self.me.id,), now_ms, self._quorum_deadline(now_ms))
            from moldau.raft.roles import Replica

            leader.replicas[self._my_key] = Replica(self.me.directory_id, self.synced_offset)
            return leader
        return role


class LedIsUnattached(RaftNode):
    """Starts a former leader without a leader, free to vote in its epoch."""

    def _first_role(self, election: ElectionState, now_ms: int) -> Any:
        role = super()._first_role(election, now_ms)
        return Unattached(ElectionState(election.epoch), role.deadline_ms) if isinstance(role, Resigned) else role


class CountsOlderEpochs(RaftNode):
    """Moves the high watermark over entries of older epochs by counting copies."""

    def _commit(self, role: Leader) -> None:
        start, role.epoch_start_offset = role.epoch_start_offset, -1
        try:
            super()._commit(role)
        finally:
            role.epoch_start_offset = start


class CountsUnsynced(RaftNode):
    """Counts the leader's own copy before it is on the disk."""

    def _commit(self, role: Leader) -> None:
        if self._my_key in role.replicas:
            role.replicas[self._my_key].end_offset = self.end_offset
        super()._commit(role)


class FetchesUnsynced(RaftNode):
    """As a follower, reports records that are not on its disk."""

    def _may_fetch(self, now_ms: int) -> bool:
        return self._installing is None

    def _fetch_answered(self, answer: FetchAnswer, line: Any, now_ms: int) -> None:
        synced, self.synced_offset = self.synced_offset, self.end_offset
        super()._fetch_answered(answer, line, now_ms)
        self.synced_offset = min(synced, self.end_offset)


class AsksWithUnsynced(RaftNode):
    """As a candidate, counts records that a crash can still take away."""

    def _ask_for_votes(self, role: Any, now_ms: int) -> None:
        synced, self.synced_offset = self.synced_offset, self.end_offset
        super()._ask_for_votes(role, now_ms)
        self.synced_offset = synced


class NoDivergence(RaftNode):
    """As a leader, believes any follower's offset."""

    def _where_logs_part(self, fetch: Fetch) -> FetchAnswer | None:
        return None if fetch.offset <= self.end_offset else super()._where_logs_part(fetch)


class TruncatesByOffset(RaftNode):
    """Truncates to the leader's end of an epoch that the follower does not have (KIP-279)."""

    def _truncate(self, leaders: OffsetAndEpoch) -> None:
        super()._truncate(OffsetAndEpoch(leaders.offset, self.history.last_epoch))


class TruncatesToHighWatermark(RaftNode):
    """Truncates to the follower's high watermark, which may lag behind the leader's (KIP-101)."""

    def _truncate(self, leaders: OffsetAndEpoch) -> None:
        pass


class BelievesTheHighWatermark(RaftNode):
    """Takes the leader's high watermark over before it has the records."""

    def _fetch_answered(self, answer: FetchAnswer, line: Any, now_ms: int) -> None:
        if answer.diverging is not None and answer.high_watermark > (self.high_watermark or 0):
            self._move_high_watermark(min(answer.high_watermark, self.end_offset))
        super()._fetch_answered(answer, line, now_ms)


class CountsAnyDirectory(RaftNode):
    """Takes a voter that came back with an empty disk for the voter before: it compares ids without directories."""

    def _heard_from(self, role: Leader, replica: ReplicaKey, offset: int, now_ms: int) -> None:
        voter = self.voters.by_id.get(replica.id)
        super()._heard_from(role, replica if voter is None else voter.key, offset, now_ms)


class AnyDirectoryVotes(RaftNode):
    """Votes as a voter that came back with an empty disk."""

    @property
    def is_voter(self) -> bool:
        return self.me.id in self.voters.by_id

    def _is_meant(self, voter: ReplicaKey | None) -> bool:
        return voter is None or voter.id == self.me.id


class ObserversCount(RaftNode):
    """Counts observers for the majority."""

    def _commit(self, role: Leader) -> None:
        ends = sorted((one.end_offset for one in role.replicas.values()), reverse=True)
        if len(ends) >= self.voters.majority:
            replicated = ends[self.voters.majority - 1]
            if replicated > role.epoch_start_offset and (self.high_watermark is None or replicated > self.high_watermark):
                self._move_high_watermark(replicated)


class HalfIsEnough(RaftNode):
    """Lets half of the voters elect a leader."""

    def _count_votes(self, now_ms: int) -> None:
        with patch.object(VoterSet, "majority", property(lambda self: (len(self) + 1) // 2)):
            super()._count_votes(now_ms)


class OldVotesCount(RaftNode):
    """Counts a vote of an older candidacy in the newer one."""

    def _is_settled_by(self, answer: Any, now_ms: int) -> bool:
        return False if isinstance(answer, VoteAnswer) and answer.epoch <= self.epoch else super()._is_settled_by(answer, now_ms)

    def _answered(self, event: Answered, now_ms: int) -> None:
        if isinstance(event.answer, VoteAnswer) and event.answer.is_granted:
            self._vote_answered(event.to, event.answer, now_ms)
            return
        super()._answered(event, now_ms)


class PreVotesCount(RaftNode):
    """Counts the answers to the pre-vote as votes when it becomes a candidate."""

    def _stand(self, now_ms: int) -> None:
        granted = set(self.role.granted) if isinstance(self.role, Prospective) else set()
        super()._stand(now_ms)
        if isinstance(self.role, Candidate):
            self.role.granted |= granted
            self._count_votes(now_ms)


class ResignedCommits(RaftNode):
    """Stays in its epoch after it resigned, so that followers still take it for the leader."""

    def _out_of_patience(self, role: Any, now_ms: int) -> None:
        if isinstance(role, Resigned):
            self._become(Unattached(ElectionState(role.election.epoch), now_ms + self._election_timeout()), now_ms)
        else:
            super()._out_of_patience(role, now_ms)


class EmptyDiskVotes(RaftNode):
    """Votes although it has a log and no record of its votes."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "may_vote": True})


class LosesElection(Driver):
    """Loses the file with the votes in a crash now and then.  The machine is not told."""

    def crash(self) -> None:
        super().crash()
        if self.world.chance.random() < 0.3:
            self.disk.election = None


class WaitsForTheWinner(RaftNode):
    """Waits to be told who won the election in which it voted, though it is a voter no more."""

    def _send_what_is_due(self, now_ms: int) -> None:
        election = self.role.election
        if not (isinstance(self.role, Unattached) and election.has_voted and not election.has_leader):
            super()._send_what_is_due(now_ms)


class LeavesAtOnce(RaftNode):
    """Stands no more once its removal is in its own log, though nobody else may have the record."""

    _is_removal_open = False


class LostIsCommitted(RaftNode):
    """Counts records that a full disk did not take as committed if the high watermark came with them."""

    def _lost(self, end_offset: int, now_ms: int) -> None:
        told = self.high_watermark, self._ready.high_watermark, None if self._in_hand is None else self._in_hand.high_watermark
        super()._lost(end_offset, now_ms)
        self.high_watermark, self._ready.high_watermark = told[:2]
        if self._in_hand is not None:
            self._in_hand.high_watermark = told[2]


def planted(node: type[RaftNode] = RaftNode, driver: type[Driver] = Driver) -> Plant:
    plant = Plant()
    plant.node, plant.driver = node, driver
    plant.name = node.__name__ if node is not RaftNode else driver.__name__
    return plant


NODES: Final = (
    ForgetsTheVote,
    ForgetsLeaderAndVote,
    VotesForAnyLog,
    ComparesLogsByLength,
    ComparesLogsByEpoch,
    VotesTwice,
    LeadsOnAfterRestart,
    LedIsUnattached,
    CountsOlderEpochs,
    CountsUnsynced,
    FetchesUnsynced,
    AsksWithUnsynced,
    NoDivergence,
    TruncatesByOffset,
    TruncatesToHighWatermark,
    BelievesTheHighWatermark,
    CountsAnyDirectory,
    AnyDirectoryVotes,
    ObserversCount,
    HalfIsEnough,
    OldVotesCount,
    PreVotesCount,
    ResignedCommits,
    WaitsForTheWinner,
    LeavesAtOnce,
    LostIsCommitted,
)
DRIVERS: Final = (VotesBeforeTheDisk, NeverPersists, AppendsAreDurableAtOnce, TruncationIsNotSynced)


PLANTS: Final = {
    plant.name: plant
    for plant in (
        *(planted(node) for node in NODES),
        *(planted(driver=driver) for driver in DRIVERS),
        planted(EmptyDiskVotes, LosesElection),
    )
}
