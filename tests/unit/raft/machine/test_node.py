"""Edges of the consensus machine; its dialogues are in tests/scripts/raft, its simulation in proof/raft."""

from random import Random
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.raft.events import MAX_ENTRY_RECORDS, Answered, Lost, Proposal, Received, Resign, Send, Synced, Tick, Timeouts
from moldau.raft.history import FORMATTED, LogHistory, VoterChange
from moldau.raft.machine.following import FIRST_BOOTSTRAP, STAGGER_MS
from moldau.raft.machine.node import RaftNode
from moldau.raft.messages import Batch, Fetch, FetchAnswer, RaftAnswer, Vote, VoteAnswer
from moldau.raft.roles import ElectionState
from moldau.raft.voters import Address, HostPort, ReplicaKey, Voter, VoterSet
from moldau.types import OffsetAndEpoch

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


def a_follower(node_id: int, *, voters: int = 3) -> RaftNode:
    """A follower of node 1, from which it has fetched at 0."""
    voting = VoterSet(Voter(number, DIRECTORY, (Address("CONTROLLER", f"h{number}", 1),)) for number in range(1, voters + 1))
    node = RaftNode(
        ReplicaKey(node_id, DIRECTORY),
        LogHistory(changes=[VoterChange(FORMATTED, voting, 1)]),
        election=ElectionState(epoch=3, leader_id=1),
        chance=Random(1),
        now_ms=0,
    )
    node.step(Tick(), 0)
    fetch = sent(node, 0)[0]
    node.step(Answered(fetch.to, fetch.number, FetchAnswer(ErrorCode.NONE, 3, 1, None, high_watermark=0)), 0)
    return node


def test_what_its_own_snapshot_holds_is_never_truncated() -> None:
    """A leader that has lost its disk asks for it.  The node has just started, and its log begins before the snapshot."""
    voting = VoterSet(Voter(number, DIRECTORY, (Address("CONTROLLER", f"h{number}", 1),)) for number in (1, 2, 3))
    history = LogHistory(
        newest_snapshot=OffsetAndEpoch(50, 2),
        end_offset=60,
        epochs=[(1, 0), (2, 40)],
        changes=[VoterChange(49, voting, 1)],
    )
    node = RaftNode(ReplicaKey(2, DIRECTORY), history, election=ElectionState(epoch=3, leader_id=1), chance=Random(1), now_ms=0)
    node.step(Tick(), 0)
    (fetch,) = sent(node, 0)
    with pytest.raises(AssertionError, match="truncate to 40, but everything below 50 is committed"):
        node.step(Answered(fetch.to, fetch.number, FetchAnswer(ErrorCode.NONE, 3, 1, None, diverging=OffsetAndEpoch(45, 1))), 0)
    assert node.end_offset == 60


def sent(node: RaftNode, now_ms: int) -> list[Send]:
    """The messages that the node sends now, after everything that has to be on the disk before."""
    found: list[Send] = []
    while not (ready := node.ready()).is_empty:
        found += ready.sends
        node.advance(ready, now_ms)
    node.advance(ready, now_ms)
    return found


def refuse(node: RaftNode, now_ms: int) -> None:
    (fetch,) = [one for one in sent(node, now_ms) if isinstance(one.request, Fetch)]
    node.step(Answered(fetch.to, fetch.number, None, is_refused=True), now_ms)


def asks_for_votes(node: RaftNode, now_ms: int) -> bool:
    node.step(Tick(), now_ms)
    return any(isinstance(one.request, Vote) and one.request.is_pre_vote for one in sent(node, now_ms))


@pytest.mark.parametrize("node_id", [2, 3])
def test_a_follower_whose_leaders_port_refuses_asks_at_once_whether_it_would_be_elected_one_after_the_other(node_id: int) -> None:
    node = a_follower(node_id)
    refuse(node, 100)
    waits_ms = STAGGER_MS * (node_id - 1)
    assert not asks_for_votes(node, 100 + waits_ms - 1)
    assert asks_for_votes(node, 100 + waits_ms)


def test_a_follower_that_only_hears_nothing_waits_for_the_whole_time() -> None:
    node = a_follower(2)
    (fetch,) = [one for one in sent(node, 100) if isinstance(one.request, Fetch)]
    node.step(Answered(fetch.to, fetch.number, None), 100)
    assert not asks_for_votes(node, Timeouts().fetch_ms - 1)
    assert asks_for_votes(node, Timeouts().fetch_ms)


def test_the_others_agree_once_the_port_refuses_them_too_and_no_more_when_the_leader_answers() -> None:
    node = a_follower(3)
    pre_vote = Vote(3, ReplicaKey(2, DIRECTORY), ReplicaKey(3, DIRECTORY), 0, 0, is_pre_vote=True)

    def is_granted(now_ms: int) -> bool:
        node.step(Received(1, pre_vote), now_ms)
        ready = node.ready()
        node.advance(ready, now_ms)
        (reply,) = ready.replies
        return isinstance(reply.answer, VoteAnswer) and reply.answer.is_granted

    assert not is_granted(10)
    node = a_follower(3)
    refuse(node, 20)
    assert is_granted(21)
    node.step(Tick(), 20 + Timeouts().retry_backoff_ms)
    (fetch,) = [one for one in sent(node, 40) if isinstance(one.request, Fetch)]
    node.step(Answered(fetch.to, fetch.number, FetchAnswer(ErrorCode.NONE, 3, 1, None, high_watermark=0)), 45)
    assert not is_granted(46)


