import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.net.later import Later
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from moldau.protocol.records.batch import read_header
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.server.handlers.produce import ADMIN_CLIENT_ID, PIECE, produce
from moldau.server.requests.dispatch import ConnectionClosed
from moldau.storage.processes import WorkerDied

BatchOf = Callable[..., memoryview]


def ask(data: Any, *, topic: str = "t", index: int = 0, acks: int = 1, transactional_id: str | None = None) -> ProduceRequest:
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=1000,
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=data)])],
    )


def slot(response: Any) -> Any:
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0]


def test_acks_one_is_answered_at_once(harness: Any, batch_of: BatchOf) -> None:
    partition = harness.lead("t")
    first = slot(harness.call(produce, ask(batch_of(b"one", b"two")), 9))
    second = slot(harness.call(produce, ask(batch_of(b"three")), 9))
    assert (first.error_code, first.base_offset, first.log_append_time_ms, first.log_start_offset) == (0, 0, -1, 0)
    assert second.base_offset == 2
    assert partition.log.high_watermark == 3


def test_acks_zero_is_not_answered(harness: Any, batch_of: BatchOf) -> None:
    partition = harness.lead("t")
    assert harness.call(produce, ask(batch_of(b"one"), acks=0), 9) is None
    assert partition.log.log_end_offset == 1


def test_acks_zero_that_fails_closes_the_connection(harness: Any, batch_of: BatchOf) -> None:
    with pytest.raises(ConnectionClosed, match="nope-0: UNKNOWN_TOPIC_OR_PARTITION"):
        harness.call(produce, ask(batch_of(b"one"), topic="nope", acks=0), 9)


def test_acks_all_is_answered_after_the_sync(harness: Any, batch_of: BatchOf) -> None:
    harness.lead("t")
    answers: list[Any] = []
    later = harness.call(produce, ask(batch_of(b"one"), acks=-1), 9)
    assert isinstance(later, Later)
    later.then(answers.append, answers.append)
    assert answers == []
    harness.flush()
    assert (slot(answers[0]).error_code, slot(answers[0]).base_offset) == (0, 0)
    assert len(harness.broker.replicas.timeouts) == 0


def test_acks_all_is_answered_when_its_time_runs_out(harness: Any, batch_of: BatchOf) -> None:
    harness.lead("t")
    answers: list[Any] = []
    harness.call(produce, ask(batch_of(b"one"), acks=-1), 9).then(answers.append, answers.append)
    harness.clock.advance(1010)
    harness.broker.replicas.timeouts.expire(harness.clock.monotonic_ms())
    assert slot(answers[0]).error_code == ErrorCode.REQUEST_TIMED_OUT
    harness.flush()
    assert len(answers) == 1


def test_acks_all_of_what_is_durable_already_is_answered_at_once(harness: Any, batch_of: BatchOf) -> None:
    harness.lead("t")
    again = batch_of(b"one", producer_id=5, producer_epoch=0, base_sequence=0)
    harness.call(produce, ask(memoryview(bytearray(again)), acks=-1), 9)
    harness.flush()
    assert slot(harness.call(produce, ask(again, acks=-1), 9)).base_offset == 0


def test_topics_by_id(harness: Any, batch_of: BatchOf) -> None:
    partition = harness.lead("t")
    request = ask(batch_of(b"one"), topic="")
    request.topic_data[0].topic_id = partition.topic_id
    response = harness.call(produce, request, 13)
    assert slot(response).error_code == 0
    assert response.responses[0].topic_id == partition.topic_id
    unknown = harness.call(produce, ask(batch_of(b"one"), topic=""), 13)
    assert slot(unknown).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"topic": "nope"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
        ({"topic": "__consumer_offsets"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"topic": "elsewhere"}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=str,
)
def test_refusals_before_the_log(harness: Any, batch_of: BatchOf, change: dict[str, Any], code: ErrorCode) -> None:
    harness.lead("t")
    harness.lead("__consumer_offsets")
    harness.cluster.known.add(("elsewhere", 0))
    refused = slot(harness.call(produce, ask(batch_of(b"one"), **change), 9))
    assert (refused.error_code, refused.base_offset, refused.log_start_offset, refused.log_append_time_ms) == (code, -1, -1, -1)


@pytest.mark.parametrize("nothing", [None, memoryview(b"")], ids=["null", "empty"])
def test_no_records_are_refused(harness: Any, nothing: Any) -> None:
    harness.lead("t")
    assert slot(harness.call(produce, ask(nothing), 9)).error_code == ErrorCode.INVALID_RECORD


def test_the_admin_client_may_write_to_internal_topics(harness: Any, batch_of: BatchOf) -> None:
    harness.lead("__consumer_offsets")
    request = ask(batch_of(b"one"), topic="__consumer_offsets")
    assert slot(harness.call(produce, request, 9, client_id=ADMIN_CLIENT_ID)).error_code == 0


