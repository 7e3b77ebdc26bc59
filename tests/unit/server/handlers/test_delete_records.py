"""DeleteRecords: which topics let their oldest records go."""

from typing import Any

import pytest

from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.server.handlers.delete_records import delete_records

NOW_MS = 1_700_000_000_000


@pytest.mark.parametrize(
    ("policy", "error_code", "low_watermark"),
    [
        ("delete", ErrorCode.NONE, 2),
        ("compact,delete", ErrorCode.NONE, 2),
        ("", ErrorCode.NONE, 2),
        ("compact", ErrorCode.POLICY_VIOLATION, -1),
    ],
)
def test_only_a_topic_that_is_compacted_and_nothing_else_keeps_them(
    harness: Any, policy: str, error_code: ErrorCode, low_watermark: int
) -> None:
    partition = harness.lead("t", cleanup_policy=policy)
    records = [NewRecord(NOW_MS, b"key", value) for value in (b"one", b"two", b"three")]
    partition.append_from_client(build_batch(records), acks=1, now_ms=NOW_MS)
    asked = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
    response = harness.call(delete_records, DeleteRecordsRequest(topics=[asked], timeout_ms=1000))
    result = response.topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (error_code, low_watermark)


def replicated(harness: Any) -> Any:
    partition = harness.lead("t")
    more = {"leader_epoch": 1, "partition_epoch": 2, "replicas": (1, 2), "isr": (1, 2), "eligible": {1: 1, 2: 1}}
    partition.lead(**more, now_ms=harness.clock.monotonic_ms())
    partition.append_from_client(build_batch([NewRecord(NOW_MS, None, value) for value in (b"one", b"two")]), acks=1, now_ms=NOW_MS)
    partition.follower_fetched(2, offset=2, log_start_offset=0, broker_epoch=1, now_ms=harness.clock.monotonic_ms())
    return partition


def delete(harness: Any, offset: int) -> tuple[Any, list[Any]]:
    asked = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    answered = harness.call(delete_records, DeleteRecordsRequest(topics=[asked], timeout_ms=1000))
    assert isinstance(answered, Later)
    answers: list[Any] = []
    answered.then(answers.append, answers.append)
    return answered, answers


def test_with_followers_it_is_answered_when_they_have_done_it(harness: Any) -> None:
    partition = replicated(harness)
    _, answers = delete(harness, 2)
    assert answers == []
    partition.follower_fetched(2, offset=2, log_start_offset=2, broker_epoch=1, now_ms=harness.clock.monotonic_ms())
    result = answers[0].topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (ErrorCode.NONE, 2)
    assert len(harness.broker.replicas.timeouts) == 0


def test_with_a_follower_that_does_not_do_it_time_runs_out(harness: Any) -> None:
    replicated(harness)
    _, answers = delete(harness, 2)
    harness.broker.replicas.timeouts.expire(harness.clock.monotonic_ms() + 900)
    assert answers == []
    harness.broker.replicas.timeouts.expire(harness.clock.monotonic_ms() + 1010)
    result = answers[0].topics[0].partitions[0]
    assert (result.error_code, result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
