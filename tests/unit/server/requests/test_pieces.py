"""The loop serves others between the pieces of a request that names very many things."""

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

import pytest

from moldau.coordinator.outcome import ProducerIdAndEpoch
from moldau.coordinator.txn.coordinator import Markers
from moldau.errors import ErrorCode
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.image import ResourceType
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from moldau.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from moldau.server.handlers import list_offsets as by_time
from moldau.server.handlers import metadata as asking
from moldau.server.handlers.add_partitions_to_txn import add_partitions_to_txn
from moldau.server.handlers.alter_replica_log_dirs import alter_replica_log_dirs
from moldau.server.handlers.describe_configs import describe_configs
from moldau.server.handlers.describe_transactions import describe_transactions
from moldau.server.handlers.find_coordinator import find_coordinator
from moldau.server.handlers.offset_fetch import offset_fetch
from moldau.server.handlers.write_txn_markers import write_txn_markers
from moldau.server.requests import pieces
from moldau.server.requests.pieces import in_pieces
from moldau.types import TopicPartition

MANY = 20


@pytest.fixture(autouse=True)
def a_piece_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_MS", 0)


async def turns_of(work: Awaitable[Any]) -> tuple[int, Any]:
    task = asyncio.ensure_future(work)
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return turns, task.result()


async def test_others_have_their_turn_between_pieces(harness: Any) -> None:
    turns, results = await turns_of(in_pieces(harness.clock, lambda number: -number, range(MANY)))
    assert turns >= MANY and results == [-number for number in range(MANY)]


async def test_a_piece_is_as_long_as_its_time(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "PIECE_MS", 20)
    turns, _ = await turns_of(in_pieces(harness.clock, lambda _: harness.clock.advance(10), range(MANY)))
    assert MANY // 2 <= turns <= MANY // 2 + 2


async def test_options_of_many(harness: Any) -> None:
    harness.broker.controller = SimpleNamespace(config=SimpleNamespace(schema=ConfigSchema({})))
    names = [f"g{number}" for number in range(MANY)]
    asked = [DescribeConfigsResource(resource_type=ResourceType.GROUP, resource_name=each, configuration_keys=None) for each in names]
    turns, response = await turns_of(harness.call(describe_configs, DescribeConfigsRequest(resources=asked)))
    assert turns >= MANY and [each.resource_name for each in response.results] == names


async def test_offsets_of_many_groups(harness: Any) -> None:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=f"g{number}", topics=None) for number in range(MANY)])
    turns, response = await turns_of(harness.call(offset_fetch, request, 8))
    assert turns >= MANY and [each.group_id for each in response.groups] == [each.group_id for each in request.groups]


async def test_coordinators_of_many_groups(harness: Any) -> None:
    keys = [f"g{number}" for number in range(MANY)]
    turns, response = await turns_of(harness.call(find_coordinator, FindCoordinatorRequest(key_type=0, coordinator_keys=keys), 4))
    assert turns >= MANY and [each.key for each in response.coordinators] == keys


async def test_many_transactions_described(harness: Any) -> None:
    ids = [f"t{number}" for number in range(MANY)]
    turns, response = await turns_of(harness.call(describe_transactions, DescribeTransactionsRequest(transactional_ids=ids)))
    assert turns >= MANY and [each.transactional_id for each in response.transaction_states] == ids


async def test_many_replicas_to_another_folder(harness: Any) -> None:
    topics = [AlterReplicaLogDirTopic(name="t", partitions=list(range(MANY)))]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/elsewhere", topics=topics)])
    turns, response = await turns_of(harness.call(alter_replica_log_dirs, request))
    assert turns >= MANY
    (topic,) = response.results
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (index, ErrorCode.LOG_DIR_NOT_FOUND) for index in range(MANY)
    ]


async def test_many_topics_that_come_to_be(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []

    async def ask(request: CreateTopicsRequest) -> Any:
        asked.append([topic.name for topic in request.topics])
        return request.refused(ErrorCode.TOPIC_ALREADY_EXISTS if "t3" in asked[-1] else ErrorCode.INVALID_REPLICATION_FACTOR)

    harness.broker.controller = SimpleNamespace(ask=ask)
    monkeypatch.setattr(asking, "CREATED_AT_ONCE", 2)
    monkeypatch.setattr(asking, "MOST_CREATED", 5)
    names = [f"t{number}" for number in range(6)]

    def request(count: int) -> MetadataRequest:
        return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names[:count]], allow_auto_topic_creation=True)

    response = await harness.call(asking.metadata, request(5))
    assert asked == [["t0", "t1"], ["t2", "t3"], ["t4"]]
    refused, unknown = ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [each.error_code for each in response.topics] == [refused, refused, unknown, unknown, refused]
    asked.clear()
    response = await harness.call(asking.metadata, request(6))
    assert not asked and {each.error_code for each in response.topics} == {ErrorCode.POLICY_VIOLATION}


async def test_searches_by_time_in_many_partitions(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_time, "SEARCHES_AT_ONCE", 1)
    for index in range(MANY):
        harness.lead("t", index)
    asked = [ListOffsetsPartition(partition_index=index, timestamp=1) for index in range(MANY)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])
    turns, response = await turns_of(harness.call(by_time.list_offsets, request))
    assert turns >= MANY and [each.error_code for each in response.topics[0].partitions] == MANY * [ErrorCode.NONE]


async def test_membership_in_many_transactions(harness: Any) -> None:
    transactions = [
        AddPartitionsToTxnTransaction(transactional_id=f"t{number}", producer_id=1, producer_epoch=0, verify_only=True, topics=[])
        for number in range(MANY)
    ]
    turns, response = await turns_of(harness.call(add_partitions_to_txn, AddPartitionsToTxnRequest(transactions=transactions), 4))
    assert turns >= MANY
    assert [each.transactional_id for each in response.results_by_transaction] == [each.transactional_id for each in transactions]


async def test_markers_for_many_partitions_from_another_broker(harness: Any) -> None:
    logs = [harness.lead("t", index).log for index in range(MANY)]
    marker = WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=True,
        coordinator_epoch=0,
        topics=[WritableTxnMarkerTopic(name="t", partition_indexes=list(range(MANY)))],
    )
    work = asyncio.ensure_future(harness.call(write_txn_markers, WriteTxnMarkersRequest(markers=[marker])))
    for _ in range(MANY // 2):
        await asyncio.sleep(0)
    assert 0 < sum(log.log_end_offset for log in logs) < MANY
    while not work.done():
        harness.flush()
        await asyncio.sleep(0)
    assert [log.log_end_offset for log in logs] == MANY * [1]
    assert {each.error_code for each in work.result().markers[0].topics[0].partitions} == {0}


async def test_markers_of_a_transaction_of_many_partitions(harness: Any) -> None:
    logs = [harness.lead("t", index).log for index in range(MANY)]
    done: list[bool] = []
    markers = Markers(
        "tx",
        ProducerIdAndEpoch(1, 0),
        is_commit=True,
        partitions=frozenset(TopicPartition("t", index) for index in range(MANY)),
        client_version=0,
    )
    harness.broker.coordinators.markers.send(markers, 0, is_wanted=lambda: True, on_done=lambda: done.append(True))
    for _ in range(MANY // 2):
        await asyncio.sleep(0)
    assert 0 < sum(log.log_end_offset for log in logs) < MANY
    while not done:
        harness.flush()
        await asyncio.sleep(0)
    assert [log.log_end_offset for log in logs] == MANY * [1]
