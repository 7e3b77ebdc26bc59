from typing import Any

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from moldau.server.handlers.write_txn_markers import write_txn_markers


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "code"),
    [
        (-1, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (-1, -1, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (-5, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (5, -1, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
async def test_a_marker_of_no_producer_is_not_written(harness: Any, producer_id: int, producer_epoch: int, code: ErrorCode) -> None:
    partition = harness.lead("t")
    marker = WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=True,
        coordinator_epoch=0,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=[0])],
    )
    response = await harness.call(write_txn_markers, WriteTxnMarkersRequest(markers=[marker]), 1)
    assert response.markers[0].topics[0].partitions[0].error_code == code
    assert partition.log.log_end_offset == 0