def test_whoever_asks_the_wrong_broker_is_told_the_right_one(harness: Any, batch_of: BatchOf) -> None:
    harness.cluster.known.add(("elsewhere", 0))
    response = harness.call(produce, ask(batch_of(b"one"), topic="elsewhere"), 10)
    assert (slot(response).current_leader.leader_id, slot(response).current_leader.leader_epoch) == (2, 9)
    assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [(2, "two", 9092)]
    older = harness.call(produce, ask(batch_of(b"one"), topic="elsewhere"), 9)
    assert older.node_endpoints == []


def test_a_transactional_batch_needs_a_transactional_id(harness: Any, batch_of: BatchOf) -> None:
    partition = harness.lead("t")
    data = batch_of(b"one", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    with pytest.raises(KafkaError) as caught:
        harness.call(produce, ask(data), 9)
    assert caught.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert partition.log.log_end_offset == 0


def test_sequences_are_checked(harness: Any, batch_of: BatchOf) -> None:
    harness.lead("t")

    def send(sequence: int, epoch: int = 0) -> Any:
        return slot(harness.call(produce, ask(batch_of(b"x", producer_id=5, producer_epoch=epoch, base_sequence=sequence)), 9))

    assert send(0).base_offset == 0
    assert send(1).base_offset == 1
    assert send(1).base_offset == 1  # the same batch again is not stored twice
    assert send(3).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, epoch=1).base_offset == 2
    assert send(2).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_records_that_are_wrong_are_named(harness: Any, batch_of: BatchOf) -> None:
    harness.lead("t", cleanup_policy="compact")
    refused = slot(harness.call(produce, ask(batch_of(b"no key")), 9))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert [each.batch_index for each in refused.record_errors] == [0]
    assert refused.error_message


def test_partitions_fail_one_by_one(harness: Any, batch_of: BatchOf) -> None:
    harness.lead("t", 0)
    request = ask(batch_of(b"one"), index=0)
    request.topic_data[0].partition_data.append(PartitionProduceData(index=9, records=batch_of(b"two")))
    response = harness.call(produce, request, 9)
    assert [each.error_code for each in response.responses[0].partition_responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


MANY = 2_001  # more than the loop looks into


def many(sequence: int, key: bytes | None = b"k") -> memoryview:
    records = [NewRecord(1_700_000_000_000, key, b"v") for _ in range(MANY)]
    return memoryview(build_batch(records, producer_id=5, producer_epoch=0, base_sequence=sequence))


async def test_heavy_records_are_examined_beside_the_loop_and_appended_in_their_turn(harness: Any, batch_of: BatchOf) -> None:
    compacted, other = harness.lead("t", cleanup_policy="compact"), harness.lead("o")
    requests = [ask(many(0)), ask(memoryview(build_batch([NewRecord(1, b"k", b"v")], producer_id=5, producer_epoch=0, base_sequence=MANY)))]
    both = ask(batch_of(b"light"), topic="o")
    both.topic_data.append(TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=many(MANY + 1))]))
    requests.append(both)
    context = harness.context(requests[0], 9)
    waiting = [asyncio.ensure_future(produce(harness.broker, context, request)) for request in requests]
    assert compacted.log.log_end_offset == 0 and harness.call(produce, ask(batch_of(b"from elsewhere"), topic="o"), 9)
    first, second, third = await asyncio.gather(*waiting)
    assert (slot(first).error_code, slot(first).base_offset) == (slot(second).error_code, 0) == (0, 0)
    assert slot(second).base_offset == MANY
    assert [topic.partition_responses[0].base_offset for topic in third.responses] == [1, MANY + 1]
    assert compacted.log.log_end_offset == 2 * MANY + 1 and other.log.log_end_offset == 2
    assert context.client.last_append is None
    assert slot(produce(harness.broker, context, ask(batch_of(b"light"), topic="o"))).base_offset == 2, "no request waits any more"


async def test_heavy_records_that_are_wrong_are_named(harness: Any) -> None:
    harness.lead("t", cleanup_policy="compact")
    refused = slot(await harness.call(produce, ask(many(0, key=None)), 9))
    assert refused.error_code == ErrorCode.INVALID_RECORD and len(refused.record_errors) == MANY
    with pytest.raises(ConnectionClosed, match="t-0: INVALID_RECORD"):
        await harness.call(produce, ask(many(0, key=None), acks=0), 9)


async def test_heavy_records_with_acks_all_are_answered_after_the_sync(harness: Any) -> None:
    partition = harness.lead("t", cleanup_policy="compact")
    waiting = asyncio.ensure_future(harness.call(produce, ask(many(0), acks=-1), 9))
    for _ in range(20):  # turns of the loop
        await asyncio.sleep(0)
    assert partition.log.log_end_offset == MANY and not waiting.done()
    harness.flush()
    assert slot(await waiting).base_offset == 0


