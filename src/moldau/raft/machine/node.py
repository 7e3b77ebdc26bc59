"""◇ The consensus machine of one replica of the metadata log: events in, orders to the world out.

    node.step(event, now_ms)      a request or an answer of another replica, time that passed, a proposal, "your appends are durable"
    ready = node.ready()          election to persist · truncation · entries to append · messages · answers · how far is committed
    node.advance(ready)           the driver has done it
    node.next_due_ms              when to step with a Tick at the latest

The driver does what a `Ready` holds in the order of its fields, and one `Ready` after the other; events that come meanwhile go into the
next one.  The same events give the same `Ready`s: the node knows no clock, no disk and no network, and its chance is an argument.

Guarantees: nothing leaves the node before the election that it rests on is persisted; in one epoch a node votes once, and whom it voted
for is kept beside the leader; the high watermark (exclusive) never goes back, but to the end of what a full disk took, and it moves only
past an entry of the leader's own epoch; what a replica says it has is on its disk; only replicas that vote, by id and directory, count
for a majority.

Times are of a steady clock.

Source: KafkaRaftClient, QuorumState, LeaderState; KIP-595, 630, 853, 996, 1166.  Called by `driver.py`.

The class is composed of `replica_state.py`, `leading.py`, `following.py` and `electing.py`, each on top of the one before.
"""

from moldau.errors import ErrorCode
from moldau.raft.events import (
    Answered,
    Event,
    Lost,
    Proposal,
    Ready,
    Received,
    Reply,
    Resign,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotWritten,
    Synced,
    Tick,
    Upgrade,
)
from moldau.raft.machine.electing import Electing
from moldau.raft.machine.reconfiguration import NEW_VOTER
from moldau.raft.messages import (
    AddVoter,
    AskVersions,
    BeginEpoch,
    ChangeAnswer,
    EndEpoch,
    EpochAnswer,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    RaftAnswer,
    RaftRequest,
    RemoveVoter,
    UpdateVoter,
    VersionsAnswer,
    Vote,
    VoteAnswer,
)
from moldau.raft.roles import NEVER, Candidate, Follower, Leader, Prospective, Resigned, Unattached
from moldau.raft.voters import KRAFT_VERSIONS


