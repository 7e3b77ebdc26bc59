"""Fetch from followers: their sessions are told of changes."""

import asyncio
from collections.abc import Callable
from typing import Any

from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from moldau.replication.partition import Partition
from moldau.server.handlers.fetch import fetch

BatchOf = Callable[..., memoryview]
NOW_MS = 1_700_000_000_000
FOLLOWER, EPOCH = 2, 7


class Following:
    """Broker 2 follows the partitions of topic t in one session."""

    def __init__(self, harness: Any, count: int = 3) -> None:
        self.harness = harness
        self.partitions: list[Partition] = [harness.lead("t", index) for index in range(count)]
        for partition in self.partitions:
            self.lead(partition, partition_epoch=2)
        self.ends = [0] * count
        self.session_id, self.epoch = 0, 0
        request = self.request(range(count))
        self.context = harness.context(request)
        self.fetch(request)
        self.fetch(self.request(()))  # the leader looks at all of them once more

    def lead(self, partition: Partition, *, partition_epoch: int, epoch: int = 1, isr: tuple[int, ...] = (1, 2)) -> None:
        partition.lead(
            leader_epoch=epoch,
            partition_epoch=partition_epoch,
            replicas=(1, 2),
            isr=isr,
            eligible={1: 1, 2: EPOCH},
            now_ms=self.harness.clock.monotonic_ms(),
        )

    def request(self, indexes: Any, *, max_wait_ms: int = 0, broker_epoch: int = EPOCH, forgotten: tuple[int, ...] = ()) -> FetchRequest:
        topic_id = self.partitions[0].topic_id
        asked = [
            FetchPartition(
                partition=index, current_leader_epoch=1, fetch_offset=self.ends[index], log_start_offset=0, partition_max_bytes=1 << 20
            )
            for index in indexes
        ]
        return FetchRequest(
            replica_state=ReplicaState(replica_id=FOLLOWER, replica_epoch=broker_epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchTopic(topic="t", topic_id=topic_id, partitions=asked)] if asked else [],
            forgotten_topics_data=[ForgottenTopic(topic="t", topic_id=topic_id, partitions=list(forgotten))] if forgotten else [],
        )

    def fetch(self, request: FetchRequest) -> dict[int, PartitionData]:
        response = fetch(self.harness.broker, self.context, request)
        return self.taken(response)

    def taken(self, response: Any) -> dict[int, PartitionData]:
        assert isinstance(response, FetchResponse), response
        assert not response.error_code
        self.session_id, self.epoch = response.session_id, self.epoch + 1
        return {found.partition_index: found for topic in response.responses for found in topic.partitions}

    def parked(self) -> list[Any]:
        later = fetch(self.harness.broker, self.context, self.request((), max_wait_ms=500))
        assert isinstance(later, Later)
        answers: list[Any] = []
        later.then(answers.append, answers.append)
        return answers


def append(partition: Partition, data: memoryview) -> None:
    partition.append_from_client(data, acks=1, now_ms=NOW_MS)


def test_an_answer_holds_what_has_changed(harness: Any, batch_of: BatchOf) -> None:
    following = Following(harness)
    assert following.fetch(following.request(())) == {}
    append(following.partitions[1], batch_of(b"one"))
    found = following.fetch(following.request(()))
    assert list(found) == [1]
    assert list(following.fetch(following.request(()))) == [1], "the leader repeats the answer until the follower says that it has it"
    following.ends[1] = 1
    found = following.fetch(following.request((1,)))
    assert (found[1].high_watermark, len(found[1].records or b"")) == (1, 0), "the follower's own fetch has committed the batch"
    assert following.fetch(following.request(())) == {}


async def test_a_parked_fetch_is_woken_by_what_is_appended(harness: Any, batch_of: BatchOf) -> None:
    following = Following(harness)
    answers = following.parked()
    append(following.partitions[2], batch_of(b"one"))
    await asyncio.sleep(0)
    assert list(following.taken(answers[0])) == [2]
    assert len(harness.broker.replicas.timeouts) == 0


async def test_a_parked_fetch_is_woken_when_a_partition_is_led_elsewhere(harness: Any) -> None:
    following = Following(harness)
    answers = following.parked()
    following.partitions[0].follow(leader_id=3, leader_epoch=2, partition_epoch=3, replicas=(1, 2, 3), isr=(1, 2, 3))
    await asyncio.sleep(0)
    found = following.taken(answers[0])
    assert {index: each.error_code for index, each in found.items()} == {0: ErrorCode.FENCED_LEADER_EPOCH}


async def test_a_parked_fetch_is_woken_when_a_partition_is_gone(harness: Any) -> None:
    following = Following(harness)
    answers = following.parked()
    harness.broker.replicas.remove(following.partitions[0].topic_partition)
    await asyncio.sleep(0)
    assert list(following.taken(answers[0])) == [0]


def test_a_follower_of_an_idle_partition_keeps_up_though_nobody_looks(harness: Any, batch_of: BatchOf) -> None:
    following = Following(harness)
    for _ in range(100):
        harness.clock.advance(500)
        following.fetch(following.request(()))
    append(following.partitions[0], batch_of(b"one"))
    harness.clock.advance(29_000)
    assert following.partitions[0].fallen_behind(harness.clock.monotonic_ms()) == []
    harness.clock.advance(2_000)
    assert following.partitions[0].fallen_behind(harness.clock.monotonic_ms()) == [FOLLOWER]


