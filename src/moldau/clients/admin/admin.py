"""● Everything an administrator asks of a cluster, one async method each.

Answers are the protocol's own structs where those say it best.  What is asked for several things at once answers for each: the value, or
the `KafkaError` that it ended in, which is returned, not raised.  Errors that concern the whole request are raised.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar
from uuid import UUID

from moldau.clients.cluster import STALE_METADATA, Cluster, retrying
from moldau.clients.options import ClientOptions, parse_options
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.create_partitions import CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from moldau.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from moldau.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest, DescribeLogDirsResult
from moldau.protocol.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponsePartitionData,
    Node,
)
from moldau.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.protocol.messages.describe_topic_partitions import TopicRequest as TopicName
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest
from moldau.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from moldau.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    OngoingPartitionReassignment,
)
from moldau.protocol.messages.metadata import MetadataResponseTopic
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest
from moldau.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from moldau.types import METADATA_TOPIC, ZERO_UUID, TopicPartition

if TYPE_CHECKING:
    import ssl

    from moldau.clients.admin.groups import GroupAdmin
    from moldau.clients.admin.partitions import PartitionAdmin
    from moldau.clients.admin.share_groups import ShareGroupAdmin
    from moldau.clients.admin.streams_groups import StreamsGroupAdmin
    from moldau.clients.admin.transactions import TransactionAdmin
    from moldau.net.sasl import Credentials
    from moldau.net.transport import Network

T = TypeVar("T")

TIMEOUT_MS: Final = 30_000
LEADERS_SETTLE_WITHIN_S: Final = 5.0

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

HIGH_WATERMARK: Final = -1
"""To `delete_records`: everything that consumers can see."""


class ResourceType(IntEnum):
    """What has configs.  Source: ConfigResource.java."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a value comes from.  Source: DescribeConfigsResponse.java."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class EndpointType(IntEnum):
    BROKER = 1
    CONTROLLER = 2


Resource = tuple[ResourceType, str]
"""A type and a name: a topic's, a broker's number, "" for the default of all brokers."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """`partition_count` and `replication_factor` -1: the broker's defaults.  `assignments`: replicas of each partition, instead of both."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str | None] = field(default_factory=dict)
    assignments: Sequence[Sequence[int]] = ()

    def creatable(self) -> CreatableTopic:
        return CreatableTopic(
            name=self.name,
            num_partitions=-1 if self.assignments else self.partition_count,
            replication_factor=-1 if self.assignments else self.replication_factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                for index, replicas in enumerate(self.assignments)
            ],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in self.configs.items()],
        )


@dataclass(frozen=True, slots=True)
class ConfigChange:
    key: str
    value: str | None = None
    operation: AlterOperation = AlterOperation.SET


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    state: DescribeQuorumResponsePartitionData
    nodes: Sequence[Node]


