"""◇ The consensus machine of one replica of the metadata log: events in, what the world must do out.

    node.step(event, now_ms)      a request or an answer of another replica, time that passed, a proposal, "your appends are durable"
    ready = node.ready()          election to persist · truncation · entries to append · messages · answers · how far is committed
    node.advance(ready)           the driver has done it
    node.next_due_ms              when to step with a Tick at the latest

The driver does what a `Ready` holds in the order of its fields, and one `Ready` after the other; events that come meanwhile go into the
next one.  The same events give the same `Ready`s: the node knows no clock, no disk and no network, and its chance is an argument.

Guarantees: nothing leaves the node before the election that it rests on is persisted; in one epoch a node votes once, and whom it voted
for is kept beside the leader; the high watermark (exclusive) never goes back and moves only past an entry of the leader's own epoch;
what a replica says it has is on its disk; only replicas that vote, by id and directory, count for a majority.

Times are of a steady clock.  Source: KafkaRaftClient, QuorumState, LeaderState; KIP-595, 630, 853, 996, 1166.  Called by `driver.py`;
what a leader knows is in `leading.py`, a change of voters in `reconfiguration.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from moldau.errors import ErrorCode
from moldau.raft.events import (
    MAX_ENTRY_RECORDS,
    Answered,
    Chance,
    Entry,
    EntryPayload,
    Event,
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
from moldau.raft.history import FORMATTED, LogHistory
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
from moldau.raft.reconfiguration import NEW_VOTER, Reconfiguration, rekeyed
from moldau.raft.roles import (
    ALLOWED,
    NEVER,
    Candidate,
    ElectionState,
    Follower,
    Leader,
    Prospective,
    Replica,
    Resigned,
    Role,
    Unattached,
)
from moldau.raft.voters import KRAFT_VERSIONS, Address, HostPort, ReplicaKey, Voter, VoterSet
from moldau.types import NO_LEADER, OffsetAndEpoch

CHECK_QUORUM_FACTOR: Final = 1.5
"""A leader resigns when no majority fetched for so many fetch time-outs."""
OBSERVER_SESSION_MS: Final = 300_000
"""An observer that has not fetched for so long is forgotten."""
MAX_OBSERVERS: Final = 10_000
MAX_PARKED: Final = 10_000
"""Fetches that wait for records; one more is answered at once."""
FIRST_BOOTSTRAP: Final = -2
"""The "id" of the first bootstrap server; the next is one less."""
STAGGER_MS: Final = 50
"""Between the followers that find that nobody listens any more where their leader did."""
BASE_BACKOFF_MS: Final = 50
"""Of lost elections: doubled with each, times chance."""


@dataclass(slots=True)
class _Line:
    """One kind of request to one replica: one is under way at a time."""

    number: int = 0
    sent_ms: int = -1
    """-1: none is under way."""
    retry_ms: int = 0


class _Parked(NamedTuple):
    token: int
    fetch: Fetch
    deadline_ms: int


class RaftNode:
    """See the module.  `end_offset` is exclusive and includes entries that are still to be appended."""

    def __init__(
        self,
        me: ReplicaKey,
        history: LogHistory,
        *,
        election: ElectionState,
        chance: Chance,
        now_ms: int,
        timeouts: Timeouts = Timeouts(),
        may_vote: bool = True,
        may_join: bool = False,
        listener_name: str = "CONTROLLER",
        addresses: tuple[Address, ...] = (),
        bootstrap: Sequence[HostPort] = (),
    ) -> None:
        """`may_vote`: False for a replica that has lost its record of its votes; `may_join`: it asks to become a voter.

        `addresses`: where it listens if it votes;
        `bootstrap`: where to look for the leader beside the voters' addresses."""
        self.me: Final = me
        self.history: Final = history
        self.timeouts: Final = timeouts
        self.addresses: Final = addresses
        self.listener_name: Final = listener_name
        self.high_watermark: int | None = None
        """None until the first commit of a leader's epoch is known."""
        self.catch_up_offset: int | None = None
        """How far was committed when this node first learned of it (exclusive)."""
        self.synced_offset = history.end_offset
        self.is_stopping = False
        self._may_vote: Final = may_vote
        self._chance: Final = chance
        self._bootstrap: Final = tuple(bootstrap)
        self._next_bootstrap = 0
        self._persisted = election
        self._elections_lost = 0
        self._lines: dict[tuple[int, type], _Line] = {}
        self._numbers = 0
        self._parked: list[_Parked] = []
        self._ready = Ready()
        self._in_hand: Ready | None = None
        self._truncation_is_unsynced = False
        self._paused_until_ms = 0
        self.changes: Final = Reconfiguration(self)
        self._may_join: Final = may_join
        self._has_told_leader = False
        self._installing: OffsetAndEpoch | None = None
        """A snapshot that the driver is putting in place of the log."""
        self._now_ms = now_ms
        self.role: Role = self._first_role(election, now_ms)
        self._told_leader = (NO_LEADER, self.epoch)
        self._note_leader()

    def _first_role(self, election: ElectionState, now_ms: int) -> Role:
        """Who led starts resigned: what it had not synced is lost, and its epoch must not go on without it."""
        deadline_ms = now_ms + self._election_timeout() if self._can_stand else NEVER
        if election.epoch < self.history.last_epoch:
            return Unattached(ElectionState(self.history.last_epoch), deadline_ms)
        if election.leader_id == self.me.id:
            return Resigned(election, now_ms + self._election_timeout())
        if self._can_stand and election.has_voted and election.voted_for(self.me) and not election.has_leader:
            return Candidate(election, deadline_ms, granted={self.me.id})
        leader_at = self._address_of(election.leader_id)
        if election.has_leader and leader_at is not None:
            return Follower(election, leader_at, now_ms + self.timeouts.fetch_ms)
        return Unattached(election, deadline_ms)

    # ------------------------------------------------------------ what is

    @property
    def end_offset(self) -> int:
        return self.history.end_offset

    @property
    def voters(self) -> VoterSet:
        return self.history.voters

    @property
    def kraft_version(self) -> int:
        return self.history.kraft_version

    @property
    def epoch(self) -> int:
        return self.role.election.epoch

    @property
    def leader_id(self) -> int:
        """NO_LEADER when this node has led its epoch and does no more, too."""
        return NO_LEADER if isinstance(self.role, Resigned) else self.role.election.leader_id

    @property
    def leader_at(self) -> HostPort | None:
        role = self.role
        if isinstance(role, Follower | Prospective):
            return role.leader_at
        if isinstance(role, Leader | Resigned):
            return self._address_of(self.me.id)
        return self._address_of(role.election.leader_id)

    @property
    def is_leader(self) -> bool:
        """May append: its election is on the disk, and it has not resigned."""
        return isinstance(self.role, Leader) and self._persisted == self.role.election

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.me.id, self.me.directory_id)

    @property
    def is_lone_voter(self) -> bool:
        return self.voters.is_only(self.me.id, self.me.directory_id)

    @property
    def next_due_ms(self) -> int:
        """The earliest time at which a Tick changes anything; NEVER when none does."""
        due = min((parked.deadline_ms for parked in self._parked), default=NEVER)
        # What could have been done at the last step was done then.
        later = [line.retry_ms if line.sent_ms < 0 else line.sent_ms + self.timeouts.request_ms for line in self._lines.values()]
        role = self.role
        if isinstance(role, Leader):
            later += self._begin_times(role)
            due = min(due, role.quorum_deadline_ms, self.changes.due_ms)
        else:
            later.append(self._paused_until_ms)
            due = min(due, role.deadline_ms)
        return min(due, *(at for at in (*later, NEVER) if at > self._now_ms))

    # ------------------------------------------------------------ what happens

    def step(self, event: Event, now_ms: int) -> int | ErrorCode | None:
        """A proposal answers with the offset after it (exclusive), or NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST: then nothing happened."""
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
        """What is to be done now; empty when nothing is.  The same until `advance`."""
        if self._in_hand is None:
            self._in_hand, self._ready = self._ready, Ready()
        return self._in_hand

    def advance(self, ready: Ready, now_ms: int) -> None:
        assert ready is self._in_hand, "advance with what ready() gave"
        self._in_hand = None
        if ready.election is not None:
            self._persisted = ready.election
            self._open_epoch(now_ms)

    # ------------------------------------------------------------ time

    def _look_at_the_clock(self, now_ms: int) -> None:
        if self._can_stand and self.is_lone_voter and isinstance(self.role, Unattached | Resigned):
            self._stand(now_ms)
            return
        role = self.role
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

    @property
    def _can_stand(self) -> bool:
        return self._may_vote and not self.is_stopping and self.is_voter and self._installing is None

    def _election_timeout(self) -> int:
        election_ms = self.timeouts.election_ms
        return election_ms + (self._chance.randrange(election_ms) if election_ms > 0 else 0)

    # ------------------------------------------------------------ standing for election

    def _ask_first(self, role: Role, now_ms: int) -> None:
        """Pre-vote: a replica that cannot win disturbs nobody."""
        prospective = Prospective(role.election, now_ms + self._election_timeout(), granted={self.me.id})
        if isinstance(role, Follower):
            prospective.leader_at, prospective.is_over, prospective.is_gone = role.leader_at, role.is_over, role.is_gone
        self._become(prospective, now_ms)
        self._count_votes(now_ms)

    def _not_wanted(self, role: Prospective, now_ms: int) -> None:
        """Back to the leader, if there is one.  One that has resigned comes not back: the next attempt need not wait for it."""
        if role.election.has_leader and role.leader_at is not None:
            patience_ms = self._election_timeout() if role.is_over or role.is_gone else self.timeouts.fetch_ms
            follower = Follower(role.election, role.leader_at, now_ms + patience_ms, is_over=role.is_over, is_gone=role.is_gone)
            self._become(follower, now_ms)
        else:
            self._become(Unattached(role.election, now_ms + self._election_timeout()), now_ms)

    def _stand(self, now_ms: int) -> None:
        """In a new epoch, with its own vote."""
        election = ElectionState(self.epoch + 1, NO_LEADER, *self.me)
        self._become(Candidate(election, now_ms + self._election_timeout(), granted={self.me.id}), now_ms)
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

    def _open_epoch(self, now_ms: int) -> None:
        """The election is on the disk: the epoch may have its first entry."""
        role = self.role
        if not self.is_leader or not isinstance(role, Leader) or self.end_offset > role.epoch_start_offset:
            return
        written = None
        if self.kraft_version > 0:
            voters = self.voters
            if self.addresses:
                voters = voters.with_voter(voters.by_id[self.me.id]._replace(addresses=self.addresses))
            if voters != self.voters or self.history.voters_offset == FORMATTED:
                written = voters
        self._append(LeaderChange(self.me.id, tuple(self.voters.by_id), role.granting_voters, written, self.kraft_version))
        role.replicas[self._my_key] = Replica(self.me.directory_id, self.synced_offset)

    @property
    def _my_key(self) -> ReplicaKey:
        return self.voters.key_of(self.me) or self.me

    def _resign(self, now_ms: int) -> None:
        role = self.role
        assert isinstance(role, Leader)
        followers = [voter.key for voter in self.voters.by_id.values() if voter.id != self.me.id]
        best_first = sorted(followers, key=lambda key: -role.replicas[key].end_offset if key in role.replicas else 1)
        self._become(Resigned(role.election, now_ms + self._election_timeout(), tuple(best_first)), now_ms)

    # ------------------------------------------------------------ requests

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

    @property
    def _known(self) -> tuple[int, int, HostPort | None]:
        """What every answer says."""
        leader_id = self.role.election.leader_id
        return self.epoch, leader_id, self.leader_at if leader_id != NO_LEADER else None

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

    def _is_meant(self, voter: ReplicaKey | None) -> bool:
        return voter is None or (voter.id == self.me.id and voter.directory_id in (ReplicaKey(0).directory_id, self.me.directory_id))

    def _grants(self, request: Vote) -> bool:
        if not self._may_vote:
            return False
        role, election = self.role, self.role.election
        # By what is in the log, durable or not: a candidate that has as much as that has all that this replica ever said it has.
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

    def _leader_is_gone(self, role: Follower, now_ms: int) -> None:
        """Nobody listens where the leader did: no reason to wait for its silence, once, and the others are asked whether they agree.

        Every follower learns it in the same moment, so each waits for those before it in the set of voters.  A leader that is there after
        all is known to be as soon as it answers a fetch."""
        if role.is_over or role.is_gone or role.deadline_ms == NEVER:
            return
        role.is_gone = True
        if self._can_stand:
            others = [voter for voter in self.voters.by_id if voter != role.election.leader_id]
            role.deadline_ms = min(role.deadline_ms, now_ms + STAGGER_MS * (1 + others.index(self.me.id)))
        else:
            role.deadline_ms = now_ms  # an observer asks the voters who leads

    def _successor_backoff(self, preferred: tuple[ReplicaKey, ...]) -> int:
        """The first stands at once, the others give it time."""
        longest_ms = self.timeouts.election_backoff_max_ms
        for position, replica in enumerate(preferred):
            if self._is_meant(replica):
                return 0 if position == 0 else min(longest_ms, (longest_ms >> (len(preferred) - 1)) << (position - 1))
        return longest_ms

    # ------------------------------------------------------------ changes of voters

    def _asked_to_update(self, request: UpdateVoter, now_ms: int) -> EpochAnswer:
        code = self._refusal_unless_leader(request.epoch)
        if code is None and isinstance(self.role, Leader):
            code = self.changes.update(request, self.role, now_ms)
        return EpochAnswer(code or ErrorCode.NONE, *self._known)

    def _asked_to_change(self, token: int, request: AddVoter | RemoveVoter, now_ms: int) -> ChangeAnswer | None:
        role = self.role
        if not self.is_leader or not isinstance(role, Leader):
            return ChangeAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if isinstance(request, AddVoter):
            return self.changes.add(token, request, role, now_ms)
        return self.changes.remove(token, request, role, now_ms)

    def _upgrade(self, now_ms: int) -> int | ErrorCode:
        role = self.role
        if not self.is_leader or not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        mine = self.voters.by_id.get(self.me.id)
        if mine is None:
            return ErrorCode.INVALID_UPDATE_VERSION
        return self.changes.upgrade(role, now_ms, me=self._as_voter(mine))

    @property
    def upgrade_refusal(self) -> ErrorCode | None:
        """Why kraft.version cannot become 1 now."""
        role, mine = self.role, self.voters.by_id.get(self.me.id)
        if not self.is_leader or not isinstance(role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.INVALID_UPDATE_VERSION if mine is None else self.changes.upgrade_refusal(role, self._as_voter(mine))

    def _as_voter(self, voter: Voter) -> Voter:
        """This replica as it is now, in place of what is written of it."""
        return Voter(self.me.id, self.me.directory_id, self.addresses or voter.addresses, *KRAFT_VERSIONS)

    def append_voters(self, change: VotersChange, now_ms: int) -> None:
        """In force at once."""
        role = self.role
        assert isinstance(role, Leader)
        self._append(change)
        role.replicas = rekeyed(role.replicas, self.voters)
        role.heard.clear()
        role.quorum_deadline_ms = self._quorum_deadline(now_ms)

    def reply(self, reply: Reply) -> None:
        self._ready.replies.append(reply)

    def ask_versions(self, line: int, at: HostPort, now_ms: int) -> None:
        self._lines.pop((line, AskVersions), None)
        self._send(line, AskVersions(), now_ms, at)

    # ------------------------------------------------------------ fetches of others

    def _refusal_unless_leader(self, epoch: int) -> ErrorCode | None:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not isinstance(self.role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None if self.is_leader else ErrorCode.BROKER_NOT_AVAILABLE

    def _fetched(self, token: int, fetch: Fetch, now_ms: int) -> FetchAnswer | None:
        """None: parked until there is something to say."""
        if fetch.max_wait_ms < 0 or fetch.offset < 0 or fetch.last_epoch < 0 or fetch.last_epoch > fetch.epoch:
            return FetchAnswer(ErrorCode.INVALID_REQUEST, *self._known)
        refusal = self._refusal_unless_leader(fetch.epoch)
        if refusal is not None:
            return FetchAnswer(refusal, *self._known)
        role = self.role
        assert isinstance(role, Leader)
        place = self._where_logs_part(fetch)
        if place is not None:
            return place
        self._heard_from(role, fetch.replica, fetch.offset, now_ms)
        if self._has_news_for(fetch) or fetch.max_wait_ms == 0 or len(self._parked) >= MAX_PARKED:
            return self._records_for(fetch)
        self._parked.append(_Parked(token, fetch, now_ms + fetch.max_wait_ms))
        return None

    def _where_logs_part(self, fetch: Fetch) -> FetchAnswer | None:
        """None when the replica's log is a beginning of this one.  Source: RaftLog.validateOffsetAndEpoch."""
        start, newest = self.history.start, self.history.newest_snapshot
        is_before = fetch.offset < start.offset or fetch.last_epoch < start.epoch
        is_other_start = fetch.offset == start.offset > 0 and fetch.last_epoch != start.epoch
        if is_before or is_other_start or (fetch.offset == 0 < newest.offset):
            return self._positioned(FetchAnswer(ErrorCode.NONE, *self._known, snapshot_id=newest))
        if fetch.offset == 0:
            return None
        end = self.history.end_of_epoch(fetch.last_epoch)
        if end.epoch != fetch.last_epoch or end.offset < fetch.offset:
            return self._positioned(FetchAnswer(ErrorCode.NONE, *self._known, diverging=end))
        return None

    def _positioned(self, answer: FetchAnswer) -> FetchAnswer:
        high_watermark = -1 if self.high_watermark is None else self.high_watermark
        return answer._replace(high_watermark=high_watermark, log_start_offset=self.history.start.offset)

    def _has_news_for(self, fetch: Fetch) -> bool:
        return fetch.offset < self.end_offset or (self.high_watermark is not None and fetch.high_watermark < self.high_watermark)

    def _records_for(self, fetch: Fetch) -> FetchAnswer:
        read_from = fetch.offset if fetch.offset < self.end_offset else -1
        return self._positioned(FetchAnswer(ErrorCode.NONE, *self._known, read_from=read_from))

    def _answer_parked(self, now_ms: int) -> None:
        if not self._parked:
            return
        waiting = []
        for parked in self._parked:
            refusal = self._refusal_unless_leader(parked.fetch.epoch)
            if refusal is not None:
                self._ready.replies.append(Reply(parked.token, FetchAnswer(refusal, *self._known)))
            elif self._has_news_for(parked.fetch) or now_ms >= parked.deadline_ms:
                self._ready.replies.append(Reply(parked.token, self._records_for(parked.fetch)))
            else:
                waiting.append(parked)
        self._parked = waiting

    def _fetched_snapshot(self, request: FetchSnapshot, now_ms: int) -> FetchSnapshotAnswer:
        """Whether to serve it; the driver adds the bytes, or SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE."""
        refusal = self._refusal_unless_leader(request.epoch)
        role = self.role
        if refusal is None and isinstance(role, Leader):
            key = self.voters.key_of(request.replica)
            if key is not None:
                self._heard_of_voter(role, key, now_ms)
        code = ErrorCode.NONE if refusal is None else refusal
        return FetchSnapshotAnswer(code, *self._known, snapshot_id=request.snapshot_id, position=request.position)

    # ------------------------------------------------------------ what a leader knows of the others

    def _quorum_deadline(self, now_ms: int) -> int:
        return NEVER if len(self.voters) == 1 and self.is_voter else now_ms + int(self.timeouts.fetch_ms * CHECK_QUORUM_FACTOR)

    def _heard_from(self, role: Leader, replica: ReplicaKey, offset: int, now_ms: int) -> None:
        if replica.id < 0 or replica.id == self.me.id:
            return
        key = self.voters.key_of(replica)
        if key is None:
            self._forget_observers(role, now_ms)
            if replica not in role.replicas and len(role.replicas) >= MAX_OBSERVERS:
                return
        known = role.replicas.setdefault(key or replica, Replica())
        if offset >= self.end_offset:
            known.last_caught_up_ms = now_ms
        elif offset >= known.fetched_up_to >= 0:
            known.last_caught_up_ms = known.last_fetch_ms
        known.directory_id, known.last_fetch_ms, known.fetched_up_to = replica.directory_id, now_ms, self.end_offset
        known.end_offset = offset
        if key is not None:
            self._heard_of_voter(role, key, now_ms)
            self._commit(role)

    def _heard_of_voter(self, role: Leader, key: ReplicaKey, now_ms: int) -> None:
        role.replicas.setdefault(key, Replica()).last_fetch_ms = now_ms
        role.heard.add(key)
        heard = sum(voter.key in role.heard for voter in self.voters.by_id.values() if voter.id != self.me.id)
        if heard + self.is_voter >= self.voters.majority:
            role.heard.clear()
            role.quorum_deadline_ms = self._quorum_deadline(now_ms)

    def _forget_observers(self, role: Leader, now_ms: int) -> None:
        if len(role.replicas) > len(self.voters):
            voting = {voter.key for voter in self.voters.by_id.values()}
            role.replicas = {
                key: one for key, one in role.replicas.items() if key in voting or now_ms - one.last_fetch_ms < OBSERVER_SESSION_MS
            }

    def _commit(self, role: Leader) -> None:
        ends = {key: one.end_offset for key, one in role.replicas.items()}
        replicated = self.voters.replicated_offset(ends)
        if replicated > role.epoch_start_offset and (self.high_watermark is None or replicated > self.high_watermark):
            self._move_high_watermark(replicated)

    def _move_high_watermark(self, offset: int) -> None:
        assert self.high_watermark is None or offset > self.high_watermark
        self.high_watermark = self._ready.high_watermark = offset
        if isinstance(self.role, Leader) and self.changes.committed(offset) and not self.is_voter:
            self._resign(self._now_ms)  # removed by itself
        if self.catch_up_offset is None and isinstance(self.role, Leader):
            self.catch_up_offset = offset

    # ------------------------------------------------------------ the log

    def _propose(self, records: tuple[bytes, ...], now_ms: int) -> int | ErrorCode:
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if not 0 < len(records) <= MAX_ENTRY_RECORDS:
            return ErrorCode.INVALID_REQUEST
        self._append(records)
        return self.end_offset

    def _append(self, payload: EntryPayload) -> None:
        entry = Entry(self.end_offset, self.epoch, payload)
        self._ready.entries.append(entry)
        self.history.append(self.epoch, entry.base_offset, entry.next_offset)
        if isinstance(payload, LeaderChange):
            if payload.written is not None:
                self.history.change_voters(entry.base_offset, payload.written, payload.kraft_version)
        elif isinstance(payload, VotersChange):
            self.history.change_voters(entry.base_offset, payload.voters, payload.kraft_version)

    def _synced(self, end_offset: int, now_ms: int) -> None:
        assert end_offset <= self.end_offset, f"{end_offset} is beyond the log's end {self.end_offset}"
        self._truncation_is_unsynced = False
        self.synced_offset = max(self.synced_offset, end_offset)
        role = self.role
        if isinstance(role, Leader) and self._my_key in role.replicas:
            role.replicas[self._my_key].end_offset = self.synced_offset
            self._commit(role)

    def _lost(self, end_offset: int, now_ms: int) -> None:
        self.history.truncate(end_offset)
        self.synced_offset = min(self.synced_offset, end_offset)
        for ready in (self._ready, self._in_hand):
            if ready is not None:
                ready.entries.clear()
        if isinstance(self.role, Leader):
            self._resign(now_ms)
        self._paused_until_ms = now_ms + self.timeouts.election_ms

    def _snapshot_installed(self, event: SnapshotInstalled) -> None:
        role = self.role
        assert self._installing == event.snapshot_id, f"{event.snapshot_id} was not fetched"
        self.history.replace(event.snapshot_id, event.voters, event.kraft_version)
        self.synced_offset = self.end_offset
        if self.high_watermark is None or event.snapshot_id.offset > self.high_watermark:
            self._move_high_watermark(event.snapshot_id.offset)
        self._installing = None
        if isinstance(role, Follower):
            role.snapshot = None

    def _snapshot_refused(self, now_ms: int) -> None:
        self._installing = None
        self._paused_until_ms = now_ms + self.timeouts.election_ms
        if isinstance(self.role, Follower):
            self.role.snapshot = None

    # ------------------------------------------------------------ answers

    def _answered(self, event: Answered, now_ms: int) -> None:
        to, number, answer = event.to, event.number, event.answer
        line = next((one for (at, _), one in self._lines.items() if at == to and one.number == number and one.sent_ms >= 0), None)
        if line is None:
            return  # of a role that is over, or too late
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
        """What any answer can say of epochs and leaders.  Whether that is all there is to it."""
        if answer.epoch < self.epoch or answer.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            return True
        if answer.epoch > self.epoch or answer.error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
            self._learn(answer.epoch, answer.leader_id, answer.leader_at, now_ms)
            return True
        self._learn(answer.epoch, answer.leader_id, answer.leader_at, now_ms)
        return answer.error is not ErrorCode.NONE and not isinstance(answer, FetchSnapshotAnswer)

    def _vote_answered(self, to: int, answer: VoteAnswer, now_ms: int) -> None:
        role = self.role
        if isinstance(role, Prospective | Candidate) and to in self.voters.by_id:
            (role.granted if answer.is_granted else role.rejected).add(to)
            self._count_votes(now_ms)

    def _fetch_answered(self, answer: FetchAnswer, line: _Line, now_ms: int) -> None:
        role = self.role
        if not isinstance(role, Follower) or answer.leader_id != role.election.leader_id or self.synced_offset < self.end_offset:
            return
        if answer.diverging is not None:
            self._truncate(answer.diverging)
        elif answer.snapshot_id is not None:
            if answer.snapshot_id.offset > (self.high_watermark or 0):
                role.snapshot = answer.snapshot_id, 0
        else:
            if answer.batches and not self._append_fetched(answer):
                line.retry_ms = now_ms + self.timeouts.retry_backoff_ms
                return
            if answer.high_watermark >= 0:
                if self.catch_up_offset is None:
                    self.catch_up_offset = answer.high_watermark
                offset = min(answer.high_watermark, self.end_offset)
                if self.high_watermark is None or offset > self.high_watermark:
                    self._move_high_watermark(offset)
        role.has_fetched, role.is_gone = True, False
        self._elections_lost = 0
        role.deadline_ms = now_ms + self.timeouts.fetch_ms

    def _append_fetched(self, answer: FetchAnswer) -> bool:
        """Whether they follow what is here."""
        base_offset = self.end_offset
        expected, last_epoch = base_offset, self.history.last_epoch
        for batch in answer.batches:
            if batch.base_offset != expected or not last_epoch <= batch.epoch <= self.epoch or batch.next_offset <= expected:
                return False
            expected, last_epoch = batch.next_offset, batch.epoch
        for batch in answer.batches:
            self.history.append(batch.epoch, batch.base_offset, batch.next_offset)
            if batch.voters is not None or batch.kraft_version is not None:
                self.history.change_voters(batch.base_offset, batch.voters, batch.kraft_version)
        self._ready.entries.append(Fetched(base_offset, self.end_offset, self.epoch, answer.records))
        return True

    def _truncate(self, leaders: OffsetAndEpoch) -> None:
        """To where the logs are the same.  Errors: AssertionError below what is committed, which a correct leader never asks for."""
        mine = self.history.end_of_epoch(leaders.epoch)
        offset = min(mine.offset, leaders.offset) if mine.epoch == leaders.epoch else mine.offset
        committed = max(self.high_watermark or 0, self.history.start.offset)
        assert offset >= committed, f"the leader asks to truncate to {offset}, but everything below {committed} is committed"
        self.history.truncate(offset)
        self.synced_offset = min(self.synced_offset, offset)
        self._ready.truncate_to = offset
        self._truncation_is_unsynced = True

    def _snapshot_answered(self, answer: FetchSnapshotAnswer, line: _Line, now_ms: int) -> None:
        role = self.role
        if not isinstance(role, Follower) or role.snapshot is None:
            return
        wanted, position = role.snapshot
        size = 0 if answer.data is None else len(answer.data)
        is_usable = answer.snapshot_id == wanted and answer.position == position and 0 < size <= answer.size - position
        if answer.error is not ErrorCode.NONE or not is_usable:
            role.snapshot = None  # the next fetch tells which there is now
            line.retry_ms = now_ms + self.timeouts.retry_backoff_ms
            return
        assert answer.data is not None
        is_last = position + size == answer.size
        self._ready.snapshot_chunks.append(SnapshotChunk(wanted, position, answer.data, is_last))
        role.snapshot = wanted, position + size
        role.deadline_ms = now_ms + self.timeouts.fetch_ms
        if is_last:
            self._installing = wanted

    # ------------------------------------------------------------ epochs and leaders

    def _learn(self, epoch: int, leader_id: int, leader_at: HostPort | None, now_ms: int) -> None:
        """Somebody says that this epoch is, and perhaps who leads it."""
        if epoch < self.epoch or leader_id == self.me.id:
            return
        role, election = self.role, self.role.election
        at = leader_at or self._address_of(leader_id)
        if epoch == self.epoch:
            if leader_id == NO_LEADER or isinstance(role, Leader | Resigned):
                return
            if isinstance(role, Follower):
                if at is not None and leader_id == election.leader_id:
                    role.leader_at = at
                    if role.deadline_ms == NEVER:  # an observer that has found its leader again
                        role.deadline_ms, role.is_gone = now_ms + self.timeouts.fetch_ms, False
                return
            is_known = isinstance(role, Prospective) or at is None or leader_id != election.leader_id
            if election.has_leader and is_known:
                return
            election = election._replace(leader_id=leader_id)
        else:
            election = ElectionState(epoch, leader_id)
        if leader_id != NO_LEADER and at is not None:
            self._become(Follower(election, at, now_ms + self.timeouts.fetch_ms), now_ms)
        else:
            self._become(Unattached(election, self._patience(role, now_ms)), now_ms)

    def _patience(self, role: Role, now_ms: int) -> int:
        """Who was waiting to stand waits no longer for having heard of an epoch."""
        if not self._can_stand:
            return NEVER
        if isinstance(role, Unattached | Prospective | Candidate) and role.deadline_ms < NEVER:
            return max(role.deadline_ms, now_ms)
        return now_ms + self._election_timeout()

    def _become(self, role: Role, now_ms: int) -> None:
        assert type(role) in ALLOWED[type(self.role)], f"{type(self.role).__name__} does not become {type(role).__name__}"
        assert role.election.epoch >= self.epoch, "an epoch never goes back"
        if isinstance(self.role, Leader):
            self.changes.forget()
        self.role = role
        self._to_persist(role.election)
        self._lines.clear()
        self._has_told_leader = False
        self._note_leader()

    def _to_persist(self, election: ElectionState) -> ElectionState:
        underway = self._in_hand.election if self._in_hand is not None else None
        if election != (underway or self._persisted):
            self._ready.election = election
        else:
            self._ready.election = None
        return election

    def _note_leader(self) -> None:
        if (self.leader_id, self.epoch) != self._told_leader:
            self._told_leader = self._ready.leader = (self.leader_id, self.epoch)

    def _address_of(self, node_id: int) -> HostPort | None:
        voter = self.voters.by_id.get(node_id)
        if voter is None:
            return None
        return voter.listens_at(self.listener_name)

    # ------------------------------------------------------------ requests of its own

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
                if not unattached.election.has_voted or unattached.election.has_leader:
                    self._look_for_leader(now_ms)
            case Resigned() as resigned:
                for voter in self.voters.by_id.values():
                    if voter.id != self.me.id and voter.id not in resigned.told:
                        self._send(voter.id, EndEpoch(self.epoch, self.me.id, self._my_address, resigned.preferred), now_ms)

    @property
    def _my_address(self) -> HostPort | None:
        for address in self.addresses:
            if address.name.upper() == self.listener_name.upper():
                return HostPort(address.host, address.port)
        return self._address_of(self.me.id)

    def _ask_for_votes(self, role: Prospective | Candidate, now_ms: int) -> None:
        if isinstance(role, Candidate) and role.is_lost:
            return
        # What is on the disk: what a crash could take away must not win a vote that is given twice to the same candidate.
        last_epoch = self.history.epoch_before(self.synced_offset)
        for voter in self.voters.by_id.values():
            if voter.id not in role.granted and voter.id not in role.rejected:
                vote = Vote(self.epoch, self.me, voter.key, last_epoch, self.synced_offset, isinstance(role, Prospective))
                self._send(voter.id, vote, now_ms)

    def _begin_times(self, role: Leader) -> list[int]:
        """When each voter is to be told of the epoch, unless it fetches before."""
        interval_ms = self.timeouts.fetch_ms // 2
        times = []
        for voter in self.voters.by_id.values():
            if voter.id != self.me.id:
                known = role.replicas.get(voter.key)
                heard_ms = known.last_fetch_ms + interval_ms if known is not None and known.last_fetch_ms >= 0 else role.began_ms
                line = self._lines.get((voter.id, BeginEpoch))
                if line is None or line.sent_ms < 0:
                    times.append(max(heard_ms, line.retry_ms if line is not None else 0))
        return times

    def _tell_of_epoch(self, role: Leader, now_ms: int) -> None:
        interval_ms = self.timeouts.fetch_ms // 2
        for voter in self.voters.by_id.values():
            known = role.replicas.get(voter.key)
            is_silent = known is None or known.last_fetch_ms < 0 or now_ms - known.last_fetch_ms >= interval_ms
            if voter.id != self.me.id and is_silent:
                begin = BeginEpoch(self.epoch, self.me.id, self._my_address, voter.key)
                self._send(voter.id, begin, now_ms)

    def _fetch(self, role: Follower, now_ms: int) -> None:
        if role.snapshot is not None:
            if self._installing is None:
                wanted, position = role.snapshot
                self._send(role.election.leader_id, FetchSnapshot(self.epoch, self.me, wanted, position), now_ms, role.leader_at)
            return
        if role.deadline_ms == NEVER:  # an observer whose leader is silent
            self._look_for_leader(now_ms)
            return
        if self._may_fetch(now_ms):
            self._send(role.election.leader_id, self._next_fetch(), now_ms, role.leader_at)
        request = self._what_to_tell_leader()
        if request is not None and role.has_fetched:
            self._send(role.election.leader_id, request, now_ms, role.leader_at)

    def _what_to_tell_leader(self) -> UpdateVoter | AddVoter | RemoveVoter | None:
        """That this voter is not as its leader thinks, or that this replica wants to vote."""
        known = self.voters.by_id.get(self.me.id)
        if not self.addresses:
            return None
        if known is not None and self.is_voter:
            mine = self._as_voter(known)
            is_untold = mine != known if self.kraft_version > 0 else not self._has_told_leader
            return UpdateVoter(self.epoch, mine) if is_untold else None
        if not self._may_join or self.kraft_version < 1 or self.is_stopping:
            return None
        if known is not None:  # its directory was replaced
            return RemoveVoter(known.key)
        return AddVoter(Voter(self.me.id, self.me.directory_id, self.addresses), self.timeouts.request_ms, waits_for_commit=False)

    def _may_fetch(self, now_ms: int) -> bool:
        """A fetch says what is on the disk."""
        if now_ms >= self._paused_until_ms:
            self._paused_until_ms = 0
        return (
            self._paused_until_ms == 0
            and self._installing is None
            and self.synced_offset == self.end_offset
            and not self._truncation_is_unsynced
        )

    def _next_fetch(self) -> Fetch:
        high_watermark = -1 if self.high_watermark is None else self.high_watermark
        return Fetch(self.epoch, self.me, self.end_offset, self.history.last_epoch, high_watermark, self.timeouts.fetch_max_wait_ms)

    def _look_for_leader(self, now_ms: int) -> None:
        """Ask one after the other: the servers of the options, then the voters that the log names."""
        voting = (voter.listens_at(self.listener_name) for voter in self.voters.by_id.values() if voter.id != self.me.id)
        mine = self._my_address
        places = [at for at in dict.fromkeys((*self._bootstrap, *voting)) if at is not None and at != mine]
        if not places or not self._may_fetch(now_ms) or self._is_asking(now_ms):
            return
        number = self._next_bootstrap % len(places)
        if self._send(FIRST_BOOTSTRAP - number, self._next_fetch(), now_ms, places[number]):
            self._next_bootstrap = number + 1

    def _is_asking(self, now_ms: int) -> bool:
        return any(to <= FIRST_BOOTSTRAP and (line.sent_ms >= 0 or line.retry_ms > now_ms) for (to, _), line in self._lines.items())

    def _send(self, to: int, request: RaftRequest, now_ms: int, at: HostPort | None = None) -> bool:
        at = at or self._address_of(to)
        line = self._lines.setdefault((to, type(request)), _Line())
        if at is None or line.sent_ms >= 0 or now_ms < line.retry_ms:
            return False
        self._numbers += 1
        line.number, line.sent_ms = self._numbers, now_ms
        self._ready.sends.append(Send(to, at, self._numbers, request))
        return True

    def _line_failed(self, line: _Line, now_ms: int) -> None:
        line.sent_ms, line.retry_ms = -1, now_ms + self.timeouts.retry_backoff_ms
