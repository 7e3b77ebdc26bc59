"""◇ The roles of a node in its epoch, which role may follow which, and the state that outlives the process.

    Unattached ─▶ Prospective ─▶ Candidate ─▶ Leader ─▶ Resigned
        ▲  ▲__________│  ▲____________│         │           │
        │_______________________________________│___________│      Follower ◀── from any that learns of a leader

`ALLOWED` is that drawing as data.  `ElectionState` must be on the disk before a vote or an epoch is acted on.  It is the file
`quorum-state`, JSON as Kafka writes it.

Source: QuorumState.java, ElectionState.java, FileQuorumStateStore.java; KIP-595, 853, 996.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from moldau.raft.voters import HostPort, ReplicaKey
from moldau.types import NO_LEADER, ZERO_UUID, OffsetAndEpoch, uuid_from_text, uuid_to_text

NO_VOTE: Final = -1
FIELDS: Final = {
    0: {"clusterId", "leaderId", "leaderEpoch", "votedId", "appliedOffset", "currentVoters", "data_version"},
    1: {"leaderId", "leaderEpoch", "votedId", "votedDirectoryId", "data_version"},
}
"""The fields of the file, by its version."""


class CorruptQuorumState(ValueError):
    """The file quorum-state cannot be what a node wrote."""


class ElectionState(NamedTuple):
    """The newest epoch, its leader, and this node's vote in it."""

    epoch: int = 0
    leader_id: int = NO_LEADER
    voted_id: int = NO_VOTE
    voted_directory_id: UUID = ZERO_UUID

    @property
    def has_leader(self) -> bool:
        return self.leader_id != NO_LEADER

    @property
    def has_voted(self) -> bool:
        return self.voted_id != NO_VOTE

    def voted_for(self, replica: ReplicaKey) -> bool:
        return self.voted_id == replica.id and self.voted_directory_id in (ZERO_UUID, replica.directory_id)

    def to_json(self, kraft_version: int, voter_ids: tuple[int, ...] = ()) -> bytes:
        """Version 0 of the file for a fixed voter set, version 1 for one that can change."""
        state: dict[str, Any]
        if kraft_version == 0:
            state = {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.epoch,
                "votedId": self.voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": voter} for voter in voter_ids],
                "data_version": 0,
            }
        else:
            state = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.epoch,
                "votedId": self.voted_id,
                "votedDirectoryId": uuid_to_text(self.voted_directory_id),
                "data_version": 1,
            }
        return json.dumps(state, separators=(",", ":")).encode("ascii")

    @classmethod
    def from_json(cls, data: bytes) -> "ElectionState":
        """Errors: CorruptQuorumState."""
        try:
            state = json.loads(data)
            fields = FIELDS.get(state["data_version"])
            if fields is None:
                raise CorruptQuorumState(f"version {state['data_version']} of it is not known here: 0 and 1 are")
            if not fields <= state.keys():
                raise CorruptQuorumState(f"it has no {', '.join(sorted(fields - state.keys()))}")
            epoch, leader_id, voted_id = state["leaderEpoch"], state["leaderId"], state["votedId"]
            if not all(type(number) is int for number in (epoch, leader_id, voted_id)) or min(epoch, leader_id + 1, voted_id + 1) < 0:
                raise CorruptQuorumState(f"epoch {epoch}, leader {leader_id} and vote {voted_id} cannot be")
            return cls(epoch, leader_id, voted_id, uuid_from_text(state["votedDirectoryId"]) if "votedDirectoryId" in fields else ZERO_UUID)
        except (ValueError, KeyError, TypeError, UnicodeDecodeError) as error:
            if isinstance(error, CorruptQuorumState):
                raise
            raise CorruptQuorumState(f"it is no quorum state: {error!r}") from error


NEVER: Final = 1 << 62
"""A deadline that does not come."""


@dataclass(slots=True)
class Unattached:
    """Knows its epoch, perhaps its vote in it, perhaps its leader, but not the leader's address: it looks for the leader."""

    election: ElectionState
    deadline_ms: int = NEVER
    """The time at which a voter stands for election."""


@dataclass(slots=True)
class Prospective:
    """Asks whether it would get votes, without starting an epoch (pre-vote)."""

    election: ElectionState
    deadline_ms: int
    leader_at: HostPort | None = None
    """The address of its lost leader; it goes back to it if it does not get the pre-votes."""
    is_over: bool = False
    is_gone: bool = False
    """Whether that leader is gone, as in `Follower`."""
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Candidate:
    """Has voted for itself in a new epoch and asks for the others' votes."""

    election: ElectionState
    deadline_ms: int
    is_lost: bool = False
    """Whether a majority has refused: it waits until its deadline and tries again."""
    granted: set[int] = field(default_factory=set)
    rejected: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Replica:
    """A leader's knowledge of a fetching replica.  `end_offset` (exclusive) is on that replica's disk; -1 while not known."""

    directory_id: UUID = ZERO_UUID
    end_offset: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    fetched_up_to: int = -1
    """The leader's log end when the replica fetched last."""


@dataclass(slots=True)
class Leader:
    """Appends.  Nothing is committed up to `epoch_start_offset`, inclusive."""

    election: ElectionState
    epoch_start_offset: int
    granting_voters: tuple[int, ...]
    began_ms: int
    quorum_deadline_ms: int
    """The time at which it resigns, unless a majority fetches before."""
    replicas: dict[ReplicaKey, Replica] = field(default_factory=dict)
    """Voters, itself among them, and observers that fetch."""
    heard: set[ReplicaKey] = field(default_factory=set)
    """The voters that fetched since a majority was counted last."""


@dataclass(slots=True)
class Follower:
    """Fetches from the leader that it knows."""

    election: ElectionState
    leader_at: HostPort
    deadline_ms: int
    has_fetched: bool = False
    is_over: bool = False
    """Whether the leader has said that it leads no more."""
    is_gone: bool = False
    """Whether the leader's address stopped listening, until it answers again."""
    snapshot: tuple[OffsetAndEpoch, int] | None = None
    """The snapshot that it fetches instead of the log, and how many bytes of it are here."""


@dataclass(slots=True)
class Resigned:
    """Led its epoch and leads it no more: it tells the others, and waits for the next epoch."""

    election: ElectionState
    deadline_ms: int
    preferred: tuple[ReplicaKey, ...] = ()
    told: set[int] = field(default_factory=set)


Role: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned

ALLOWED: Final[dict[type, frozenset[type]]] = {
    Unattached: frozenset({Unattached, Prospective, Candidate, Follower}),
    Prospective: frozenset({Unattached, Prospective, Candidate, Follower}),
    Candidate: frozenset({Unattached, Prospective, Leader, Follower}),
    Leader: frozenset({Unattached, Follower, Resigned}),
    Follower: frozenset({Unattached, Prospective, Follower}),
    Resigned: frozenset({Unattached, Candidate, Follower}),
}
"""The roles that may follow each role.  Only a lone voter goes from Unattached or Resigned to Candidate: it has no other voter to ask."""
