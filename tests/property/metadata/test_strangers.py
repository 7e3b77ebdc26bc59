"""Whatever a stranger asks the controller, it refuses, or writes records that a log holds and that replay to an image that can be told."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.errors import KafkaError
from moldau.metadata import brokers, configs, directories, elections, feature_updates, heartbeats, producer_ids, topics
from moldau.metadata.delta import replay
from moldau.metadata.image import EMPTY, MetadataImage, encode_record
from moldau.metadata.outcome import Outcome
from moldau.metadata.records import METADATA_RECORDS
from moldau.protocol.compiler import encode_bytes
from moldau.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from moldau.protocol.messages.alter_configs import AlterConfigsRequest
from moldau.protocol.messages.alter_partition import AlterPartitionRequest
from moldau.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from moldau.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest
from moldau.protocol.messages.controller_registration import ControllerRegistrationRequest
from moldau.protocol.messages.create_partitions import CreatePartitionsRequest
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest
from moldau.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.protocol.messages.update_features import UpdateFeaturesRequest
from moldau.protocol.wire import Field, Request
from proof.arbitrary import arbitrary
from proof.arbitrary import plain as any_plain
from proof.cluster.images import an_image, rules

LEVEL = 30
CLUSTER = "cluster"
BROKER_EPOCH = 7
QUORUM = feature_updates.Quorum(node_id=1, voter_ids=(1,), kraft_version=1)
RULES = rules()
Decide = Callable[[MetadataImage, Any, int], Outcome[Any]]

DECISIONS: dict[type[Request[Any]], Decide] = {
    BrokerRegistrationRequest: lambda image, request, version: brokers.register_broker(
        image, RULES.schema, request, cluster_id=CLUSTER, next_offset=50, is_session_valid=False
    ),
    ControllerRegistrationRequest: lambda image, request, version: brokers.register_controller(image, request),
    BrokerHeartbeatRequest: lambda image, request, version: heartbeats.broker_heartbeat(
        image, RULES.schema, heartbeats.Sessions(9000), request, now_ms=0, next_offset=50
    ),
    UnregisterBrokerRequest: lambda image, request, version: brokers.unregister_broker(image, RULES.schema, request),
    AllocateProducerIdsRequest: lambda image, request, version: producer_ids.allocate_producer_ids(image, request),
    AssignReplicasToDirsRequest: lambda image, request, version: directories.assign_replicas_to_dirs(image, RULES.schema, request),
    AlterPartitionRequest: lambda image, request, version: elections.alter_partition(image, RULES.schema, request, version=version),
    ElectLeadersRequest: lambda image, request, version: elections.elect_leaders(image, RULES.schema, request),
    AlterPartitionReassignmentsRequest: lambda image, request, version: elections.alter_partition_reassignments(
        image, RULES.schema, request
    ),
    CreateTopicsRequest: lambda image, request, version: topics.create_topics(image, RULES, request),
    CreatePartitionsRequest: lambda image, request, version: topics.create_partitions(image, RULES, request),
    DeleteTopicsRequest: lambda image, request, version: topics.delete_topics(image, request, is_enabled=True, version=version),
    AlterConfigsRequest: lambda image, request, version: configs.alter_configs(image, RULES.schema, request),
    IncrementalAlterConfigsRequest: lambda image, request, version: configs.incremental_alter_configs(image, RULES.schema, request),
    UpdateFeaturesRequest: lambda image, request, version: feature_updates.update_features(image, QUORUM, request, version=version),
}

IMAGE = an_image(1, 2)
IMAGE = replay(
    IMAGE,
    topics.create_topics(
        IMAGE,
        RULES,
        CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=2, assignments=[], configs=[])]),
    ).records,
)
KNOWN: dict[str, st.SearchStrategy[Any]] = {
    "broker_epoch": st.just(BROKER_EPOCH),
    "cluster_id": st.just(CLUSTER),
    "name": st.sampled_from(["t", "metadata.version", "retention.ms"]),
    "topic_id": st.just(IMAGE.topics["t"].id),
    "log_dirs": st.just(UUID(int=9000)),
    "resource_name": st.sampled_from(["t", "1", ""]),
}


def plain(kind: str, field: Field) -> st.SearchStrategy[Any]:
    """Values that are sometimes names and ids that exist: a stranger may well have asked for them."""
    if field.name in KNOWN:
        return KNOWN[field.name] | any_plain(kind, field)
    small = st.integers(-1, 3)
    return small | any_plain(kind, field) if kind in ("int8", "int16", "int32", "int64") else any_plain(kind, field)


@pytest.mark.parametrize("asked", DECISIONS, ids=lambda asked: asked.__name__)
@given(data=st.data())
def test_what_is_decided_can_be_written_and_read_back(asked: type[Request[Any]], data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(asked.VERSIONS))
    request = data.draw(arbitrary(asked, version, plain=plain))
    try:
        outcome = DECISIONS[asked](IMAGE, request, version)
    except KafkaError as error:
        encode_bytes(request.refused(error.code, error.detail), version)
        return
    encode_bytes(outcome.response, version)
    stored = [METADATA_RECORDS.decode(encode_record(record, LEVEL)) for record in outcome.records]
    after = replay(IMAGE, stored)
    assert replay(EMPTY, [METADATA_RECORDS.decode(record) for record in after.encoded()], offset=after.offset) == after
