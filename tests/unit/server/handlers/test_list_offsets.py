from typing import Any

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic
from moldau.server.handlers.list_offsets import LATEST, list_offsets
from moldau.server.handlers.offset_for_leader_epoch import offset_for_leader_epoch


def ask(**options: Any) -> ListOffsetsRequest:
    epoch = options.pop("epoch", -1)
    asked = ListOffsetsPartition(partition_index=0, timestamp=LATEST, current_leader_epoch=epoch)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[asked])], **options)


@pytest.mark.parametrize("level", [-1, 2])
def test_an_isolation_level_that_nobody_knows_is_refused(harness: Any, level: int) -> None:
    harness.lead("t")
    with pytest.raises(KafkaError, match="INVALID_REQUEST: isolation_level"):
        harness.call(list_offsets, ask(isolation_level=level), 7)


CODES = [(-1, ErrorCode.NONE), (-2, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)]


@pytest.mark.parametrize(("epoch", "code"), CODES)
def test_only_minus_one_says_nothing_of_the_leader_epoch(harness: Any, epoch: int, code: ErrorCode) -> None:
    harness.lead("t")
    assert harness.call(list_offsets, ask(epoch=epoch), 7).topics[0].partitions[0].error_code == code
    asked = OffsetForLeaderPartition(partition=0, leader_epoch=0, current_leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[asked])])
    assert harness.call(offset_for_leader_epoch, request, 4).topics[0].partitions[0].error_code == code
