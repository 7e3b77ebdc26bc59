import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.delta import replay
from moldau.metadata.image import EMPTY
from moldau.net.later import Later
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from moldau.replication.partition import Partition
from moldau.server.handlers.fetch import fetch
from moldau.types import FileSlice
from proof.cluster.images import a_broker

BatchOf = Callable[..., memoryview]
NOW_MS = 1_700_000_000_000


def ask(
    *offsets: int, topic: str = "t", max_wait_ms: int = 0, min_bytes: int = 1, max_bytes: int = 1 << 20, each: int = 1 << 20, **more: Any
) -> FetchRequest:
    partitions = [FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=each) for index, offset in enumerate(offsets)]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=partitions)],
        **({"session_epoch": -1} | more),
    )


def append(partition: Partition, data: memoryview) -> None:
    partition.append_from_client(data, acks=1, now_ms=NOW_MS)


def parts(response: Any) -> list[Any]:
    assert isinstance(response, FetchResponse), response
    return [found for topic in response.responses for found in topic.partitions]


def sizes(response: Any) -> list[int]:
    return [len(found.records) for found in parts(response)]


def test_reads_what_is_there(harness: Any, batch_of: BatchOf) -> None:
    partition, data = harness.lead("t"), batch_of(b"one", b"two")
    append(partition, data)
    found = parts(harness.call(fetch, ask(0), 12))[0]
    assert isinstance(found.records, FileSlice)
    assert found.records.read() == bytes(data)
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (2, 2, 0)


def test_the_first_partition_with_data_makes_progress_whatever_the_limit(harness: Any, batch_of: BatchOf) -> None:
    empty, one, two = harness.lead("t", 0), harness.lead("t", 1), harness.lead("t", 2)
    data = batch_of(b"x" * 500)
    append(one, memoryview(bytearray(data)))
    append(two, memoryview(bytearray(data)))
    assert empty.log.log_end_offset == 0
    assert sizes(harness.call(fetch, ask(0, 0, 0, max_bytes=10), 12)) == [0, len(data), 0]
    assert sizes(harness.call(fetch, ask(0, 0, 0, each=10), 12)) == [0, len(data), 0]


def test_max_bytes_goes_over_all_partitions(harness: Any, batch_of: BatchOf) -> None:
    data = batch_of(b"x" * 500)
    for index in range(3):
        append(harness.lead("t", index), memoryview(bytearray(data)))
    left = len(data) // 2
    found = sizes(harness.call(fetch, ask(0, 0, 0, max_bytes=2 * len(data) + left), 12))
    assert found[:2] == [len(data), len(data)]
    assert found[2] <= left


@pytest.mark.parametrize(
    ("change", "version", "code"),
    [
        ({"topic": "nope"}, 12, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "elsewhere"}, 12, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"offset": 7}, 12, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"epoch": 0}, 12, ErrorCode.FENCED_LEADER_EPOCH),
        ({"epoch": 2}, 12, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"topic_id": UUID(int=5)}, 13, ErrorCode.UNKNOWN_TOPIC_ID),
    ],
    ids=str,
)
def test_refusals(harness: Any, change: dict[str, Any], version: int, code: ErrorCode) -> None:
    harness.lead("t")
    harness.cluster.known.add(("elsewhere", 0))
    request = ask(change.get("offset", 0), topic=change.get("topic", "t"), max_wait_ms=500)
    request.topics[0].topic_id = change.get("topic_id", UUID(int=0))
    request.topics[0].partitions[0].current_leader_epoch = change.get("epoch", -1)
    found = parts(harness.call(fetch, request, version))[0]  # the answer comes at once, although the fetch may wait
    assert (found.error_code, found.high_watermark, found.log_start_offset) == (code, -1, -1)


def test_the_new_leader_is_named(harness: Any) -> None:
    harness.cluster.known.add(("elsewhere", 0))
    harness.cluster.ids["elsewhere"] = UUID(int=77)
    request = ask(0, topic="")
    request.topics[0].topic_id = UUID(int=77)
    response = harness.call(fetch, request, 16)
    assert (parts(response)[0].current_leader.leader_id, parts(response)[0].current_leader.leader_epoch) == (2, 9)
    assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(2, "two", 9092)]


async def test_waits_until_something_comes(harness: Any, batch_of: BatchOf) -> None:
    partition = harness.lead("t")
    answers: list[Any] = []
    later = harness.call(fetch, ask(0, max_wait_ms=500), 12)
    assert isinstance(later, Later)
    later.then(answers.append, answers.append)
    await asyncio.sleep(0)
    assert answers == []
    append(partition, batch_of(b"one"))
    append(partition, batch_of(b"two"))
    await asyncio.sleep(0)
    assert parts(answers[0])[0].high_watermark == 2  # records of the same turn go along
    assert len(harness.broker.replicas.timeouts) == 0
    assert not partition._fetchers


