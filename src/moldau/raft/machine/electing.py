"""◇ Elects a leader: which voter stands and when, which candidate gets the vote, and what followers do at the end of an epoch.

A voter first asks whether it would win (pre-vote), so that a voter that cannot win disturbs no other.  Part of `node.py`.

Source: KIP-595, 996.
"""

from typing import Final

from moldau.errors import ErrorCode
from moldau.raft.machine.following import Following
from moldau.raft.messages import BeginEpoch, EndEpoch, EpochAnswer, Vote, VoteAnswer
from moldau.raft.roles import NEVER, Candidate, ElectionState, Follower, Leader, Prospective, Resigned, Role, Unattached
from moldau.raft.voters import ReplicaKey
from moldau.types import NO_LEADER

BASE_BACKOFF_MS: Final = 50
"""The pause after a lost election: doubled with each, times chance."""


class Electing(Following):
    """See the module."""

    def _out_of_patience(self, role: Unattached | Prospective | Candidate | Follower | Resigned, now_ms: int) -> None:
        match role:
            case Resigned():
                self._become(Unattached(ElectionState(self.epoch + 1), self._patience(role, now_ms)), now_ms)
            case Prospective():
                self._not_wanted(role, now_ms)
            case _ if self._can_stand:
                self._ask_first(role, now_ms)
            case _ if self._installing is not None:
                role.deadline_ms = now_ms + self.timeouts.fetch_ms
            case _:
                role.deadline_ms = NEVER  # an observer goes on looking for the leader
                if isinstance(role, Follower):
                    role.has_fetched = False  # others may ask whether they would be elected

    def _ask_first(self, role: Role, now_ms: int) -> None:
        """Ask for pre-votes: a replica that cannot win disturbs no other."""
        prospective = Prospective(role.election, now_ms + self._election_timeout(), granted=self._own_vote)
        if isinstance(role, Follower):
            prospective.leader_at, prospective.is_over, prospective.is_gone = role.leader_at, role.is_over, role.is_gone
        self._become(prospective, now_ms)
        self._count_votes(now_ms)

    def _not_wanted(self, role: Prospective, now_ms: int) -> None:
        """Go back to the leader, if there is one.

        A leader that has resigned does not come back, so the next attempt need not wait for it.
        """
        if role.election.has_leader and role.leader_at is not None:
            patience_ms = self._election_timeout() if role.is_over or role.is_gone else self.timeouts.fetch_ms
            follower = Follower(role.election, role.leader_at, now_ms + patience_ms, is_over=role.is_over, is_gone=role.is_gone)
            self._become(follower, now_ms)
        else:
            self._become(Unattached(role.election, now_ms + self._election_timeout()), now_ms)

    def _stand(self, now_ms: int) -> None:
        """Stand for election in a new epoch, with this node's own vote."""
        election = ElectionState(self.epoch + 1, NO_LEADER, *self.me)
        self._become(Candidate(election, now_ms + self._election_timeout(), granted=self._own_vote), now_ms)
        self._count_votes(now_ms)

    def _count_votes(self, now_ms: int) -> None:
        role = self.role
        if not isinstance(role, Prospective | Candidate):
            return
        if len(role.granted) >= self.voters.majority:
            if isinstance(role, Prospective):
                self._stand(now_ms)
            else:
                self._lead(role, now_ms)
        elif len(role.rejected) > len(self.voters) - self.voters.majority:
            if isinstance(role, Prospective):
                self._not_wanted(role, now_ms)
            elif not role.is_lost:
                role.is_lost = True
                self._elections_lost += 1
                role.deadline_ms = min(role.deadline_ms, now_ms + self._backoff())

    def _backoff(self) -> int:
        spread = BASE_BACKOFF_MS * self._chance.randrange(2 << min(20, self._elections_lost - 1))
        return min(spread, self.timeouts.election_backoff_max_ms)

    def _lead(self, role: Candidate, now_ms: int) -> None:
        self._elections_lost = 0
        leader = Leader(
            ElectionState(role.election.epoch, self.me.id),
            self.end_offset,
            tuple(sorted(role.granted)),
            now_ms,
            self._quorum_deadline(now_ms),
        )
        self._become(leader, now_ms)

    def _ask_for_votes(self, role: Prospective | Candidate, now_ms: int) -> None:
        if isinstance(role, Candidate) and role.is_lost:
            return
        # The log on the disk counts: records that a crash could take away must not win a vote that could be given twice.
        last_epoch = self.history.epoch_before(self.synced_offset)
        for voter_id, key in self.voters.keys.items():
            if voter_id not in role.granted and voter_id not in role.rejected and self._may_ask(voter_id, Vote, now_ms):
                vote = Vote(self.epoch, self.me, key, last_epoch, self.synced_offset, isinstance(role, Prospective))
                self._send(voter_id, vote, now_ms)

    def _vote_answered(self, to: int, answer: VoteAnswer, now_ms: int) -> None:
        role = self.role
        if isinstance(role, Prospective | Candidate) and to in self.voters.by_id:
            (role.granted if answer.is_granted else role.rejected).add(to)
            self._count_votes(now_ms)

    def _asked_for_vote(self, request: Vote, now_ms: int) -> VoteAnswer:
        is_impossible = request.last_epoch > request.epoch if request.is_pre_vote else request.last_epoch >= request.epoch
        if request.end_offset < 0 or request.last_epoch < 0 or is_impossible or request.candidate.id < 0:
            return VoteAnswer(ErrorCode.INVALID_REQUEST, *self._known)
        if request.epoch < self.epoch:
            return VoteAnswer(ErrorCode.FENCED_LEADER_EPOCH, *self._known)
        if request.epoch > self.epoch:
            self._learn(request.epoch, NO_LEADER, None, now_ms)
        if not self._is_meant(request.voter):
            return VoteAnswer(ErrorCode.INVALID_VOTER_KEY, *self._known)
        is_granted = self._grants(request)
        if is_granted and not request.is_pre_vote and not self.role.election.has_voted:
            role = self.role
            election = role.election._replace(voted_id=request.candidate.id, voted_directory_id=request.candidate.directory_id)
            assert isinstance(role, Unattached | Prospective), role
            role.election = self._to_persist(election)
            if isinstance(role, Unattached):
                role.deadline_ms = now_ms + self._election_timeout()
        return VoteAnswer(ErrorCode.NONE, *self._known, is_granted=is_granted)

    def _grants(self, request: Vote) -> bool:
        if not self._may_vote:
            return False
        role, election = self.role, self.role.election
        # The whole log counts, durable or not: a candidate with as much has everything that this replica ever reported.
        is_up_to_date = (request.last_epoch, request.end_offset) >= (self.history.last_epoch, self.end_offset)
        match role:
            case Leader():
                return False
            case _ if request.is_pre_vote:
                return is_up_to_date and not (isinstance(role, Follower) and role.has_fetched and not (role.is_over or role.is_gone))
            case Unattached() | Prospective() | Follower() if election.has_voted:
                return election.voted_for(request.candidate)
            case Unattached() | Prospective():
                return is_up_to_date and not election.has_leader
            case _:
                return False

    def _told_of_epoch(self, request: BeginEpoch | EndEpoch, now_ms: int) -> EpochAnswer:
        if request.leader_id < 0:
            return EpochAnswer(ErrorCode.INVALID_REQUEST, *self._known)
        if request.epoch < self.epoch:
            return EpochAnswer(ErrorCode.FENCED_LEADER_EPOCH, *self._known)
        self._learn(request.epoch, request.leader_id, request.leader_at, now_ms)
        role = self.role
        if isinstance(request, BeginEpoch):
            if not self._is_meant(request.voter):
                return EpochAnswer(ErrorCode.INVALID_VOTER_KEY, *self._known)
        elif isinstance(role, Follower | Prospective) and role.election.leader_id == request.leader_id:
            role.is_over = True
            if isinstance(role, Follower):
                role.deadline_ms = min(role.deadline_ms, now_ms + self._successor_backoff(request.preferred))
        return EpochAnswer(ErrorCode.NONE, *self._known)

    def _successor_backoff(self, preferred: tuple[ReplicaKey, ...]) -> int:
        """The pause of a preferred successor: the first stands at once, the others give it time."""
        longest_ms = self.timeouts.election_backoff_max_ms
        for position, replica in enumerate(preferred):
            if self._is_meant(replica):
                return 0 if position == 0 else min(longest_ms, (longest_ms >> (len(preferred) - 1)) << (position - 1))
        return longest_ms