def test_a_leader_that_refuses_only_this_follower_is_doubted_once_an_election_time_out() -> None:
    node = a_follower(2)
    refuse(node, 0)
    assert asks_for_votes(node, STAGGER_MS)
    times = []
    now_ms = STAGGER_MS
    node.step(Tick(), now_ms)
    for now_ms in range(STAGGER_MS, 10_000, 5):
        node.step(Tick(), now_ms)
        for one in sent(node, now_ms):
            if isinstance(one.request, Fetch):
                node.step(Answered(one.to, one.number, None, is_refused=True), now_ms)
            elif isinstance(one.request, Vote):
                assert one.request.is_pre_vote
                times.append(now_ms)
                node.step(Answered(one.to, one.number, VoteAnswer(ErrorCode.NONE, 3, 1, None, is_granted=False)), now_ms)
    assert 2 <= len(times) <= 2 * 10_000 / Timeouts().election_ms
    assert node.epoch == 3


def test_an_observer_whose_leaders_port_refuses_asks_the_voters_at_once() -> None:
    node = a_follower(9)
    refuse(node, 100)
    node.step(Tick(), 100)
    (asked,) = [one for one in sent(node, 100) if isinstance(one.request, Fetch) and one.to <= FIRST_BOOTSTRAP]
    node.step(Answered(asked.to, asked.number, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 3, 1, None)), 101)
    node.step(Tick(), 130)
    refuse(node, 130)  # the voter that was asked had not noticed yet
    node.step(Tick(), 160)
    assert [one.to for one in sent(node, 160) if one.to <= FIRST_BOOTSTRAP]


def test_who_has_voted_and_votes_no_more_looks_for_the_leader() -> None:
    """The node voted, and the winner removed it from the voters: nobody will tell it who leads."""
    voters = VoterSet(Voter(number, DIRECTORY, (Address("CONTROLLER", f"n{number}", 9093),)) for number in (1, 3))
    node = RaftNode(
        ReplicaKey(2, DIRECTORY),
        LogHistory(changes=[VoterChange(FORMATTED, voters, 1)]),
        election=ElectionState(3, -1, 1, DIRECTORY),
        chance=Random(1),
        now_ms=0,
    )
    node.step(Tick(), 0)
    (asked,) = sent(node, 0)
    assert isinstance(asked.request, Fetch) and asked.to <= FIRST_BOOTSTRAP
    node.step(Answered(asked.to, asked.number, FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, 5, 3, HostPort("n3", 9093))), 1)
    assert node.leader_id == 3


def test_what_a_full_disk_did_not_take_is_not_committed_here() -> None:
    """One answer brings the entries and says that they are committed."""
    node = a_follower(2)
    (fetch,) = [one for one in sent(node, 20) if isinstance(one.request, Fetch)]
    batches = (Batch(0, 2, 3), Batch(2, 5, 3))
    node.step(Answered(fetch.to, fetch.number, FetchAnswer(ErrorCode.NONE, 3, 1, None, 5, batches=batches, records=b"all")), 21)
    ready = node.ready()
    node.step(Lost(2), 21)  # only the first of the two batches could be appended
    assert ready.high_watermark == node.high_watermark == 2
    node.advance(ready, 21)
    node.step(Synced(2), 22)
    assert not node.ready().high_watermark


def test_a_leader_that_removed_itself_and_died_leads_again_until_the_removal_is_committed() -> None:
    """The removal is in no other log.  The other voter cannot win without the removed one, whose log is longer."""
    both = VoterSet(Voter(number, DIRECTORY, (Address("CONTROLLER", f"h{number}", 1),)) for number in (1, 2))
    formatted, removal = VoterChange(FORMATTED, both, 1), VoterChange(5, both.without(1), 1)
    one = restarted(1, LogHistory(end_offset=6, epochs=[(3, 0)], changes=[formatted, removal]))
    two = restarted(2, LogHistory(end_offset=5, epochs=[(3, 0)], changes=[formatted]))
    asked: list[tuple[RaftNode, Send]] = []
    leaders = []
    for now_ms in range(0, 60_000, 10):
        for node, other in ((one, two), (two, one)):
            node.step(Tick(), now_ms)
            node.step(Synced(node.end_offset), now_ms)
            while not (ready := node.ready()).is_empty:
                node.advance(ready, now_ms)
                for send in ready.sends:
                    asked.append((node, send))
                    other.step(Received(len(asked) - 1, send.request), now_ms)
                for reply in ready.replies:
                    asker, send = asked[reply.token]
                    asker.step(Answered(send.to, send.number, with_entry(reply.answer, node, removal)), now_ms)
            node.advance(ready, now_ms)
            if node.is_leader and (not leaders or leaders[-1] is not node):
                leaders.append(node)
        if one.leader_id == 2:
            break
    assert leaders == [one, two]
    assert one.voters == two.voters == removal.voters
    assert not asks_for_votes(one, now_ms + 100_000), "its removal is committed"


def restarted(node_id: int, history: LogHistory) -> RaftNode:
    """A node that is there again after node 1 led epoch 3."""
    address = (Address("CONTROLLER", f"h{node_id}", 1),)
    election = ElectionState(epoch=3, leader_id=1)
    return RaftNode(ReplicaKey(node_id, DIRECTORY), history, election=election, chance=Random(node_id), now_ms=0, addresses=address)


def with_entry(answer: RaftAnswer, node: RaftNode, removal: VoterChange) -> RaftAnswer:
    """An answer to a fetch brings one entry of the leader's log."""
    if not isinstance(answer, FetchAnswer) or answer.read_from < 0:
        return answer
    at = answer.read_from
    voters = removal.voters if at == removal.offset else None
    return answer._replace(batches=(Batch(at, at + 1, node.history.epoch_before(at + 1), voters),), records=b"one")