class Admin:
    """See the module.  `servers`: `host:port,host:port`, or a `Cluster` that is shared with others and stays open.

        async with Admin("localhost:9092") as admin:
            await admin.create_topics([NewTopic("orders", 3)])
            await admin.groups.describe("billing")

    `groups`, `share_groups`, `streams_groups`, `transactions`, `partitions` are the rooms of their own; options as for the other clients.
    """

    def __init__(
        self,
        servers: str | Sequence[str] | Cluster | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        ssl_context: "ssl.SSLContext | None" = None,
        sasl: "Credentials | None" = None,
        network: "Network | None" = None,
        **given: Any,
    ) -> None:
        self._owns_cluster = not isinstance(servers, Cluster)
        if isinstance(servers, Cluster):
            self.cluster = servers
        else:
            from moldau.clients.connecting import cluster_of

            chosen = parse_options(ClientOptions, {**(options or {}), **given})
            self.cluster = cluster_of(servers, chosen, ssl_context=ssl_context, sasl=sasl, network=network)

    @cached_property
    def groups(self) -> "GroupAdmin":
        """Of the classic and of the consumer protocol."""
        from moldau.clients.admin.groups import GroupAdmin

        return GroupAdmin(self.cluster)

    @cached_property
    def share_groups(self) -> "ShareGroupAdmin":
        from moldau.clients.admin.share_groups import ShareGroupAdmin

        return ShareGroupAdmin(self.cluster)

    @cached_property
    def streams_groups(self) -> "StreamsGroupAdmin":
        from moldau.clients.admin.streams_groups import StreamsGroupAdmin

        return StreamsGroupAdmin(self.cluster)

    @cached_property
    def transactions(self) -> "TransactionAdmin":
        from moldau.clients.admin.transactions import TransactionAdmin

        return TransactionAdmin(self)

    @cached_property
    def partitions(self) -> "PartitionAdmin":
        from moldau.clients.admin.partitions import PartitionAdmin

        return PartitionAdmin(self)

    async def close(self) -> None:
        if self._owns_cluster:
            self.cluster.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # ------------------------------------------------------------ cluster

    async def describe_cluster(
        self, *, endpoint_type: EndpointType = EndpointType.BROKER, include_fenced: bool = False
    ) -> DescribeClusterResponse:
        request = DescribeClusterRequest(
            include_cluster_authorized_operations=False, endpoint_type=endpoint_type, include_fenced_brokers=include_fenced
        )
        response = await self.cluster.send(request)
        _raise_for(response.error_code, response.error_message)
        return response

    async def describe_quorum(self) -> QuorumDescription:
        partition = DescribeQuorumRequestPartitionData(partition_index=0)
        topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        response = await self.cluster.send(DescribeQuorumRequest(topics=[topic]))
        _raise_for(response.error_code, response.error_message)
        state = response.topics[0].partitions[0]
        _raise_for(state.error_code, state.error_message)
        return QuorumDescription(state, response.nodes)

    async def api_versions(self, node_id: int | None = None) -> ApiVersionsResponse:
        """Which APIs a node serves, the features it supports and those finalized."""
        request = ApiVersionsRequest(client_software_name="moldau", client_software_version="0")
        response = await self.cluster.send(request, node_id=node_id)
        _raise_for(response.error_code)
        return response

    async def update_features(
        self, levels: Mapping[str, int], *, upgrade_type: UpgradeType = UpgradeType.UPGRADE, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Level 0 disables a feature.  From version 2 on the broker answers for all together: then each has the same answer."""
        updates = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type) for name, level in levels.items()]
        response = await self.cluster.send(UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only))
        whole = _error(response.error_code, response.error_message)
        answers: dict[str, KafkaError | None] = dict.fromkeys(levels, whole)
        if whole is None:
            answers.update({one.feature: _error(one.error_code, one.error_message) for one in response.results})
        return answers

    async def unregister_broker(self, broker_id: int) -> None:
        response = await self.cluster.send(UnregisterBrokerRequest(broker_id=broker_id))
        _raise_for(response.error_code, response.error_message)

    # ------------------------------------------------------------ topics

    async def list_topics(self, *, include_internal: bool = True) -> list[MetadataResponseTopic]:
        """By name."""
        view = await self.cluster.refresh()
        topics = [topic for topic in view.topics.values() if include_internal or not topic.is_internal]
        return sorted(topics, key=lambda topic: topic.name or "")

    async def describe_topics(
        self, names: Sequence[str], *, partitions_per_response: int = 2000
    ) -> dict[str, DescribeTopicPartitionsResponseTopic | KafkaError]:
        """Pages are put together.  `names` must not be empty."""
        found: dict[str, DescribeTopicPartitionsResponseTopic | KafkaError] = {}
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(
                topics=[TopicName(name=name) for name in sorted(names)], response_partition_limit=partitions_per_response, cursor=cursor
            )
            response = await self.cluster.send(request)
            for topic in response.topics:
                name = topic.name or ""
                before = found.get(name)
                if topic.error_code:
                    found[name] = KafkaError(ErrorCode.of(topic.error_code))
                elif isinstance(before, DescribeTopicPartitionsResponseTopic):
                    before.partitions.extend(topic.partitions)
                else:
                    found[name] = topic
            cursor = response.next_cursor
            if cursor is None:
                return found

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False, timeout_ms: int = TIMEOUT_MS
    ) -> dict[str, CreatableTopicResult | KafkaError]:
        request = CreateTopicsRequest(topics=[topic.creatable() for topic in topics], timeout_ms=timeout_ms, validate_only=validate_only)
        response = await self.cluster.send(request, extra_s=timeout_ms / 1000)
        return {one.name: _error(one.error_code, one.error_message) or one for one in response.topics}

    async def delete_topics(
        self, names: Sequence[str] = (), *, ids: Sequence[UUID] = (), timeout_ms: int = TIMEOUT_MS
    ) -> dict[str | UUID, KafkaError | None]:
        """By name or by id; answers by what was asked."""
        states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names]
        states += [DeleteTopicState(name=None, topic_id=topic_id) for topic_id in ids]
        request = DeleteTopicsRequest(topics=states, topic_names=list(names), timeout_ms=timeout_ms)
        response = await self.cluster.send(request, extra_s=timeout_ms / 1000)
        answers: dict[str | UUID, KafkaError | None] = {}
        for one in response.responses:
            asked = one.name if one.name in names and one.name is not None else one.topic_id
            answers[asked] = _error(one.error_code, one.error_message)
        return answers

    async def create_partitions(
        self, topic: str, count: int, *, assignments: Sequence[Sequence[int]] | None = None, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        """Up to `count` partitions in all; `assignments` for the new ones."""
        placed = None if assignments is None else [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignments]
        asked = CreatePartitionsTopic(name=topic, count=count, assignments=placed)
        request = CreatePartitionsRequest(topics=[asked], timeout_ms=timeout_ms, validate_only=False)
        response = await self.cluster.send(request, extra_s=timeout_ms / 1000)
        for one in response.results:
            _raise_for(one.error_code, one.error_message)

    # ------------------------------------------------------------ configs

    async def describe_configs(
        self, resources: Sequence[Resource], *, synonyms: bool = True, documentation: bool = False
    ) -> dict[Resource, list[DescribeConfigsResourceResult] | KafkaError]:
        """A broker is asked for its own configs, anyone for the others."""
        found: dict[Resource, list[DescribeConfigsResourceResult] | KafkaError] = {}
        for node_id, group in _by_node(resources).items():
            asked = [DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None) for kind, name in group]
            request = DescribeConfigsRequest(resources=asked, include_synonyms=synonyms, include_documentation=documentation)
            response = await self.cluster.send(request, node_id=node_id)
            for one in response.results:
                resource = (ResourceType(one.resource_type), one.resource_name)
                found[resource] = _error(one.error_code, one.error_message) or one.configs
        return found

    async def alter_configs(
        self, changes: Mapping[Resource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> dict[Resource, KafkaError | None]:
        answers: dict[Resource, KafkaError | None] = {}
        for node_id, group in _by_node(changes).items():
            asked = [
                AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[AlterableConfig(name=one.key, config_operation=one.operation, value=one.value) for one in changes[kind, name]],
                )
                for kind, name in group
            ]
            request = IncrementalAlterConfigsRequest(resources=asked, validate_only=validate_only)
            response = await self.cluster.send(request, node_id=node_id)
            for one in response.responses:
                resource = (ResourceType(one.resource_type), one.resource_name)
                answers[resource] = _error(one.error_code, one.error_message)
        return answers

    async def list_config_resources(self, *types: ResourceType) -> list[Resource]:
        response = await self.cluster.send(ListConfigResourcesRequest(resource_types=list(types)))
        _raise_for(response.error_code)
        return [(ResourceType(one.resource_type), one.resource_name) for one in response.config_resources]

    # ------------------------------------------------------------ partitions

    async def list_offsets(
        self, targets: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, ListOffsetsPartitionResponse | KafkaError]:
        """`targets`: a timestamp in milliseconds, or EARLIEST and its kin.  Offset -1: nothing there.  Tried again while leaders move."""
        found: dict[TopicPartition, ListOffsetsPartitionResponse | KafkaError] = {}
        await self._with_topics(targets)

        async def attempt() -> None:
            missing = {one: target for one, target in targets.items() if _is_open(found.get(one))}
            for node_id, group in (await self._by_leader(missing, found)).items():
                response = await self.cluster.send(
                    _list_offsets(group, missing, isolation_level), node_id=node_id, extra_s=TIMEOUT_MS / 1000
                )
                for topic in response.topics:
                    for one in topic.partitions:
                        found[TopicPartition(topic.name, one.partition_index)] = _error(one.error_code) or one

        return await self._until_settled(attempt, found)

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: int = TIMEOUT_MS
    ) -> dict[TopicPartition, int | KafkaError]:
        """Everything below the given offsets.  Returns each partition's new first offset."""
        found: dict[TopicPartition, int | KafkaError] = {}
        await self._with_topics(before)

        async def attempt() -> None:
            missing = [one for one in before if _is_open(found.get(one))]
            for node_id, group in (await self._by_leader(missing, found)).items():
                topics = [
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[DeleteRecordsPartition(partition_index=one.partition, offset=before[one]) for one in members],
                    )
                    for topic, members in _by_topic(group).items()
                ]
                request = DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)
                response = await self.cluster.send(request, node_id=node_id, extra_s=timeout_ms / 1000)
                for topic in response.topics:
                    for one in topic.partitions:
                        found[TopicPartition(topic.name, one.partition_index)] = _error(one.error_code) or one.low_watermark

        return await self._until_settled(attempt, found)

    async def describe_producers(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[ProducerState] | KafkaError]:
        found: dict[TopicPartition, list[ProducerState] | KafkaError] = {}
        await self._with_topics(partitions)
        for node_id, group in (await self._by_leader(partitions, found)).items():
            topics = [
                TopicRequest(name=topic, partition_indexes=[one.partition for one in members])
                for topic, members in _by_topic(group).items()
            ]
            response = await self.cluster.send(DescribeProducersRequest(topics=topics), node_id=node_id)
            for topic in response.topics:
                for one in topic.partitions:
                    error = _error(one.error_code, one.error_message)
                    found[TopicPartition(topic.name, one.partition_index)] = error or one.active_producers
        return found

    async def describe_log_dirs(
        self, broker_ids: Sequence[int], *, partitions: Sequence[TopicPartition] | None = None
    ) -> dict[int, list[DescribeLogDirsResult] | KafkaError]:
        """`partitions` None: all."""
        topics = None
        if partitions is not None:
            topics = [
                DescribableLogDirTopic(topic=topic, partitions=[one.partition for one in members])
                for topic, members in _by_topic(partitions).items()
            ]
        found: dict[int, list[DescribeLogDirsResult] | KafkaError] = {}
        for broker_id in broker_ids:
            response = await self.cluster.send(DescribeLogDirsRequest(topics=topics), node_id=broker_id)
            found[broker_id] = _error(response.error_code) or response.results
        return found

    async def list_partition_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> dict[TopicPartition, OngoingPartitionReassignment]:
        """Those of `partitions`, or of all for None, that are on their way to other brokers."""
        topics = None
        if partitions is not None:
            topics = [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=[one.partition for one in members])
                for topic, members in _by_topic(partitions).items()
            ]
        response = await self.cluster.send(ListPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics))
        _raise_for(response.error_code, response.error_message)
        return {TopicPartition(topic.name, one.partition_index): one for topic in response.topics for one in topic.partitions}

    # ------------------------------------------------------------ the road to leaders

    async def _with_topics(self, partitions: Iterable[TopicPartition]) -> None:
        unknown = {one.topic for one in partitions} - self.cluster.view.topics.keys()
        if unknown:
            await self.cluster.refresh(sorted(unknown))

    async def _by_leader(
        self, partitions: Iterable[TopicPartition], found: dict[TopicPartition, T | KafkaError]
    ) -> dict[int, list[TopicPartition]]:
        """Partitions whose leader is not known get the reason in `found`."""
        groups: dict[int, list[TopicPartition]] = defaultdict(list)
        for one in partitions:
            try:
                groups[(await self.cluster.leader_of(one)).node_id].append(one)
            except KafkaError as error:
                found[one] = error
        return groups

    async def _until_settled(
        self, attempt: Callable[[], Awaitable[None]], found: dict[TopicPartition, T | KafkaError]
    ) -> dict[TopicPartition, T | KafkaError]:
        """Calls `attempt`, which fills `found`, until no partition's leader seems to have moved, or patience is over."""

        async def once() -> None:
            await attempt()
            stale = [one for one in found.values() if isinstance(one, KafkaError) and one.code in STALE_METADATA]
            if stale:
                await self.cluster.refresh(sorted({one.topic for one in found}))
                raise stale[0]

        with suppress(KafkaError):
            await retrying(once, within_s=LEADERS_SETTLE_WITHIN_S)
        return found


