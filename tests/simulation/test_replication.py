"""Stories of replicas on virtual time: brokers die, lose disks and fall behind, and the replicas end equal."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from moldau.errors import ErrorCode
from moldau.testing.files import Fault
from moldau.testing.loop import Machine, SimLoop
from moldau.types import NO_LEADER
from proof.replication.cluster import ReplicaBroker, ReplicaCluster

Story = Callable[[ReplicaCluster], Coroutine[Any, Any, None]]


def play(story: Story, seed: int = 1, **options: Any) -> ReplicaCluster:
    loop = SimLoop()
    cluster = ReplicaCluster(loop, random.Random(seed), **options)
    machine = Machine("story")
    cluster.network.add(machine)

    async def run() -> None:
        async with asyncio.timeout(600):  # of virtual time
            await cluster.start()
            await story(cluster)

    loop.run_until_complete(loop.start(machine, run()))
    assert not loop.failures, loop.failures
    for broker in cluster.brokers.values():
        loop.kill(broker.machine)
    return cluster


async def until(condition: Callable[[], bool], *, within_s: float = 20.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  nothing says when
            await asyncio.sleep(0.005)


async def acknowledged(cluster: ReplicaCluster, *values: bytes, number: int = 0) -> int:
    await until(lambda: leads(cluster.leader(number), number))
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    cluster.leader(number).append(*values, number=number, on_acknowledged=future)
    async with asyncio.timeout(20):
        return await future


def leads(broker: ReplicaBroker, number: int = 0) -> bool:
    said = broker.cluster.partitions[number]
    if not broker.is_ready or (leader := broker.replicas.hosted.get(("t", number))) is None:
        return False
    return leader.is_leader and leader.leader_epoch == said.leader_epoch


def content(broker: ReplicaBroker, number: int = 0) -> tuple[Any, ...]:
    log = broker.log(number)
    read = b"".join(segment.file.pread(segment.size, 0) for segment in log.segments)
    return log.log_start_offset, log.log_end_offset, log.epochs.entries, read


async def until_equal(cluster: ReplicaCluster, number: int = 0) -> None:
    """Waits until all replicas that are up are equal and all of their records are committed."""

    def are_equal() -> bool:
        logs = [broker.log(number) for broker in cluster.brokers.values() if broker.is_up]
        return len({(log.log_end_offset, log.high_watermark) for log in logs}) == 1 and logs[0].high_watermark == logs[0].log_end_offset

    await until(are_equal)
    contents = [content(broker, number) for broker in cluster.brokers.values() if broker.is_up]
    assert all(each == contents[0] for each in contents), contents


@pytest.mark.parametrize("policy", ["ack", "os"])
def test_what_is_appended_comes_to_all_and_is_acknowledged(policy: str) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        for number in range(20):
            assert await acknowledged(cluster, b"record %d" % number) == ErrorCode.NONE
            assert sum(broker.log().log_end_offset > number for broker in cluster.brokers.values()) == 3
            if policy == "ack":
                assert all(broker.log().recovery_point > number for broker in cluster.brokers.values())
        await until_equal(cluster)

    play(story, properties={"log.flush.policy": policy})


def test_what_a_dead_leader_alone_had_is_truncated_when_it_is_back() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        await acknowledged(cluster, b"for all")
        cluster.network.cut("broker-1", "broker-2")
        cluster.network.cut("broker-1", "broker-3")
        first = cluster.brokers[1]
        first.append(b"seen by nobody", b"else")
        first.log().flush()
        first.die(with_power=False)
        cluster.network.heal()
        cluster.broker_died(1)
        assert await acknowledged(cluster, b"under another leader") == ErrorCode.NONE
        await first.start()
        cluster.broker_is_back(1)
        await until(lambda: cluster.partitions[0].isr.count(1) == 1)
        await until_equal(cluster)
        assert first.log().log_end_offset == 2

    play(story)


def test_after_an_unclean_election_all_have_what_the_unclean_leader_had() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        await acknowledged(cluster, b"one")
        third = cluster.brokers[3]
        third.die(with_power=False)
        cluster.broker_died(3)
        for value in (b"two", b"three", b"four"):
            assert await acknowledged(cluster, value) == ErrorCode.NONE
        for number in (1, 2):
            cluster.brokers[number].die(with_power=False)
        cluster.elect(0, NO_LEADER)
        await third.start()
        cluster.elect(0, 3)
        await until(lambda: leads(third))
        third.append(b"another two", acks=1)
        for number in (1, 2):
            await cluster.brokers[number].start()
            cluster.broker_is_back(number)
        await until(lambda: len(cluster.partitions[0].isr) == 3)
        await until_equal(cluster)
        assert third.log().log_end_offset == 2

    play(story)


def test_a_follower_whose_records_the_leader_has_no_more_begins_anew() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        await acknowledged(cluster, b"one")
        cluster.brokers[2].die(with_power=False)
        cluster.broker_died(2)
        for number in range(30):
            assert await acknowledged(cluster, b"%d" % number * 500) == ErrorCode.NONE
        leader = cluster.leader()
        now_ms = cluster.clock.now_ms()
        leader.log().roll(now_ms)
        await acknowledged(cluster, b"last")
        leader.logs.delete_records_before(leader.log(), 20)
        leader.log().drop_below_start(now_ms)
        await cluster.brokers[2].start()
        cluster.broker_is_back(2)
        await until(lambda: len(cluster.partitions[0].isr) == 3)
        log = cluster.brokers[2].log()
        await until(lambda: log.log_end_offset == leader.log().log_end_offset)
        assert log.log_start_offset >= 20

    play(story, properties={"log.segment.bytes": "3000000"})


def test_a_follower_that_is_silent_leaves_the_in_sync_set_and_comes_back() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        await acknowledged(cluster, b"one")
        cluster.network.cut("broker-1", "broker-3")
        began_s = asyncio.get_running_loop().time()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        cluster.leader().append(b"two", on_acknowledged=future)
        assert await future == ErrorCode.NONE
        waited_s = asyncio.get_running_loop().time() - began_s
        assert 2.0 <= waited_s <= 4.0, waited_s
        assert set(cluster.partitions[0].isr) == {1, 2}
        cluster.network.heal()
        await until(lambda: len(cluster.partitions[0].isr) == 3)
        await until_equal(cluster)

    play(story, properties={"replica.lag.time.max.ms": "2000", "replica.fetch.wait.max.ms": "300"})


def test_a_follower_that_lost_its_disk_has_all_again() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        for number in range(50):
            await acknowledged(cluster, b"%d" % number * 1000)
        second = cluster.brokers[2]
        second.die(with_power=True)
        second.lose_disk()
        cluster.broker_died(2)
        await acknowledged(cluster, b"without the second")
        await second.start()
        cluster.broker_is_back(2)
        await until(lambda: len(cluster.partitions[0].isr) == 3)
        await until_equal(cluster)

    play(story, properties={"replica.fetch.max.bytes": "5000"})


def test_many_partitions_of_several_leaders() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        for number in range(30):
            assert await acknowledged(cluster, b"in %d" % number, number=number) == ErrorCode.NONE
        cluster.brokers[1].die(with_power=True)
        cluster.broker_died(1)
        for number in range(30):
            assert await acknowledged(cluster, b"again in %d" % number, number=number) == ErrorCode.NONE
        await cluster.brokers[1].start()
        cluster.broker_is_back(1)
        for number in range(30):
            await until(lambda number=number: len(cluster.partitions[number].isr) == 3)  # type: ignore[misc]
            await until_equal(cluster, number)

    play(story, partitions=30)


@pytest.mark.parametrize("policy", ["ack", "os"])
def test_deleted_records_are_gone_everywhere_when_that_is_answered(policy: str) -> None:
    async def story(cluster: ReplicaCluster) -> None:
        for number in range(10):
            await acknowledged(cluster, b"%d" % number)
        began_s = asyncio.get_running_loop().time()
        assert await cluster.leader().delete_records(7) == (ErrorCode.NONE, 7)
        assert asyncio.get_running_loop().time() - began_s < 0.3
        assert [broker.log().log_start_offset for broker in cluster.brokers.values()] == [7, 7, 7]
        for broker in cluster.brokers.values():
            broker.die(with_power=True)
        cluster.elect(0, NO_LEADER)
        for broker in cluster.brokers.values():
            await broker.start()
        assert [broker.log().log_start_offset for broker in cluster.brokers.values() if broker.id != 1] == [7, 7], "noted on the disk"

    play(story, properties={"log.flush.policy": policy})


def test_a_follower_of_a_new_leader_does_not_wait_out_the_fetch_that_is_parked_there() -> None:
    async def story(cluster: ReplicaCluster) -> None:
        for number in (0, 1, 2):
            await acknowledged(cluster, b"warm", number=number)
        await asyncio.sleep(1.5)  # all fetches are parked
        worst_s = 0.0
        for _ in range(5):
            began_s = asyncio.get_running_loop().time()
            cluster.elect(0, 2 if cluster.partitions[0].leader_id == 1 else 1)
            assert await acknowledged(cluster, b"again") == ErrorCode.NONE
            worst_s = max(worst_s, asyncio.get_running_loop().time() - began_s)
            await asyncio.sleep(1.5)
        assert worst_s < 0.4, worst_s

    play(story, seed=3, partitions=3)


@pytest.mark.parametrize("heir", [2, 3])
def test_a_partition_that_leaves_while_it_is_synced_does_not_hold_up_the_others(heir: int) -> None:
    """The follower or a third broker leads the partition before the follower's records are on stable storage."""

    async def story(cluster: ReplicaCluster) -> None:
        second = cluster.brokers[2]
        cluster.elect(1, 1)
        for number in (0, 1):
            await acknowledged(cluster, b"warm", number=number)
        second.files.slow_ms = 400
        for number in range(10):
            cluster.elect(0, 1)
            await until(lambda: leads(cluster.brokers[1]) and second.partition().leader_id == 1)
            end = second.log().log_end_offset
            cluster.brokers[1].append(b"%d" % number)
            await until(lambda end=end: second.log().log_end_offset > end)  # type: ignore[misc]
            assert second.log().recovery_point <= end, "the record is still being synced"
            cluster.elect(0, heir)
            second.apply(0)
            for other in (1, 0):
                assert await acknowledged(cluster, b"%d" % number, number=other) == ErrorCode.NONE
                await until_equal(cluster, other)
        assert set(cluster.partitions[1].isr) == {1, 2, 3}, "no replica left the in-sync set"

    play(story, partitions=2, properties={"log.flush.policy": "ack"})


@pytest.mark.parametrize("policy", ["ack", "os"])
def test_a_follower_whose_disk_has_failed_does_not_tell_its_end(policy: str) -> None:
    """The leader takes an end that it is told for records on the follower's stable storage, and acknowledges them."""

    async def story(cluster: ReplicaCluster) -> None:
        first, second = cluster.brokers[1], cluster.brokers[2]
        await acknowledged(cluster, b"warm")
        await until_equal(cluster)
        stored = second.log().recovery_point if policy == "ack" else second.log().log_end_offset
        second.files.hook = lambda call, path: Fault() if call == "sync" else None
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        first.append(b"lost", on_acknowledged=answer)
        await until(lambda: second.log().log_end_offset > stored)
        second.flusher.want(second.log())
        await until(lambda: second.log().failure is not None)
        told = first.partition().followers[2].log_end_offset
        await asyncio.sleep(1)
        assert first.partition().followers[2].log_end_offset == told
        if policy == "ack":
            assert told == stored
            assert not answer.done(), "a replica in sync has not stored the record"

    play(story, properties={"log.flush.policy": policy})
