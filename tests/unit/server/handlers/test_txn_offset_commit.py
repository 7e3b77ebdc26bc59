"""TxnOffsetCommit while the transaction's coordinator, on another broker, is gone or behind."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from moldau.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from moldau.protocol.wire import AnyResponse, Request
from moldau.server.handlers.txn_offset_commit import txn_offset_commit
from moldau.types import GROUP_TOPIC, TopicPartition
from tests.unit.server.conftest import Harness, Orders


class OtherBroker:
    """The broker of the transaction's coordinator: it breaks the connection, or has something to say of the group's partition."""

    def __init__(self, says: ErrorCode | None) -> None:
        self._says = says

    def leader_of(self, where: TopicPartition) -> int:
        return 2

    async def ask(self, broker_id: int, request: Request[AnyResponse]) -> Any:
        if self._says is None:
            raise ConnectionResetError("the connection broke")
        told = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=self._says)
        topic = AddPartitionsToTxnTopicResult(name=GROUP_TOPIC, results_by_partition=[told])
        return AddPartitionsToTxnResponse(results_by_transaction=[AddPartitionsToTxnResult(transactional_id="t", topic_results=[topic])])


@pytest.mark.parametrize("version", [3, 4, 5])
@pytest.mark.parametrize(
    ("says", "told"),
    [
        (None, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
async def test_clients_hear_of_nothing_that_ends_their_producer_when_the_transaction_s_coordinator_cannot_be_asked(
    says: ErrorCode | None, told: ErrorCode, version: int, harness_with: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients do not expect NETWORK_EXCEPTION here: franz-go's session ends with it."""
    harness = harness_with(offsets_topic_num_partitions="1")
    coordinators = harness.broker.coordinators
    coordinators.group_environment.topics = Orders()
    coordinators.leadership_changed(harness.lead(GROUP_TOPIC))
    while coordinators.groups.is_loading():  # noqa: ASYNC110  nothing says when
        await asyncio.sleep(0)
    monkeypatch.setattr(coordinators, "brokers", OtherBroker(says))
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id="t",
        group_id="g",
        producer_id=7,
        producer_epoch=3,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[offset])],
    )
    (topic,) = (await harness.call(txn_offset_commit, request, version)).topics
    assert [ErrorCode.of(each.error_code) for each in topic.partitions] == [told]
    coordinators.close()
