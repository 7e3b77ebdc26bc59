"""A broker answers clients of every age: each API in each version that it serves, with state to tell of."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from moldau.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.describe_groups import DescribeGroupsRequest
from moldau.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from moldau.protocol.messages.describe_producers import DescribeProducersRequest
from moldau.protocol.messages.describe_producers import TopicRequest as ProducersOfTopic
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from moldau.protocol.messages.describe_transactions import DescribeTransactionsRequest
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest
from moldau.protocol.messages.list_groups import ListGroupsRequest
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.messages.list_transactions import ListTransactionsRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from moldau.protocol.wire import Request
from moldau.server.requests.dispatch import served_versions
from moldau.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

Asked = Callable[[int], Request[Any]]


def _listed(version: int) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[partition])])


def _quorum(version: int) -> DescribeQuorumRequest:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    return DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=[partition])])


def _coordinator(version: int) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]) if version >= 4 else FindCoordinatorRequest(key="g")


def _offsets(version: int) -> OffsetFetchRequest:
    return (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
        if version >= 8
        else OffsetFetchRequest(group_id="g", topics=None if version >= 2 else [])
    )


def _configs(kind: int, name: str) -> Asked:
    return lambda version: DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)]
    )


ASKED: Mapping[str, Asked] = {
    "metadata": lambda version: MetadataRequest(topics=None if version >= 1 else []),
    "coordinator": _coordinator,
    "list offsets": _listed,
    "offset fetch": _offsets,
    "cluster": lambda version: DescribeClusterRequest(include_cluster_authorized_operations=True),
    "quorum": _quorum,
    "log dirs": lambda version: DescribeLogDirsRequest(topics=None),
    "topic configs": _configs(2, "orders"),
    "broker configs": _configs(4, "1"),
    "group configs": _configs(32, "g"),
    "config resources": lambda version: ListConfigResourcesRequest(),
    "groups": lambda version: ListGroupsRequest(),
    "describe groups": lambda version: DescribeGroupsRequest(groups=["g"]),
    "consumer groups": lambda version: ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True),
    "delete groups": lambda version: DeleteGroupsRequest(groups_names=["g"]),
    "producers": lambda version: DescribeProducersRequest(topics=[ProducersOfTopic(name="orders", partition_indexes=[0])]),
    "transactions": lambda version: ListTransactionsRequest(state_filters=[], producer_id_filters=[]),
    "describe transactions": lambda version: DescribeTransactionsRequest(transactional_ids=["t"]),
    "producer id": lambda version: InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000),
    "offsets to transaction": lambda version: AddOffsetsToTxnRequest(transactional_id="t", producer_id=0, producer_epoch=0, group_id="g"),
    "elect leaders": lambda version: ElectLeadersRequest(topic_partitions=None, timeout_ms=1000),
    "more partitions": lambda version: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name="orders", count=1, assignments=None)], timeout_ms=1000, validate_only=False
    ),
}


def _codes(message: object) -> Iterator[int]:
    """Every error code in an answer."""
    if isinstance(message, list):
        for one in message:
            yield from _codes(one)
    elif hasattr(type(message), "__slots__") and not isinstance(message, (str, bytes, memoryview, UUID)):
        for name in type(message).__slots__:
            value = getattr(message, name)
            if name == "error_code":
                yield value
            yield from _codes(value)


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as running:
        topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=1, assignments=[], configs=[])
        running.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), version=7)
        yield running


@pytest.mark.parametrize("what", ASKED)
def test_every_version_is_answered(broker: BrokerProcess, what: str) -> None:
    for version in served_versions(type(ASKED[what](0))):
        answer = broker.ask(ASKED[what](version), version=version)
        assert ErrorCode.UNKNOWN_SERVER_ERROR not in list(_codes(answer)), f"version {version}: {answer}"