def test_one_that_left_the_in_sync_set_is_looked_at_until_it_has_joined(harness: Any) -> None:
    following = Following(harness)
    proposed: list[Partition] = []
    partition = following.partitions[0]
    partition.on_proposal = proposed.append
    following.lead(partition, partition_epoch=3, isr=(1,))
    following.fetch(following.request(()))
    assert proposed == [partition]
    partition.isr_refused(partition.proposal, ErrorCode.INELIGIBLE_REPLICA)  # type: ignore[arg-type]
    following.fetch(following.request(()))
    assert proposed == [partition, partition]


def test_a_fetch_of_an_earlier_life_of_the_follower_is_refused(harness: Any) -> None:
    following = Following(harness)
    found = following.fetch(following.request((0,), broker_epoch=EPOCH - 1))
    assert found[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    found = following.fetch(following.request((0,)))
    assert found[0].error_code == ErrorCode.NONE


def test_what_is_forgotten_is_told_no_more(harness: Any, batch_of: BatchOf) -> None:
    following = Following(harness)
    following.fetch(following.request((), forgotten=(1,)))
    append(following.partitions[1], batch_of(b"one"))
    assert following.fetch(following.request(())) == {}


def test_a_session_ends_with_its_connection(harness: Any) -> None:
    following = Following(harness)
    following.context.client.closed()
    response = fetch(harness.broker, following.context, following.request(()))
    assert isinstance(response, FetchResponse)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not following.partitions[0]._watches


async def test_when_leaders_change_followers_are_heard_soon(harness: Any) -> None:
    """A follower names a new partition with its next fetch, so the fetch before must not be waited out."""
    following = Following(harness)
    answers = following.parked()
    another = harness.broker.replicas.hosted["t", 0]
    said = {"leader_id": 1, "leader_epoch": 5, "partition_epoch": 9, "replicas": (1, 2), "isr": (1, 2), "eligible": {1: 1, 2: EPOCH}}
    now_ms = harness.clock.monotonic_ms()
    harness.broker.replicas.apply(another, **said, now_ms=now_ms)
    await asyncio.sleep(0)
    following.taken(answers[0])
    following.fetch(following.request((), forgotten=(0,)))
    assert harness.broker.replicas.follower_wait_ms(500, now_ms + 999) == 20
    assert harness.broker.replicas.follower_wait_ms(500, now_ms + 1000) == 500
    answers = following.parked()
    harness.broker.replicas.timeouts.expire(now_ms + 30)
    await asyncio.sleep(0)
    assert following.taken(answers[0]) == {}
    assert not harness.broker.replicas.followers_parked


def throttled(harness: Any, *, count: int, rate: int) -> Following:
    """Follows partitions that are all throttled; the follower is in sync in the first only."""
    following = Following(harness, count)
    for index, partition in enumerate(following.partitions):
        partition.log.configure(partition.log.config.override({"leader.replication.throttled.replicas": "*"}))
        following.lead(partition, partition_epoch=3, isr=(1, 2) if not index else (1,))
    harness.broker.replicas.throttles.leader.set_rate(rate, harness.clock.monotonic_ms())
    return following


def test_a_follower_that_is_not_in_sync_gets_what_is_throttled_at_its_rate(harness: Any, batch_of: BatchOf) -> None:
    following = throttled(harness, count=2, rate=1000)
    for partition in following.partitions:
        append(partition, batch_of(b"x" * 1500))
    found = following.fetch(following.request(()))
    sizes = {index: len(each.records or b"") for index, each in found.items()}
    assert sizes[0] > 1500 and not sizes.get(1), "a partition in sync is not held back, and counts"
    harness.clock.advance(300)
    assert len(following.fetch(following.request(()))[0].records or b"") == sizes[0]
    harness.clock.advance(3000)
    following.ends[0] = 1
    found = following.fetch(following.request((0,)))
    assert len(found[1].records or b"") == sizes[0], "a batch goes as a whole"


async def test_a_fetch_that_waits_for_its_rate_ends_when_that_allows_more(harness: Any, batch_of: BatchOf) -> None:
    following = throttled(harness, count=2, rate=1000)
    moving = following.partitions[1]
    append(moving, batch_of(b"x" * 1100))
    size = len(following.fetch(following.request(()))[1].records or b"")
    following.ends[1] = 1
    append(moving, batch_of(b"y"))
    assert not following.fetch(following.request((1,)))[1].records
    answers = following.parked()
    append(moving, batch_of(b"z"))
    await asyncio.sleep(0)
    assert answers == [], "more bytes that may not go yet do not wake the fetch"
    harness.clock.advance(size - 1000 + 100 + 8)
    harness.broker.replicas.timeouts.expire(harness.clock.monotonic_ms())
    await asyncio.sleep(0)
    assert len(following.taken(answers[0])[1].records or b"") > 0


def test_what_catches_up_does_not_take_all_the_room_from_what_is_in_sync(harness: Any, batch_of: BatchOf) -> None:
    following = Following(harness, 3)
    for partition in following.partitions:
        for _ in range(10):
            append(partition, batch_of(b"x" * 1000))
    told: set[int] = set()
    for _ in range(3):
        request = following.request([index for index in range(3) if following.ends[index]])
        request.max_bytes = 1500
        found = following.fetch(request)
        for index, each in found.items():
            if each.records:
                told.add(index)
                following.ends[index] += 1
    assert told == {0, 1, 2}