async def test_a_fetch_that_fails_when_it_is_woken_fails_its_answer(
    harness: Any, batch_of: BatchOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = harness.lead("t")
    failures: list[Exception] = []
    harness.call(fetch, ask(0, max_wait_ms=500), 12).then(failures.append, failures.append)
    monkeypatch.setattr(partition.log, "read", lambda *_, **__: 1 // 0)
    append(partition, batch_of(b"one"))
    await asyncio.sleep(0)
    assert [type(error) for error in failures] == [ZeroDivisionError]


async def test_waits_no_longer_than_asked(harness: Any) -> None:
    harness.lead("t")
    answers: list[Any] = []
    harness.call(fetch, ask(0, max_wait_ms=500), 12).then(answers.append, answers.append)
    harness.clock.advance(400)
    harness.broker.replicas.timeouts.expire(harness.clock.monotonic_ms())
    await asyncio.sleep(0)
    assert answers == []
    harness.clock.advance(110)
    harness.broker.replicas.timeouts.expire(harness.clock.monotonic_ms())
    await asyncio.sleep(0)
    assert sizes(answers[0]) == [0]


def test_nobody_waits_for_a_broker_that_stops(harness: Any) -> None:
    harness.lead("t")
    harness.broker.replicas.resign()
    assert sizes(harness.call(fetch, ask(0, max_wait_ms=500), 12)) == [0]


async def test_waits_for_as_many_bytes_as_asked(harness: Any, batch_of: BatchOf) -> None:
    partition, other = harness.lead("t", 0), harness.lead("t", 1)
    answers: list[Any] = []
    size = len(batch_of(b"x" * 100))
    harness.call(fetch, ask(0, 0, max_wait_ms=500, min_bytes=2 * size), 12).then(answers.append, answers.append)
    append(partition, batch_of(b"x" * 100))
    await asyncio.sleep(0)
    assert answers == []
    append(other, batch_of(b"x" * 100))
    await asyncio.sleep(0)
    assert sizes(answers[0]) == [size, size]


async def test_a_session_tells_only_news(harness: Any, batch_of: BatchOf) -> None:
    one, _ = harness.lead("t", 0), harness.lead("t", 1)
    first = harness.call(fetch, ask(0, 0, session_epoch=0), 12)
    assert first.session_id > 0
    assert len(parts(first)) == 2
    append(one, batch_of(b"one"))
    second = harness.call(fetch, ask(session_id=first.session_id, session_epoch=1), 12)
    assert [found.partition_index for found in parts(second)] == [0]
    stale = harness.call(fetch, ask(session_id=first.session_id, session_epoch=1), 12)
    assert (stale.error_code, stale.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, [])


def test_partitions_of_a_topic_stand_together(harness: Any) -> None:
    harness.lead("a", 0), harness.lead("a", 1), harness.lead("b", 0)
    request = ask(0, 0, topic="a")
    request.topics += ask(0, topic="b").topics
    response = harness.call(fetch, request, 12)
    assert [(topic.topic, len(topic.partitions)) for topic in response.responses] == [("a", 2), ("b", 1)]


@pytest.mark.parametrize("level", [-1, 2, 3])
@pytest.mark.parametrize("version", [4, 12])
def test_an_isolation_level_that_nobody_knows_is_refused(harness: Any, level: int, version: int) -> None:
    harness.lead("t")
    with pytest.raises(KafkaError, match="INVALID_REQUEST: isolation_level"):
        harness.call(fetch, ask(0, isolation_level=level), version)


@pytest.mark.parametrize("version", [4, 12])
def test_a_topic_without_a_name_is_unknown_by_its_name(harness: Any, version: int) -> None:
    assert parts(harness.call(fetch, ask(0, topic=""), version))[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_of_a_partition_that_is_named_twice_what_was_asked_last_is_served(harness: Any, batch_of: BatchOf) -> None:
    partition = harness.lead("t")
    harness.lead("t", 1)
    for _ in range(2):
        append(partition, batch_of(b"one"))
    request = ask(0, 0)
    request.topics[0].partitions.append(FetchPartition(partition=0, fetch_offset=1, partition_max_bytes=1 << 20))
    found = parts(harness.call(fetch, request, 12))
    assert [(each.partition_index, len(each.records)) for each in found] == [(0, len(batch_of(b"one"))), (1, 0)]


@pytest.mark.parametrize("epoch", [-1, -2])
def test_an_epoch_below_0_says_nothing(harness: Any, epoch: int) -> None:
    harness.lead("t")
    request = ask(0)
    request.topics[0].partitions[0].current_leader_epoch = epoch
    assert parts(harness.call(fetch, request, 12))[0].error_code == 0


@pytest.mark.parametrize(("epoch", "code"), [(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_follower_that_is_not_known_here_yet_asks_again(harness: Any, epoch: int, code: ErrorCode) -> None:
    harness.lead("t")
    request = ask(0, replica_state=ReplicaState(replica_id=7))
    request.topics[0].partitions[0].current_leader_epoch = epoch
    assert parts(harness.call(fetch, request, 12))[0].error_code == code


def test_a_follower_is_told_the_leader_but_not_where_it_is(harness: Any) -> None:
    harness.cluster.known.add(("elsewhere", 0))
    harness.cluster.ids["elsewhere"] = UUID(int=77)
    request = ask(0, topic="", replica_state=ReplicaState(replica_id=7))
    request.topics[0].topic_id = UUID(int=77)
    response = harness.call(fetch, request, 16)
    assert parts(response)[0].current_leader.leader_id == 2
    assert response.node_endpoints == []


def test_a_consumer_is_sent_to_a_replica_in_its_rack(harness_with: Any, batch_of: BatchOf) -> None:
    harness = harness_with(replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector")
    harness.broker.loader.image = replay(EMPTY, [a_broker(1, rack="a"), a_broker(2, rack="b")])
    partition = harness.lead("t")
    now_ms = harness.clock.monotonic_ms()
    partition.lead(leader_epoch=1, partition_epoch=2, replicas=(1, 2), isr=(1, 2), eligible={1: 7, 2: 7}, now_ms=now_ms)
    append(partition, batch_of(b"one"))
    partition.follower_fetched(2, offset=1, log_start_offset=0, broker_epoch=7, now_ms=now_ms)
    (found,) = parts(harness.call(fetch, ask(0, max_wait_ms=500, rack_id="b"), 12))
    assert (found.preferred_read_replica, found.error_code, len(found.records)) == (2, 0, 0)
    (found,) = parts(harness.call(fetch, ask(0, rack_id="a"), 12))
    assert (found.preferred_read_replica, len(found.records) > 0) == (-1, True)
