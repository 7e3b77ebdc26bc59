"""DeleteRecords: which topics let their oldest records go."""

from typing import Any

import pytest

from moldau.errors import ErrorCode
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
