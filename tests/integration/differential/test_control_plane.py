"""The control plane's answers beside Apache Kafka's, with good and bad inputs.  Each case names the fields that may differ."""

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from moldau.protocol.messages import alter_configs as old
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from moldau.protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from moldau.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.describe_acls import DescribeAclsRequest
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from moldau.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest
from moldau.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest, ListPartitionReassignmentsTopics
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from moldau.protocol.messages.sasl_handshake import SaslHandshakeRequest
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from moldau.protocol.wire import Request
from moldau.server.handlers.describe_configs import ONCE_SET
from moldau.server.node.config import ROOMS
from moldau.types import ZERO_UUID
from proof.kafka.differential import Differential

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("differential")]

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
UNKNOWN_ID = uuid.UUID("12345678-1234-4234-8234-123456789abc")

ADDRESSES = {"brokers.host", "brokers.port", "nodes.listeners.port"}
TOPIC_IDS = {"topics.topic_id", "responses.topic_id"}
DOCS = {"results.configs.documentation"}
TIMES = {
    "topics.partitions.high_watermark",
    "topics.partitions.leader_epoch",
    "topics.partitions.current_voters.replica_directory_id",
    "topics.partitions.current_voters.log_end_offset",
    "topics.partitions.current_voters.last_fetch_timestamp",
    "topics.partitions.current_voters.last_caught_up_timestamp",
}


IN_OUR_WORDS = ("responses.error_message",)


class Case(NamedTuple):
    """`version` None: every version that there is.  `known`: fields that differ on purpose, beside ids and addresses."""

    request: Request[Any]
    version: int | None = None
    known: Sequence[str] = ()


def a_topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignments: Sequence[tuple[int, list[int]]] = (),
    configs: Sequence[tuple[str, str | None]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in assignments],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs],
    )


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)


def delete_by_name(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names], timeout_ms=10_000)


def grow(name: str, count: int, assignments: Sequence[list[int]] | None = None, *, validate_only: bool = False) -> CreatePartitionsRequest:
    placed = None if assignments is None else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assignments]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=placed)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=validate_only)


def change(kind: int, name: str, *ops: tuple[str, int, str | None], validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    configs = [AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in ops]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def replace(kind: int, name: str, *pairs: tuple[str, str | None]) -> old.AlterConfigsRequest:
    configs = [old.AlterableConfig(name=key, value=value) for key, value in pairs]
    resource = old.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return old.AlterConfigsRequest(resources=[resource], validate_only=False)


def describe(kind: int, name: str, *keys: str, synonyms: bool = True, docs: bool = False) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    return DescribeConfigsRequest(resources=[resource], include_synonyms=synonyms, include_documentation=docs)


def by_name(*names: str | None, **more: Any) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **more)


def by_id(*ids: uuid.UUID) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(topic_id=one, name=None) for one in ids])


def feature(name: str, level: int, kind: int = 1, *, validate_only: bool = False) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)], validate_only=validate_only
    )


def elect(kind: int, *topics: tuple[str, list[int]]) -> ElectLeadersRequest:
    return ElectLeadersRequest(
        election_type=kind,
        topic_partitions=[TopicPartitions(topic=name, partitions=numbers) for name, numbers in topics],
        timeout_ms=10_000,
    )


def reassign(name: str, number: int, replicas: list[int] | None) -> AlterPartitionReassignmentsRequest:
    partition = ReassignablePartition(partition_index=number, replicas=replicas)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=name, partitions=[partition])])


def quorum(topic: str = "__cluster_metadata", *partitions: int) -> DescribeQuorumRequest:
    numbers = [DescribeQuorumRequestPartitionData(partition_index=number) for number in partitions or (0,)]
    return DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic_name=topic, partitions=numbers)])


OURS_ALONE = {option.key for room in ROOMS for option in room.OPTIONS.values() if option.is_ours and option.key} - ONCE_SET
OF_THIS_NODE = {"advertised.listeners", "listeners", "log.dirs", "controller.quorum.bootstrap.servers"}
KNOWN = {
    "group.consumer.heartbeat.interval.ms": "can be set while the broker runs",
    "group.consumer.session.timeout.ms": "can be set while the broker runs",
}


