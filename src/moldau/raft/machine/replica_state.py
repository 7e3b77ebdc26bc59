"""◇ The state of a replica of the metadata log: its log, its role, its knowledge of others, and its next orders.  Only this module changes
the role and the epoch.  What has to be on the disk goes into the next `Ready`.  One request of a kind is under way to each replica.
`leading.py`, `following.py` and `electing.py` decide on top of it, `node.py` puts them together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from moldau.errors import ErrorCode
from moldau.raft.events import Chance, Ready, Reply, Send, Timeouts
from moldau.raft.history import LogHistory
from moldau.raft.messages import AskVersions, Fetch, RaftRequest
from moldau.raft.roles import ALLOWED, NEVER, Candidate, ElectionState, Follower, Leader, Prospective, Resigned, Role, Unattached
from moldau.raft.voters import Address, HostPort, ReplicaKey, VoterSet
from moldau.types import NO_LEADER, OffsetAndEpoch


@dataclass(slots=True)
class Line:
    """One kind of request to one replica: one is under way at a time."""

    number: int = 0
    sent_ms: int = -1
    """The time of sending; -1: none is under way."""
    retry_ms: int = 0


class Parked(NamedTuple):
    """A fetch that waits for news."""

    token: int
    fetch: Fetch
    deadline_ms: int


class ReplicaState:
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

        `addresses`: its addresses if it votes; `bootstrap`: further addresses at which to look for the leader.
        """
        self.me: Final = me
        self.history: Final = history
        self.timeouts: Final = timeouts
        self.addresses: Final = addresses
        self.listener_name: Final = listener_name
        self.high_watermark: int | None = None
        """The high watermark; None until the first commit of a leader's epoch is known."""
        self.catch_up_offset: int | None = None
        """The committed end (exclusive) when this node first learned of it."""
        self.synced_offset = history.end_offset
        self.is_stopping = False
        self._may_vote: Final = may_vote
        self._chance: Final = chance
        self._bootstrap: Final = tuple(bootstrap)
        self._next_bootstrap = 0
        self._persisted = election
        self._elections_lost = 0
        self._lines: dict[tuple[int, type], Line] = {}
        self._numbers = 0
        self._parked: list[Parked] = []
        self._ready = Ready()
        self._in_hand: Ready | None = None
        self._truncation_is_unsynced = False
        self._paused_until_ms = 0
        self._may_join: Final = may_join
        self._has_told_leader = False
        self._installing: OffsetAndEpoch | None = None
        """A snapshot that the driver is putting in place of the log."""
        self._now_ms = now_ms
        self.role: Role = self._first_role(election, now_ms)
        self._told_leader = (NO_LEADER, self.epoch)
        self._note_leader()

    def _first_role(self, election: ElectionState, now_ms: int) -> Role:
        """The first role.

        A former leader starts resigned: records that it had not synced are lost, and its epoch must not go on without them.
        """
        deadline_ms = now_ms + self._election_timeout() if self._can_stand else NEVER
        if election.epoch < self.history.last_epoch:
            return Unattached(ElectionState(self.history.last_epoch), deadline_ms)
        if election.leader_id == self.me.id:
            return Resigned(election, now_ms + self._election_timeout())
        if self._can_stand and election.has_voted and election.voted_for(self.me) and not election.has_leader:
            return Candidate(election, deadline_ms, granted=self._own_vote)
        leader_at = self._address_of(election.leader_id)
        if election.has_leader and leader_at is not None:
            return Follower(election, leader_at, now_ms + self.timeouts.fetch_ms)
        return Unattached(election, deadline_ms)

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
        """The leader; also NO_LEADER when this node has led its epoch and does no more."""
        return NO_LEADER if isinstance(self.role, Resigned) else self.role.election.leader_id

    @property
    def leader_at(self) -> HostPort | None:
        role = self.role
        if isinstance(role, Follower | Prospective):
            return role.leader_at
        if isinstance(role, Leader | Resigned):
            return self._my_address
        return self._address_of(role.election.leader_id)

    @property
    def is_leader(self) -> bool:
        """Whether this node may append: its election is on the disk, and it has not resigned."""
        return isinstance(self.role, Leader) and self._persisted == self.role.election

    @property
    def is_voter(self) -> bool:
        return self.voters.is_voter(self.me.id, self.me.directory_id)

    @property
    def is_lone_voter(self) -> bool:
        return self.voters.is_only(self.me.id, self.me.directory_id)

    @property
    def _can_stand(self) -> bool:
        is_needed = self.is_voter or self._is_removal_open
        return self._may_vote and not self.is_stopping and is_needed and self._installing is None

    @property
    def _is_removal_open(self) -> bool:
        """Whether this replica votes no more by its log, but by what is known to be committed.

        The removal may be in no other log.  Then the others cannot win without this replica's vote, and their logs are behind.  So this
        replica stands until it knows that the removal is committed; its own vote does not count.

        Source: D. Ongaro, Consensus: Bridging Theory and Practice, 4.2.2.
        """
        committed = self.history.start.offset if self.high_watermark is None else self.high_watermark
        return not self.is_voter and self.history.voters_at(committed).voters.is_voter(self.me.id, self.me.directory_id)

    @property
    def _own_vote(self) -> set[int]:
        return {self.me.id} if self.is_voter else set()

    def _election_timeout(self) -> int:
        election_ms = self.timeouts.election_ms
        return election_ms + (self._chance.randrange(election_ms) if election_ms > 0 else 0)

    @property
    def _known(self) -> tuple[int, int, HostPort | None]:
        """The fields of every answer."""
        leader_id = self.role.election.leader_id
        return self.epoch, leader_id, self.leader_at if leader_id != NO_LEADER else None

    def _is_meant(self, voter: ReplicaKey | None) -> bool:
        return voter is None or (voter.id == self.me.id and voter.directory_id in (ReplicaKey(0).directory_id, self.me.directory_id))

    def _refusal_unless_leader(self, epoch: int) -> ErrorCode | None:
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not isinstance(self.role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return None if self.is_leader else ErrorCode.BROKER_NOT_AVAILABLE

    @property
    def _my_key(self) -> ReplicaKey:
        return self.voters.key_of(self.me) or self.me

    @property
    def _my_address(self) -> HostPort | None:
        for address in self.addresses:
            if address.name.upper() == self.listener_name.upper():
                return HostPort(address.host, address.port)
        return self._address_of(self.me.id)

    def _address_of(self, node_id: int) -> HostPort | None:
        voter = self.voters.by_id.get(node_id)
        if voter is None:
            return None
        return voter.listens_at(self.listener_name)

    def _learn(self, epoch: int, leader_id: int, leader_at: HostPort | None, now_ms: int) -> None:
        """Learn of an epoch, and perhaps of its leader."""
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
        """Keep the time of standing for election: hearing of an epoch does not prolong the wait."""
        if not self._can_stand:
            return NEVER
        if isinstance(role, Unattached | Prospective | Candidate) and role.deadline_ms < NEVER:
            return max(role.deadline_ms, now_ms)
        return now_ms + self._election_timeout()

    def _become(self, role: Role, now_ms: int) -> None:
        assert type(role) in ALLOWED[type(self.role)], f"{type(self.role).__name__} does not become {type(role).__name__}"
        assert role.election.epoch >= self.epoch, "an epoch never goes back"
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

    def reply(self, reply: Reply) -> None:
        self._ready.replies.append(reply)

    def ask_versions(self, line: int, at: HostPort, now_ms: int) -> None:
        """Ask the replica at an address, not yet a voter, for its versions; an earlier question on that line is forgotten."""
        self._lines.pop((line, AskVersions), None)
        self._send(line, AskVersions(), now_ms, at)

    def _may_ask(self, to: int, kind: type, now_ms: int) -> bool:
        """Whether a request of this kind may leave now: most events find one under way, and need not make another."""
        line = self._lines.get((to, kind))
        return line is None or (line.sent_ms < 0 and now_ms >= line.retry_ms)

    def _send(self, to: int, request: RaftRequest, now_ms: int, at: HostPort | None = None) -> bool:
        line = self._lines.get((to, type(request)))
        if line is None:
            line = self._lines[to, type(request)] = Line()
        elif line.sent_ms >= 0 or now_ms < line.retry_ms:
            return False
        at = at or self._address_of(to)
        if at is None:
            return False
        self._numbers += 1
        line.number, line.sent_ms = self._numbers, now_ms
        self._ready.sends.append(Send(to, at, self._numbers, request))
        return True

    def _line_failed(self, line: Line, now_ms: int) -> None:
        line.sent_ms, line.retry_ms = -1, now_ms + self.timeouts.retry_backoff_ms
