"""Edges of the consensus machine; its dialogues are in tests/scripts/raft."""

from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.raft.node import MAX_ENTRY_RECORDS, Entry, Proposal, RaftNode, Resign, Synced, Tick, count_committed
from moldau.raft.roles import ElectionState
from moldau.raft.voters import Address, Voter, VoterSet

DIRECTORY = UUID(int=1)


def a_leader() -> RaftNode:
    node = RaftNode(
        node_id=1,
        directory_id=DIRECTORY,
        voters=VoterSet([Voter(1, DIRECTORY, (Address("C", "h", 1),))]),
        kraft_version=0,
        election=ElectionState(),
        end_offset=0,
        has_written_voters=False,
        last_epoch=0,
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


def test_entries_below_the_high_watermark_are_committed() -> None:
    entries = [Entry(0, 1, 0, (b"a", b"b")), Entry(2, 1, 0, (b"c",)), Entry(3, 1, 0, (b"d",))]
    assert [count_committed(entries, offset) for offset in (0, 2, 3, 4, 9)] == [0, 1, 2, 3, 3]
    with pytest.raises(AssertionError, match="committed whole"):
        count_committed(entries, 1)