def _list_offsets(group: Iterable[TopicPartition], targets: Mapping[TopicPartition, int], isolation_level: int) -> ListOffsetsRequest:
    topics = [
        ListOffsetsTopic(
            name=topic, partitions=[ListOffsetsPartition(partition_index=one.partition, timestamp=targets[one]) for one in members]
        )
        for topic, members in _by_topic(group).items()
    ]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics, timeout_ms=TIMEOUT_MS)


def _is_open(answer: object) -> bool:
    """Not asked yet, or to be asked again."""
    return answer is None or (isinstance(answer, KafkaError) and answer.code in STALE_METADATA)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    groups: dict[str, list[TopicPartition]] = defaultdict(list)
    for one in partitions:
        groups[one.topic].append(one)
    return groups


def _by_node(resources: Iterable[Resource]) -> dict[int | None, list[Resource]]:
    """Only a broker itself knows its static configs and its loggers; None: anyone will do."""
    groups: dict[int | None, list[Resource]] = defaultdict(list)
    for kind, name in resources:
        own = kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name
        groups[int(name) if own else None].append((kind, name))
    return groups


def _error(code: int, message: str | None = None) -> KafkaError | None:
    return KafkaError(ErrorCode.of(code), message) if code else None


def _raise_for(code: int, message: str | None = None) -> None:
    if code:
        raise KafkaError(ErrorCode.of(code), message)
