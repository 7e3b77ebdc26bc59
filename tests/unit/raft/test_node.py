"""Edges of the consensus machine; its dialogues are in tests/scripts/raft, its simulation in proof/raft."""

from random import Random
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.raft.events import MAX_ENTRY_RECORDS, Proposal, Resign, Synced, Tick
from moldau.raft.history import FORMATTED, LogHistory, VoterChange
from moldau.raft.node import RaftNode
from moldau.raft.roles import ElectionState
from moldau.raft.voters import Address, ReplicaKey, Voter, VoterSet

DIRECTORY = UUID(int=1)


def a_leader() -> RaftNode:
    voters = VoterSet([Voter(1, DIRECTORY, (Address("CONTROLLER", "h", 1),))])
    node = RaftNode(
        ReplicaKey(1, DIRECTORY),
        LogHistory(changes=[VoterChange(FORMATTED, voters, 0)]),
        election=ElectionState(),
        chance=Random(1),
        now_ms=0,
    )
    node.step(Tick(), 0)
    for _ in range(3):
        node.advance(node.ready(), 0)
    assert node.is_leader
    return node


def test_an_entry_has_records_and_not_too_many() -> None:
    node = a_leader()
    assert node.step(Proposal(()), 0) is ErrorCode.INVALID_REQUEST
    assert node.step(Proposal((b"",) * (MAX_ENTRY_RECORDS + 1)), 0) is ErrorCode.INVALID_REQUEST
    assert node.end_offset == 1
    assert node.step(Proposal((b"",) * MAX_ENTRY_RECORDS), 0) == 1 + MAX_ENTRY_RECORDS


def test_what_is_committed_never_goes_back() -> None:
    node = a_leader()
    node.step(Proposal((b"a",)), 0)
    node.step(Synced(2), 0)
    assert node.ready().high_watermark == node.high_watermark == 2
    node.advance(node.ready(), 0)
    node.step(Synced(1), 0)
    assert node.ready().high_watermark is None and node.high_watermark == 2


def test_who_resigned_commits_nothing_more() -> None:
    node = a_leader()
    node.step(Proposal((b"a",)), 0)
    node.step(Resign(), 0)
    node.step(Synced(2), 0)
    assert not node.is_leader and node.high_watermark is None
    assert node.step(Proposal((b"b",)), 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(AssertionError, match="beyond the log's end"):
        node.step(Synced(9), 0)


def test_a_node_with_nothing_to_do_is_due_later_than_now() -> None:
    node = a_leader()
    node.step(Tick(), 5)
    assert node.next_due_ms > 5
