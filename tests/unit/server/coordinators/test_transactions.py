"""The error that tells a producer that it is fenced, and the question whether a partition is part of a transaction."""

from typing import Any

import pytest

from moldau.coordinator.outcome import ProducerIdAndEpoch
from moldau.coordinator.txn.state import EPOCH_BUMP_SINCE
from moldau.errors import ErrorCode
from moldau.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from moldau.protocol.wire import AnyResponse, Request
from moldau.replication.partition import Partition
from moldau.server.coordinators.transactions import Membership, fenced_as_known
from moldau.storage.producers.state import VerificationGuard
from moldau.storage.validator import AppendFailure
from moldau.types import TopicPartition
from tests.unit.server.conftest import NOW_MS, Harness, records


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, 2, ErrorCode.PRODUCER_FENCED),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 1, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.NONE, 1, ErrorCode.NONE),
    ],
)
def test_older_clients_hear_of_the_epoch(code: ErrorCode, version: int, told: ErrorCode) -> None:
    assert fenced_as_known(code, version, since=2) is told


def test_some_requests_have_no_version_that_knows_it() -> None:
    assert fenced_as_known(ErrorCode.PRODUCER_FENCED) is ErrorCode.INVALID_PRODUCER_EPOCH


class Coordinator:
    """A coordinator on another broker.  The marker of the transaction before reaches the partition while it is asked for the first time."""

    def __init__(self, harness: Harness, partition: Partition) -> None:
        self.asked = 0
        self._harness = harness
        self._partition = partition

    def leader_of(self, where: TopicPartition) -> int:
        return 2

    async def ask(self, broker_id: int, request: Request[AnyResponse]) -> Any:
        self.asked += 1
        if self.asked == 1:
            refusal = self._harness.broker.coordinators.markers.append(
                self._partition,
                PRODUCER,
                is_commit=True,
                coordinator_epoch=0,
                transaction_version=EPOCH_BUMP_SINCE,
                on_acknowledged=lambda code: None,
            )
            assert refusal is None
        told = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=0)
        topic = AddPartitionsToTxnTopicResult(name="orders", results_by_partition=[told])
        return AddPartitionsToTxnResponse(results_by_transaction=[AddPartitionsToTxnResult(transactional_id="t", topic_results=[topic])])


PRODUCER = ProducerIdAndEpoch(7, 3)


@pytest.mark.parametrize("adds", [True, False])
async def test_the_marker_of_the_transaction_before_does_not_end_the_verification_of_a_client_of_version_2(
    adds: bool, harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only such a client goes on before the marker is written.  For others nothing tells a late request from one of this time."""
    partition = harness.lead("orders")
    coordinator = Coordinator(harness, partition)
    monkeypatch.setattr(harness.broker.coordinators, "brokers", coordinator)
    guard = await Membership(harness.broker, "t", PRODUCER).of(partition, adds=adds)
    assert coordinator.asked == 1
    assert isinstance(guard, VerificationGuard)
    batch = records(b"v", producer_id=7, producer_epoch=3, base_sequence=0, is_transactional=True)
    result = partition.append_from_client(batch, acks=1, now_ms=NOW_MS, guard=guard)
    assert (isinstance(result, AppendFailure) and result.error is ErrorCode.INVALID_TXN_STATE) is not adds