def test_the_options_of_a_broker_are_kafkas(both: Differential) -> None:
    """Options without effect here are read-only, whatever they are in Kafka."""
    request = describe(BROKER, "1")
    ours, theirs = ({config.name: config for config in answer.results[0].configs} for answer in both.both(request, 4))
    assert ours.keys() - theirs.keys() == OURS_ALONE
    assert theirs.keys() - ours.keys() == set()
    for name in sorted(theirs.keys() - OF_THIS_NODE - KNOWN.keys()):
        mine, other = ours[name], theirs[name]
        assert (mine.value, mine.config_source, mine.config_type) == (other.value, other.config_source, other.config_type), name
        assert mine.is_sensitive == other.is_sensitive, name
        assert mine.read_only or not other.read_only, f"{name} can be set here, not in Kafka"
        assert [(one.name, one.value, one.source) for one in mine.synonyms] == [
            (one.name, one.value, one.source) for one in other.synonyms
        ], name
    assert [one.name for one in ours["log.dirs"].synonyms] == [one.name for one in theirs["log.dirs"].synonyms]


CASES = {
    # creating
    "create in no time": Case(CreateTopicsRequest(topics=[a_topic("late")], timeout_ms=0), 7, ("topics.error_message",)),
    "create in less": Case(CreateTopicsRequest(topics=[a_topic("late")], timeout_ms=-1), 7, ("topics.error_message",)),
    "create": Case(create(a_topic("orders", 3)), 7),
    "create with defaults": Case(create(a_topic("defaults", -1, -1)), 7),
    "create with configs": Case(create(a_topic("configured", 1, 1, configs=[("retention.ms", "1000"), ("cleanup.policy", "compact")])), 7),
    "create by hand": Case(create(a_topic("placed", -1, -1, assignments=[(0, [1]), (1, [1])])), 7),
    "create again": Case(create(a_topic("orders", 3))),
    "create, only validate": Case(create(a_topic("ghost", 3), validate_only=True)),
    "create without a name": Case(create(a_topic("")), 7),
    "create dot": Case(create(a_topic("."), a_topic("..")), 7),
    "create with letters that are not": Case(create(a_topic("a b"), a_topic("ä"), a_topic("x/y")), 7),
    "create too long a name": Case(create(a_topic("x" * 250)), 7),
    "create the longest name": Case(create(a_topic("x" * 249)), 7),
    "create with a dot": Case(create(a_topic("with.dot")), 7),
    "create a name that collides": Case(create(a_topic("with_dot")), 7),
    "create too many replicas": Case(create(a_topic("r", 1, 3)), 7),
    "create no replicas": Case(create(a_topic("r", 1, 0)), 7),
    "create negative replicas": Case(create(a_topic("r", 1, -2)), 7),
    "create no partitions": Case(create(a_topic("r", 0, 1)), 7),
    "create negative partitions": Case(create(a_topic("r", -3, 1)), 7),
    "create a million partitions": Case(create(a_topic("r", 1_000_000, 1)), 7),
    "create with an unknown config": Case(create(a_topic("r", configs=[("nosuch", "1")])), 7),
    "create with a bad number": Case(create(a_topic("r", configs=[("retention.ms", "abc")])), 7),
    "create with a number too small": Case(create(a_topic("r", configs=[("segment.bytes", "3")])), 7),
    "create with a bad policy": Case(create(a_topic("r", configs=[("cleanup.policy", "sometimes")])), 7),
    "create with a null config": Case(create(a_topic("r", configs=[("retention.ms", None)])), 7),
    "create with lags at odds": Case(create(a_topic("r", configs=[("min.compaction.lag.ms", "9"), ("max.compaction.lag.ms", "8")])), 7),
    "create with tiered storage": Case(create(a_topic("r", configs=[("remote.storage.enable", "true")])), 7),
    "create the same twice": Case(create(a_topic("twice"), a_topic("twice")), 7),
    "create good and bad": Case(create(a_topic("good"), a_topic("b a d")), 7),
    "create the metadata log": Case(create(a_topic("__cluster_metadata")), 7),
    "create placed and counted": Case(create(a_topic("r", 2, -1, assignments=[(0, [1])])), 7),
    "create placed with a factor": Case(create(a_topic("r", -1, 2, assignments=[(0, [1])])), 7),
    "create placed on nobody": Case(create(a_topic("r", -1, -1, assignments=[(0, [])])), 7),
    "create placed on a stranger": Case(create(a_topic("r", -1, -1, assignments=[(0, [9])])), 7),
    "create placed twice on one": Case(create(a_topic("r", -1, -1, assignments=[(0, [1, 1])])), 7),
    "create placed with a gap": Case(create(a_topic("r", -1, -1, assignments=[(0, [1]), (2, [1])])), 7),
    "create placed one partition twice": Case(create(a_topic("r", -1, -1, assignments=[(0, [1]), (0, [1])])), 7),
    "create nothing": Case(create()),
    # growing
    "grow": Case(grow("orders", 5), 3),
    "grow to what it is": Case(grow("orders", 5)),
    "shrink": Case(grow("orders", 2), 3),
    "grow to zero": Case(grow("orders", 0), 3),
    "grow what is not": Case(grow("nosuch", 5), 3),
    "grow by hand": Case(grow("orders", 6, [[1]]), 3),
    "grow by too few": Case(grow("orders", 9, [[1]]), 3),
    "grow to a stranger": Case(grow("orders", 7, [[9]]), 3),
    "grow with too many replicas": Case(grow("orders", 7, [[1, 1]]), 3),
    "grow, only validate": Case(grow("orders", 8, validate_only=True), 3),
    "grow the same twice": Case(CreatePartitionsRequest(topics=grow("orders", 7).topics * 2, timeout_ms=1000, validate_only=False), 3),
    # describing topics
    "metadata of all": Case(MetadataRequest(topics=None), 12),
    "metadata of none": Case(MetadataRequest(topics=[]), 12),
    "metadata in version 0": Case(MetadataRequest(topics=[]), 0),
    "metadata by name": Case(by_name("orders", "nosuch", "b a d", "")),
    "metadata by name twice": Case(by_name("orders", "orders"), 12),
    "metadata, may create but may not": Case(by_name("auto", allow_auto_topic_creation=True), 12),
    "metadata by unknown id": Case(by_id(UNKNOWN_ID), 12),
    "metadata with operations": Case(by_name("orders", include_topic_authorized_operations=True), 12),
    "metadata with all operations": Case(
        by_name("orders", include_topic_authorized_operations=True, include_cluster_authorized_operations=True), 10
    ),
    "metadata null name in version 10": Case(by_name(None), 10),
    "metadata id in version 10": Case(MetadataRequest(topics=[MetadataRequestTopic(topic_id=UNKNOWN_ID, name="orders")]), 10),
    "partitions of all": Case(DescribeTopicPartitionsRequest(topics=[]), 0),
    "partitions of some": Case(
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in ("orders", "nosuch", "b a d", "placed")]), 0
    ),
    "partitions by the page": Case(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")], response_partition_limit=2), 0),
    "partitions from a cursor": Case(
        DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name="orders")], response_partition_limit=2, cursor=Cursor(topic_name="orders", partition_index=4)
        ),
        0,
    ),
    "partitions, cursor elsewhere": Case(
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")], cursor=Cursor(topic_name="placed", partition_index=0)), 0
    ),
    "partitions, cursor negative": Case(
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")], cursor=Cursor(topic_name="orders", partition_index=-1)),
        0,
    ),
    "partitions, limit zero": Case(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")], response_partition_limit=0), 0),
    # configs
    "describe a topic": Case(describe(TOPIC, "orders"), 4),
    "describe a configured topic": Case(describe(TOPIC, "configured")),
    "describe one key": Case(describe(TOPIC, "configured", "retention.ms", "nosuch"), 4),
    "describe without synonyms": Case(describe(TOPIC, "configured", synonyms=False), 4),
    "describe with docs": Case(describe(TOPIC, "configured", docs=True), 4, known=[*DOCS]),
    "describe what is not": Case(describe(TOPIC, "nosuch"), 4),
    "describe a bad name": Case(describe(TOPIC, "b a d"), 4),
    "describe all brokers": Case(describe(BROKER, ""), 4),
    "describe another broker": Case(describe(BROKER, "7"), 4),
    "describe a broker that is no number": Case(describe(BROKER, "abc"), 4),
    "describe no logger": Case(describe(LOGGER, ""), 4),
    "describe another's loggers": Case(describe(LOGGER, "7"), 4),
    "describe no metrics": Case(describe(METRICS, ""), 4),
    "describe unknown metrics": Case(describe(METRICS, "nosuch"), 4),
    "describe no group": Case(describe(GROUP, ""), 4),
    "describe an unknown type": Case(describe(99, "x"), 4),
    "set": Case(change(TOPIC, "orders", ("retention.ms", SET, "5000")), 1),
    "set seen": Case(describe(TOPIC, "orders", "retention.ms"), 4),
    "set two, one bad": Case(change(TOPIC, "orders", ("retention.ms", SET, "6000"), ("segment.ms", SET, "no")), 1),
    "set, only validate": Case(change(TOPIC, "orders", ("retention.ms", SET, "7000"), validate_only=True), 1),
    "set with a null": Case(change(TOPIC, "orders", ("retention.ms", SET, None)), 1),
    "set one key twice": Case(change(TOPIC, "orders", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")), 1),
    "set an unknown key": Case(change(TOPIC, "orders", ("nosuch", SET, "1")), 1),
    "set what is not there": Case(change(TOPIC, "nosuch", ("retention.ms", SET, "1")), 1),
    "set a topic without a name": Case(change(TOPIC, "", ("retention.ms", SET, "1")), 1),
    "set a bad name": Case(change(TOPIC, "b a d", ("retention.ms", SET, "1")), 1),
    "append": Case(change(TOPIC, "orders", ("cleanup.policy", APPEND, "compact")), 1),
    "append seen": Case(describe(TOPIC, "orders", "cleanup.policy"), 4),
    "append again": Case(change(TOPIC, "orders", ("cleanup.policy", APPEND, "compact")), 1),
    "append to a number": Case(change(TOPIC, "orders", ("retention.ms", APPEND, "1")), 1),
    "subtract": Case(change(TOPIC, "orders", ("cleanup.policy", SUBTRACT, "delete")), 1),
    "subtract seen": Case(describe(TOPIC, "orders", "cleanup.policy"), 4),
    "subtract from a number": Case(change(TOPIC, "orders", ("retention.ms", SUBTRACT, "1")), 1),
    "take away": Case(change(TOPIC, "orders", ("cleanup.policy", DELETE, None)), 1),
    "take away what is not set": Case(change(TOPIC, "orders", ("flush.ms", DELETE, None)), 1),
    "take away an unknown key": Case(change(TOPIC, "orders", ("nosuch", DELETE, None)), 1),
    "the same resource twice": Case(
        IncrementalAlterConfigsRequest(resources=change(TOPIC, "orders", ("retention.ms", SET, "1")).resources * 2, validate_only=False), 1
    ),
    "set an unknown type": Case(change(99, "x", ("a", SET, "1")), 1),
    "set a broker": Case(change(BROKER, "1", ("log.retention.ms", SET, "900000")), 1),
    "set a broker, seen": Case(describe(BROKER, "1", "log.retention.ms"), 4),
    "set what has no effect here": Case(change(BROKER, "1", ("background.threads", SET, "9")), 1),
    "set what has no effect here, seen": Case(describe(BROKER, "1", "background.threads"), 4),
    "set what has no effect here, for all": Case(change(BROKER, "", ("num.io.threads", SET, "7")), 1),
    "set what has no effect here, for all, seen": Case(describe(BROKER, "", "num.io.threads"), 4),
    "set what cannot change while it runs": Case(change(BROKER, "1", ("queued.max.requests", SET, "9")), 1),
    "set a broker, seen by a topic": Case(describe(TOPIC, "placed", "retention.ms"), 4),
    "set all brokers": Case(change(BROKER, "", ("log.segment.bytes", SET, "2000000")), 1),
    "set all brokers, seen": Case(describe(BROKER, "", "log.segment.bytes"), 4),
    "set all brokers, seen by one": Case(describe(BROKER, "1", "log.segment.bytes"), 4),
    "set all brokers, seen by a topic": Case(describe(TOPIC, "placed", "segment.bytes"), 4),
    "set what is fixed": Case(change(BROKER, "1", ("log.dirs", SET, "/x")), 1),
    "set what each broker has for all": Case(change(BROKER, "", ("advertised.listeners", SET, "PLAINTEXT://x:1")), 1),
    "set a broker badly": Case(change(BROKER, "1", ("log.retention.ms", SET, "abc")), 1),
    "set a broker to keep nothing": Case(change(BROKER, "1", ("log.retention.ms", SET, "0")), 1, IN_OUR_WORDS),
    "set many more threads at once": Case(change(BROKER, "", ("num.recovery.threads.per.data.dir", SET, "64")), 1, IN_OUR_WORDS),
    "set many more threads to compact": Case(change(BROKER, "", ("log.cleaner.threads", SET, "64")), 1, IN_OUR_WORDS),
    "set no thread to compact": Case(change(BROKER, "", ("log.cleaner.threads", SET, "0")), 1, IN_OUR_WORDS),
    "set too little memory to compact": Case(change(BROKER, "", ("log.cleaner.dedupe.buffer.size", SET, "1048576")), 1, IN_OUR_WORDS),
    "set more to stay here than there is": Case(
        change(BROKER, "1", ("log.local.retention.ms", SET, "6000"), ("log.retention.ms", SET, "5000")), 1, IN_OUR_WORDS
    ),
    "set an interval above its limit": Case(change(BROKER, "", ("group.consumer.assignment.interval.ms", SET, "15001")), 1, IN_OUR_WORDS),
    "set another broker": Case(change(BROKER, "7", ("log.retention.ms", SET, "1")), 1),
    "set a broker that is no number": Case(change(BROKER, "abc", ("log.retention.ms", SET, "1")), 1),
    "set min in-sync of a broker": Case(change(BROKER, "1", ("min.insync.replicas", SET, "2")), 1),
    "take min in-sync from all": Case(change(BROKER, "", ("min.insync.replicas", DELETE, None)), 1),
    "take a broker's away": Case(change(BROKER, "1", ("log.retention.ms", DELETE, None)), 1),
    "take all brokers' away": Case(change(BROKER, "", ("log.segment.bytes", DELETE, None)), 1),
    "set metrics": Case(change(METRICS, "m", ("interval.ms", SET, "1000"), ("metrics", SET, "org.apache")), 1),
    "set metrics, seen": Case(describe(METRICS, "m"), 4),
    "set metrics too often": Case(change(METRICS, "m", ("interval.ms", SET, "5")), 1),
    "set metrics with an unknown key": Case(change(METRICS, "m", ("nosuch", SET, "5")), 1),
    "set metrics without a name": Case(change(METRICS, "", ("interval.ms", SET, "1000")), 1),
    "set metrics matching what is no pattern": Case(change(METRICS, "m", ("match", SET, "client_id=[")), 1),
    "set metrics matching nothing": Case(change(METRICS, "m", ("match", SET, "nosuch=1")), 1),
    "set a group": Case(change(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")), 1),
    "set a group with an unknown key": Case(change(GROUP, "g", ("nosuch", SET, "1")), 1),
    "set a group without a name": Case(change(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")), 1),
    "set a group too low": Case(change(GROUP, "g", ("consumer.session.timeout.ms", SET, "10")), 1),
    "set a group too high": Case(change(GROUP, "g", ("share.delivery.count.limit", SET, "11")), 1),
    "set a group, with no option of a broker behind it": Case(change(GROUP, "g", ("share.auto.offset.reset", SET, "earliest")), 1),
    "describe a group": Case(describe(GROUP, "g"), 4),
    "replace": Case(replace(TOPIC, "configured", ("retention.ms", "7777")), 2),
    "replace, seen": Case(describe(TOPIC, "configured", "retention.ms", "cleanup.policy"), 4),
    "replace badly": Case(replace(TOPIC, "configured", ("retention.ms", "x"))),
    "replace with a null": Case(replace(TOPIC, "configured", ("retention.ms", None)), 2),
    "replace what is not there": Case(replace(TOPIC, "nosuch", ("retention.ms", "1")), 2),
    "replace an unknown type": Case(replace(99, "x", ("a", "1")), 2),
    "replace loggers": Case(replace(LOGGER, "1", ("root", "INFO")), 2),
    "list configs": Case(ListConfigResourcesRequest(resource_types=[TOPIC, BROKER, METRICS, GROUP]), 1),
    "list all configs": Case(ListConfigResourcesRequest(resource_types=[]), 1),
    "list metrics": Case(ListConfigResourcesRequest(), 0),
    "list an unknown type": Case(ListConfigResourcesRequest(resource_types=[99]), 1),
    # cluster
    "cluster": Case(DescribeClusterRequest(include_cluster_authorized_operations=True)),
    "cluster with fenced": Case(DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True), 2),
    "cluster of controllers": Case(DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2), 1),
    "cluster of something": Case(DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=9), 1),
    "quorum": Case(quorum(), 2, known=[*TIMES]),
    "quorum of another topic": Case(quorum("orders"), 2),
    "quorum of another partition": Case(quorum("__cluster_metadata", 5), 2),
    "quorum of nothing": Case(DescribeQuorumRequest(topics=[]), 2),
    "elect the preferred": Case(elect(0, ("orders", [0, 1]), ("nosuch", [0]), ("placed", [7])), 2),
    "elect uncleanly": Case(elect(1, ("orders", [0])), 2),
    "elect by an unknown type": Case(elect(9, ("orders", [0])), 2),
    "elect nothing by an unknown type": Case(elect(2), 2),
    "elect everywhere": Case(ElectLeadersRequest(topic_partitions=None, timeout_ms=10_000), 2),
    "reassign to where it is": Case(reassign("orders", 0, [1]), 1),
    "reassign to a stranger": Case(reassign("orders", 0, [9]), 1),
    "reassign to nobody": Case(reassign("orders", 0, []), 1),
    "reassign what is not": Case(reassign("nosuch", 0, [1]), 1),
    "reassign a partition that is not": Case(reassign("orders", 99, [1]), 1),
    "stop what does not move": Case(reassign("orders", 0, None)),
    "what moves": Case(ListPartitionReassignmentsRequest(topics=None), 0),
    "what moves of some": Case(
        ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0, 99])]), 0
    ),
    "unregister a stranger": Case(UnregisterBrokerRequest(broker_id=99), 0),
    "feature as it is": Case(feature("transaction.version", 2)),
    "feature down": Case(feature("transaction.version", 1), 1),
    "feature down, safely": Case(feature("transaction.version", 1, 2), 2),
    "feature up again": Case(feature("transaction.version", 2), 2),
    "feature too high": Case(feature("transaction.version", 9), 1),
    "feature that is not": Case(feature("nosuch.version", 1), 1),
    "feature negative": Case(feature("transaction.version", -1), 1),
    "feature, unknown kind": Case(feature("transaction.version", 1, 9), 1),
    "feature, only validate": Case(feature("group.version", 0, 3, validate_only=True), 1),
    "metadata.version down": Case(feature("metadata.version", 29), 1),
    "metadata.version down, safely": Case(feature("metadata.version", 25, 2), 1),
    "metadata.version down, unsafely": Case(feature("metadata.version", 29, 3), 1),
    "metadata.version up": Case(feature("metadata.version", 31), 1),
    "kraft.version": Case(feature("kraft.version", 0, 3), 1),
    # entries of access control, on a broker without an authorizer
    "list entries": Case(
        DescribeAclsRequest(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
    ),
    "create entries": Case(
        CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=2,
                    resource_name=name,
                    resource_pattern_type=3,
                    principal="User:a",
                    host="*",
                    operation=3,
                    permission_type=3,
                )
                for name in ("orders", "placed")
            ]
        )
    ),
    "delete entries": Case(
        DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter="orders",
                    pattern_type_filter=3,
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
            ]
        )
    ),
    # SASL, on a listener without it
    "shake hands": Case(SaslHandshakeRequest(mechanism="PLAIN")),
    "authenticate": Case(SaslAuthenticateRequest(auth_bytes=b"\0user\0password")),
    # deleting
    "delete what is not": Case(delete_by_name("nosuch"), 6),
    "delete the same twice": Case(delete_by_name("defaults", "defaults"), 6),
    "delete by an unknown id": Case(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=UNKNOWN_ID)], timeout_ms=1000), 6),
    "delete by an unknown id twice": Case(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=UNKNOWN_ID)] * 2, timeout_ms=1000), 6),
    "delete by nothing": Case(DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=ZERO_UUID)], timeout_ms=1000), 6),
    "delete by both": Case(DeleteTopicsRequest(topics=[DeleteTopicState(name="defaults", topic_id=UNKNOWN_ID)], timeout_ms=1000), 6),
    "delete": Case(delete_by_name("defaults"), 6),
    "delete in the old way": Case(DeleteTopicsRequest(topic_names=["good"], timeout_ms=1000), 4),
    "delete in the oldest way": Case(DeleteTopicsRequest(topic_names=["nosuch", "nosuch"], timeout_ms=1000), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_the_same(both: Differential, name: str) -> None:
    """The cases run in the order above: later ones see what earlier ones did."""
    case = CASES[name]
    versions = type(case.request).VERSIONS if case.version is None else [case.version]
    for version in versions:
        both.ask(case.request, version, ignoring={*ADDRESSES, *TOPIC_IDS, *case.known}, settling=", seen" in name or name.endswith(" seen"))


def test_the_features_decided_on_are_the_same(both: Differential) -> None:
    """This includes kraft.version, which stands in no metadata record."""
    epoch = {"finalized_features_epoch", "api_keys"}
    both.ask(ApiVersionsRequest(client_software_name="moldau", client_software_version="1"), 4, ignoring=epoch)