async def test_an_answer_waits_for_heavy_records_though_all_others_are_safe_already(harness: Any, batch_of: BatchOf) -> None:
    """Once the answer said that time had run out for records that were appended: a producer would have sent them again."""
    partition = harness.lead("t", cleanup_policy="compact")
    harness.lead("o")
    both = ask(batch_of(b"light"), topic="o", acks=-1)
    both.topic_data.append(TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=many(0))]))
    waiting = asyncio.ensure_future(harness.call(produce, both, 9))
    harness.flush()
    for _ in range(20):
        await asyncio.sleep(0)
    assert partition.log.log_end_offset == MANY and not waiting.done()
    harness.flush()
    assert [each.partition_responses[0].error_code for each in (await waiting).responses] == [0, 0]


async def test_very_many_batches_are_appended_in_pieces_and_in_their_turn(harness: Any, batch_of: BatchOf) -> None:
    partitions = [harness.lead("t", index) for index in range(PIECE + 1)]
    batch = batch_of(b"one")
    long = ask(batch, acks=-1)
    long.topic_data[0].partition_data = [PartitionProduceData(index=index, records=batch) for index in range(PIECE + 1)]
    context = harness.context(long, 9)
    first = asyncio.ensure_future(produce(harness.broker, context, long))
    second = asyncio.ensure_future(produce(harness.broker, context, ask(batch_of(b"behind"), index=PIECE)))
    await asyncio.sleep(0)
    ends = [partition.log.log_end_offset for partition in partitions]
    assert ends == [1] * PIECE + [0], "others have their turn now"
    harness.flush()  # everything appended so far is safe, which is no answer yet
    assert slot(await second).base_offset == 1 and not first.done()
    harness.flush()
    (answered,) = (await first).responses
    assert [each.error_code for each in answered.partition_responses] == [0] * (PIECE + 1)
    assert [each.index for each in answered.partition_responses] == list(range(PIECE + 1))
    assert context.client.last_append is None


async def test_heavy_records_are_examined_again_when_the_topic_has_changed_meanwhile(harness: Any) -> None:
    partition = harness.lead("t", compression_type="gzip")
    waiting = asyncio.ensure_future(harness.call(produce, ask(many(0)), 9))
    partition.log.configure(partition.log.config.override({"compression.type": "zstd"}))
    assert slot(await waiting).base_offset == 0
    stored = partition.log.read(0, 1 << 20)
    assert read_header(stored.records.read()).codec is Codec.ZSTD


async def test_a_process_that_dies_over_heavy_records_leaves_them_to_be_sent_again(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def died(*_: Any) -> None:
        raise WorkerDied("a worker process ended with -9")

    partition = harness.lead("t", cleanup_policy="compact")
    monkeypatch.setattr(harness.files, "compute", died)
    assert slot(await harness.call(produce, ask(many(0)), 9)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert partition.log.log_end_offset == 0


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (b"abc", ErrorCode.INVALID_RECORD),
        (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("two batches", ErrorCode.INVALID_RECORD),
        ("magic 3", ErrorCode.CORRUPT_MESSAGE),
        ("too short", ErrorCode.CORRUPT_MESSAGE),
        ("good", ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
def test_what_is_wrong_with_the_records_is_told_before_acks_that_nobody_knows(
    harness: Any, batch_of: BatchOf, records: Any, code: ErrorCode
) -> None:
    harness.lead("t")
    data = bytearray(batch_of(b"one"))
    if records == "two batches":
        data += bytes(data)
    elif records == "magic 3":
        data[16] = 3
    elif records == "too short":
        data[8:12] = (5).to_bytes(4, "big")
    elif isinstance(records, bytes):
        data = bytearray(records)
    refused = slot(harness.call(produce, ask(memoryview(data), acks=5, index=9 if records is None else 0), 9))
    assert refused.error_code == code
    assert (refused.error_message is not None) is (code is ErrorCode.CORRUPT_MESSAGE)


def test_of_a_partition_that_is_named_twice_the_records_named_last_are_written(harness: Any, batch_of: BatchOf) -> None:
    one, two = harness.lead("t", 0), harness.lead("t", 1)
    request = ask(batch_of(b"a", b"b", b"c"))
    request.topic_data[0].partition_data += [PartitionProduceData(index=1, records=batch_of(b"d"))]
    request.topic_data += ask(batch_of(b"last")).topic_data
    response = harness.call(produce, request, 9)
    assert (one.log.log_end_offset, two.log.log_end_offset) == (1, 1)
    assert sorted(each.index for topic in response.responses for each in topic.partition_responses) == [0, 1]


async def test_a_partition_that_its_transaction_does_not_know_is_refused_without_a_look_at_its_log(harness: Any) -> None:
    harness.lead("t")
    records = memoryview(
        build_batch([NewRecord(0, None, b"v")], producer_id=4000, producer_epoch=0, base_sequence=0, is_transactional=True)
    )
    refused = slot(await harness.call(produce, ask(records, transactional_id="mine"), 9))
    assert (refused.error_code, refused.log_start_offset) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert "NOT_COORDINATOR" in refused.error_message, "a tool prints why"
