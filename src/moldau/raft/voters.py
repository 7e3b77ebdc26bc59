"""◇ The voter set, its two written forms, and its majority.

A set from `controller.quorum.voters` is fixed and knows no directory ids; one from a `VotersRecord` in the log or in a snapshot can change
(kraft.version 1, KIP-853).

Source: VoterSet.java, QuorumConfig.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from moldau.config import ConfigError
from moldau.raft.records import Endpoint, KRaftVersionFeature, VotersRecord, VotersRecordVoter
from moldau.types import ZERO_UUID, uuid_to_text

KRAFT_VERSIONS: Final = (0, 1)
"""Lowest and highest kraft.version that this node can work with."""


class HostPort(NamedTuple):
    """The address of a voter."""

    host: str
    port: int


class ReplicaKey(NamedTuple):
    """One copy of the log: a node whose directory was replaced is another replica.  A zero directory is unknown."""

    id: int
    directory_id: UUID = ZERO_UUID

    def __str__(self) -> str:
        return str(self.id) if self.directory_id == ZERO_UUID else f"{self.id} ({uuid_to_text(self.directory_id)})"


class Address(NamedTuple):
    """The address of a voter, by the name of the listener."""

    name: str
    host: str
    port: int


class Voter(NamedTuple):
    """A voter.  `directory_id` is zero in a fixed set: there the node's number alone counts."""

    id: int
    directory_id: UUID
    addresses: tuple[Address, ...]
    min_kraft_version: int = KRAFT_VERSIONS[0]
    max_kraft_version: int = KRAFT_VERSIONS[1]

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.id, self.directory_id)

    def listens_at(self, listener_name: str) -> HostPort | None:
        """The voter's address on that listener; a voter of a fixed set has one address, under any name."""
        for address in self.addresses:
            if address.name.upper() == listener_name.upper():
                return HostPort(address.host, address.port)
        return None


class VoterSet:
    """The voters of one moment; never changed."""

    __slots__ = ("by_id", "keys")

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self.by_id: Final[Mapping[int, Voter]] = {voter.id: voter for voter in sorted(voters)}
        self.keys: Final[Mapping[int, ReplicaKey]] = {voter.id: voter.key for voter in self.by_id.values()}
        """The keys of the voters, by id: a leader looks them up with every event."""

    @classmethod
    def from_option(cls, entries: Sequence[str], listener_name: str) -> "VoterSet":
        """The set in `controller.quorum.voters`: id@host:port,…  Errors: ConfigError."""
        key = "controller.quorum.voters"
        voters = []
        for entry in entries:
            number, at, address = entry.partition("@")
            host, colon, port = address.rpartition(":")
            if not (at and colon and number.isascii() and number.isdigit() and port.isascii() and port.isdigit() and host):
                raise ConfigError(key, entry, "each entry is id@host:port, as in 1@controller1.example.com:9093")
            voters.append(Voter(int(number), ZERO_UUID, (Address(listener_name, host.strip("[]"), int(port)),)))
        if len({voter.id for voter in voters}) < len(voters):
            raise ConfigError(key, ",".join(entries), "a controller is there twice")
        return cls(voters)

    @classmethod
    def from_record(cls, record: VotersRecord) -> "VoterSet":
        return cls(
            Voter(
                voter.voter_id,
                voter.voter_directory_id,
                tuple(Address(end.name, end.host, end.port) for end in voter.endpoints),
                voter.kraft_version_feature.min_supported_version,
                voter.kraft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                VotersRecordVoter(
                    voter_id=voter.id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[Endpoint(name=at.name, host=at.host, port=at.port) for at in voter.addresses],
                    kraft_version_feature=KRaftVersionFeature(
                        min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
                    ),
                )
                for voter in self.by_id.values()
            ],
        )

    def __len__(self) -> int:
        return len(self.by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self.by_id == other.by_id

    def __hash__(self) -> int:
        return hash(tuple(self.by_id.values()))

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(map(str, self.by_id))})"

    @property
    def majority(self) -> int:
        """The number of voters that decide."""
        return len(self.by_id) // 2 + 1

    def is_voter(self, node_id: int, directory_id: UUID) -> bool:
        """Whether this very replica votes: in a set with directory ids a replaced directory is another replica."""
        voter = self.by_id.get(node_id)
        return voter is not None and voter.directory_id in (directory_id, ZERO_UUID)

    def key_of(self, replica: ReplicaKey) -> ReplicaKey | None:
        """The key of this replica's voter in the set; None if it does not vote."""
        key = self.keys.get(replica.id)
        return key if key is not None and key.directory_id in (replica.directory_id, ZERO_UUID) else None

    def with_voter(self, voter: Voter) -> "VoterSet":
        """The set with this voter, added or in place of the one with its id."""
        return VoterSet({**self.by_id, voter.id: voter}.values())

    def without(self, voter_id: int) -> "VoterSet":
        return VoterSet(voter for voter in self.by_id.values() if voter.id != voter_id)

    def is_only(self, node_id: int, directory_id: UUID) -> bool:
        return len(self.by_id) == 1 and self.is_voter(node_id, directory_id)

    def replicated_offset(self, end_offsets: Mapping[ReplicaKey, int]) -> int:
        """The offset (exclusive) up to which a majority has the log.  A voter that has not been heard of counts as having nothing."""
        descending = sorted((end_offsets.get(key, 0) for key in self.keys.values()), reverse=True)
        return descending[len(descending) // 2]


def parse_bootstrap(servers: Sequence[str]) -> list[HostPort]:
    """The addresses in `controller.quorum.bootstrap.servers`: host:port,…  Errors: ConfigError."""
    found = []
    for server in servers:
        host, colon, port = server.strip().rpartition(":")
        if not (colon and host and port.isascii() and port.isdigit() and int(port) < 1 << 16):
            raise ConfigError("controller.quorum.bootstrap.servers", server, "each entry is host:port, as in controller1.example.com:9093")
        found.append(HostPort(host.strip("[]"), int(port)))
    return found
