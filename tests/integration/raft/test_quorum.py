"""Three voters over TCP: they elect, replicate and commit, and go on when their leader dies."""

from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.net.channel import Channel
from moldau.net.sockets import SystemNetwork
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from moldau.testing.files import MemoryFiles
from proof.raft.quorum import CLUSTER_ID, HOST, Member, Quorum

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("dynamic", [True, False], ids=["kraft.version 1", "static voters"])
async def test_three_voters_survive_their_leader(dynamic: bool) -> None:
    quorum = Quorum(SystemNetwork(), voters=3, observers=1, dynamic=dynamic)
    await quorum.start()
    try:
        first = await quorum.leader()
        end = await first.commit(b"a", b"b")
        others = [one for one in quorum.members.values() if one is not first]
        await quorum.until(lambda: all(one.told.next_offset >= end for one in others))
        assert all(one.told.records == [b"a", b"b"] for one in quorum.members.values())
        assert all(one.told.leaders[-1][0] == first.number for one in quorum.members.values())

        await quorum.kill(first)
        second = await quorum.leader()
        assert second is not first
        end = await second.commit(b"c")
        await quorum.revive(first)
        await quorum.until(lambda: all(one.told.next_offset >= end for one in quorum.members.values()))
        assert all(one.told.records == [b"a", b"b", b"c"] for one in quorum.members.values())
        status = second.driver.status()
        assert status is not None
        assert [one.key.id for one in status.replicas] == [1, 2, 3] and [one.key.id for one in status.observers] == [4]
    finally:
        await quorum.stop()


async def test_a_leader_that_stops_hands_over_at_once() -> None:
    quorum = Quorum(SystemNetwork(), properties={"controller.quorum.fetch.timeout.ms": "60000"})
    await quorum.start()
    try:
        first = await quorum.leader()
        await first.commit(b"a")
        driver, first.driver = first.driver, None
        await driver.stop()
        first.door.driver = None
        second = await quorum.leader(but=[first])
        await second.commit(b"b")
    finally:
        await quorum.stop()


async def test_voters_are_added_and_removed_one_by_one_the_leader_too() -> None:
    network = SystemNetwork()
    quorum = Quorum(network, voters=1, observers=2)
    await quorum.start()
    try:
        first = await quorum.leader()
        end = await first.commit(b"a")
        await quorum.until(lambda: all(one.told.next_offset >= end for one in quorum.members.values()))
        for number in (2, 3):
            assert (await add(network, first, quorum.members[number])).error_code == ErrorCode.NONE
        again = await add(network, first, quorum.members[3])
        assert again.error_code == ErrorCode.DUPLICATE_VOTER
        assert list(first.driver.node.voters.by_id) == [1, 2, 3]

        removed = await remove(network, first, first)
        assert removed.error_code == ErrorCode.NONE
        second = await quorum.leader(but=[first])
        assert list(second.driver.node.voters.by_id) == [2, 3]
        end = await second.commit(b"b")
        await quorum.until(lambda: all(one.told.next_offset >= end for one in quorum.members.values()))
        assert (await remove(network, second, first)).error_code == ErrorCode.VOTER_NOT_FOUND
    finally:
        await quorum.stop()


async def test_a_controller_whose_disk_was_replaced_joins_by_itself() -> None:
    quorum = Quorum(SystemNetwork(), voters=3, properties={"controller.quorum.auto.join.enable": "true"})
    await quorum.start()
    try:
        leader = await quorum.leader()
        await leader.commit(b"a")
        replaced = next(one for one in quorum.members.values() if one is not leader)
        await quorum.kill(replaced)
        replaced.files, replaced.directory_id = MemoryFiles(), UUID(int=4711)
        await quorum.revive(replaced)
        await quorum.until(lambda: leader.driver.node.voters.is_voter(replaced.number, UUID(int=4711)))
        await quorum.until(lambda: replaced.driver.node.is_voter and replaced.told.records == [b"a"])
    finally:
        await quorum.stop()


async def test_voters_of_the_options_become_voters_of_the_log() -> None:
    quorum = Quorum(SystemNetwork(), voters=3, dynamic=False)
    await quorum.start()
    try:
        leader = await quorum.leader()
        await leader.commit(b"a")
        await quorum.until(lambda: len(leader.driver.node.changes.told) == 2)
        await leader.driver.wait_for_commit(leader.driver.upgrade_kraft_version())
        await quorum.until(lambda: all(one.driver.kraft_version == 1 for one in quorum.members.values()))
        assert {one.directory_id for one in leader.driver.node.voters.by_id.values()} == {
            one.directory_id for one in quorum.members.values()
        }
        await leader.commit(b"b")
        await quorum.kill(leader)
        second = await quorum.leader()
        await second.commit(b"c")
        await quorum.revive(leader)
        await quorum.until(lambda: leader.told.records == [b"a", b"b", b"c"])
    finally:
        await quorum.stop()


async def add(network: SystemNetwork, leader: Member, new: Member) -> AddRaftVoterResponse:
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=5000,
        voter_id=new.number,
        voter_directory_id=new.directory_id,
        listeners=[Listener(name=one.name, host=one.host, port=one.port) for one in new.addresses],
    )
    channel = await Channel.connect(network, HOST, leader.port)
    try:
        return await channel.send(request)
    finally:
        channel.abort()


async def remove(network: SystemNetwork, leader: Member, old: Member) -> RemoveRaftVoterResponse:
    request = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=old.number, voter_directory_id=old.directory_id)
    channel = await Channel.connect(network, HOST, leader.port)
    try:
        return await channel.send(request)
    finally:
        channel.abort()