class RaftNode(Electing):
    """See the module.  `end_offset` is exclusive and includes entries that are still to be appended."""

    @property
    def next_due_ms(self) -> int:
        """The earliest time at which a Tick changes anything; NEVER when none does."""
        role, now_ms, request_ms = self.role, self._now_ms, self.timeouts.request_ms
        later = [line.retry_ms if line.sent_ms < 0 else line.sent_ms + request_ms for line in self._lines.values()]
        if isinstance(role, Leader):
            later += self._begin_times(role)
            due = min(role.quorum_deadline_ms, self.changes.due_ms, *(parked.deadline_ms for parked in self._parked))
        else:
            later.append(self._paused_until_ms)
            due = min(role.deadline_ms, NEVER, *(parked.deadline_ms for parked in self._parked))
        for at in later:
            if now_ms < at < due:  # anything due before was done at the last step
                due = at
        return due

    def step(self, event: Event, now_ms: int) -> int | ErrorCode | None:
        """Take an event.

        A proposal returns the offset after it (exclusive), or NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST without any effect.
        """
        result: int | ErrorCode | None = None
        self._now_ms = now_ms
        match event:
            case Tick():
                pass
            case Proposal(records):
                result = self._propose(records, now_ms)
            case Received(token, request):
                self._received(token, request, now_ms)
            case Answered():
                self._answered(event, now_ms)
            case Synced(end_offset):
                self._synced(end_offset, now_ms)
            case Lost(end_offset):
                self._lost(end_offset, now_ms)
            case Resign():
                self.is_stopping = True
                if isinstance(self.role, Leader):
                    self._resign(now_ms)
            case SnapshotInstalled():
                self._snapshot_installed(event)
            case SnapshotRefused():
                self._snapshot_refused(now_ms)
            case Upgrade():
                result = self._upgrade(now_ms)
            case SnapshotWritten(newest, start):
                self.history.newest_snapshot = newest
                self.history.start_after(start)
        self._look_at_the_clock(now_ms)
        self._send_what_is_due(now_ms)
        return result

    def ready(self) -> Ready:
        """The present orders; empty if there are none.  They stay the same until `advance`."""
        if self._in_hand is None:
            self._in_hand, self._ready = self._ready, Ready()
        return self._in_hand

    def advance(self, ready: Ready, now_ms: int) -> None:
        assert ready is self._in_hand, "call advance() with the result of ready()"
        self._in_hand = None
        if ready.election is not None:
            self._persisted = ready.election
            self._open_epoch(now_ms)

    def _look_at_the_clock(self, now_ms: int) -> None:
        role = self.role
        if isinstance(role, Unattached | Resigned) and self._can_stand and self.is_lone_voter:
            self._stand(now_ms)
            return
        if isinstance(role, Leader):
            self.changes.look_at_the_clock(now_ms)
            if now_ms >= role.quorum_deadline_ms:
                self._resign(now_ms)
        elif now_ms >= role.deadline_ms:
            self._out_of_patience(role, now_ms)
        self._answer_parked(now_ms)
        for line in self._lines.values():
            if 0 <= line.sent_ms <= now_ms - self.timeouts.request_ms:
                self._line_failed(line, now_ms)

    def _received(self, token: int, request: RaftRequest, now_ms: int) -> None:
        answer: RaftAnswer | None
        match request:
            case Vote():
                answer = self._asked_for_vote(request, now_ms)
            case BeginEpoch() | EndEpoch():
                answer = self._told_of_epoch(request, now_ms)
            case Fetch():
                answer = self._fetched(token, request, now_ms)
            case FetchSnapshot():
                answer = self._fetched_snapshot(request, now_ms)
            case UpdateVoter():
                answer = self._asked_to_update(request, now_ms)
            case AddVoter() | RemoveVoter():
                answer = self._asked_to_change(token, request, now_ms)
            case AskVersions():
                answer = VersionsAnswer(ErrorCode.NONE, *KRAFT_VERSIONS)
        if answer is not None:
            self._ready.replies.append(Reply(token, answer))

    def _answered(self, event: Answered, now_ms: int) -> None:
        to, number, answer = event.to, event.number, event.answer
        line = next((one for (at, _), one in self._lines.items() if at == to and one.number == number and one.sent_ms >= 0), None)
        if line is None:
            return  # an answer to a former role, or too late
        if to == NEW_VOTER and isinstance(self.role, Leader):
            line.sent_ms, line.retry_ms = -1, NEVER
            self.changes.versions_told(answer if isinstance(answer, VersionsAnswer) else None, self.role, now_ms)
            return
        if answer is None:
            self._line_failed(line, now_ms)
            if event.is_refused and isinstance(self.role, Follower) and to == self.role.election.leader_id:
                self._leader_is_gone(self.role, now_ms)
            return
        line.sent_ms, line.retry_ms = -1, now_ms
        if isinstance(answer, EpochAnswer | VoteAnswer | FetchAnswer | FetchSnapshotAnswer) and self._is_settled_by(answer, now_ms):
            line.retry_ms = now_ms + self.timeouts.retry_backoff_ms
            return
        match answer:
            case VoteAnswer():
                self._vote_answered(to, answer, now_ms)
            case EpochAnswer() if isinstance(self.role, Resigned) and answer.error is ErrorCode.NONE:
                self.role.told.add(to)
            case EpochAnswer() | ChangeAnswer() if isinstance(self.role, Leader | Follower):
                line.retry_ms = now_ms + (self.timeouts.fetch_ms // 2 if isinstance(self.role, Leader) else self.timeouts.fetch_ms)
                self._has_told_leader = isinstance(answer, EpochAnswer) and answer.error is ErrorCode.NONE
            case FetchAnswer():
                self._fetch_answered(answer, line, now_ms)
            case FetchSnapshotAnswer():
                self._snapshot_answered(answer, line, now_ms)
            case _:
                line.retry_ms = now_ms + self.timeouts.retry_backoff_ms

    def _is_settled_by(self, answer: EpochAnswer | VoteAnswer | FetchAnswer | FetchSnapshotAnswer, now_ms: int) -> bool:
        """Take the epoch and leader that any answer carries.  Returns whether the answer has nothing more to say."""
        if answer.epoch < self.epoch or answer.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            return True
        if answer.epoch > self.epoch or answer.error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
            self._learn(answer.epoch, answer.leader_id, answer.leader_at, now_ms)
            return True
        self._learn(answer.epoch, answer.leader_id, answer.leader_at, now_ms)
        return answer.error is not ErrorCode.NONE and not isinstance(answer, FetchSnapshotAnswer)

    def _send_what_is_due(self, now_ms: int) -> None:
        match self.role:
            case Leader() as leader:
                if self.is_leader:
                    self._tell_of_epoch(leader, now_ms)
            case Follower() as follower:
                self._fetch(follower, now_ms)
            case Prospective() | Candidate() as standing:
                self._ask_for_votes(standing, now_ms)
            case Unattached() as unattached:
                # Who has voted waits for the winner to tell, but nobody tells a replica that is no voter.
                waits_for_winner = unattached.election.has_voted and not unattached.election.has_leader and self._can_stand
                if not waits_for_winner:
                    self._look_for_leader(now_ms)
            case Resigned() as resigned:
                for voter in self.voters.by_id.values():
                    if voter.id != self.me.id and voter.id not in resigned.told:
                        self._send(voter.id, EndEpoch(self.epoch, self.me.id, self._my_address, resigned.preferred), now_ms)
