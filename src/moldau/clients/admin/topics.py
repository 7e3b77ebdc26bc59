"""● Lists, describes, creates and deletes topics, and adds partitions.

Source: Admin.listTopics, describeTopics, createTopics, deleteTopics, createPartitions; KIP-195, 516, 599, 966.
"""

from collections.abc import Sequence
from uuid import UUID

from moldau.clients.admin.answers import error_of
from moldau.clients.admin.limited import Limited
from moldau.clients.admin.throttled import past_quota
from moldau.clients.admin.values import TIMEOUT_MS, NewTopic
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from moldau.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from moldau.protocol.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from moldau.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from moldau.protocol.messages.describe_topic_partitions import TopicRequest as TopicName
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from moldau.types import ZERO_UUID

Topics = list[MetadataResponseTopic]


class TopicAdmin(Limited):
    """Answers are by topic; one that failed has its `KafkaError` there."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def list(self, *, include_internal: bool = True) -> Topics:
        """All topics, by name."""
        view = await self._cluster.refresh()
        topics = [topic for topic in view.topics.values() if include_internal or not topic.is_internal]
        return sorted(topics, key=lambda topic: topic.name or "")

    async def describe(
        self, names: Sequence[str], *, partitions_per_response: int = 2000
    ) -> dict[str, DescribeTopicPartitionsResponseTopic | KafkaError]:
        """Describe topics.  The pages of the answer are put together.  `names` must not be empty.

        A broker older than 3.7 does not tell eligible leaders and the last known ones: they are None.
        """
        try:
            return await self._describe(names, partitions_per_response)
        except KafkaError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
        asked = [MetadataRequestTopic(name=name) for name in names]
        response = await self._cluster.send(MetadataRequest(topics=asked, allow_auto_topic_creation=False))
        return {topic.name or "": error_of(topic.error_code) or _described(topic) for topic in response.topics}

    async def _describe(
        self, names: Sequence[str], partitions_per_response: int
    ) -> dict[str, DescribeTopicPartitionsResponseTopic | KafkaError]:
        found: dict[str, DescribeTopicPartitionsResponseTopic | KafkaError] = {}
        cursor: Cursor | None = None
        while True:
            request = DescribeTopicPartitionsRequest(
                topics=[TopicName(name=name) for name in sorted(names)], response_partition_limit=partitions_per_response, cursor=cursor
            )
            response = await self._cluster.send(request)
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

    async def describe_by_id(self, ids: Sequence[UUID]) -> dict[UUID, MetadataResponseTopic | KafkaError]:
        """Describe topics by their ids.  UNKNOWN_TOPIC_ID: no topic has the id."""
        if not ids:
            return {}
        asked = [MetadataRequestTopic(name=None, topic_id=one) for one in ids]
        response = await self._cluster.send(
            MetadataRequest(topics=asked, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
        )
        return {topic.topic_id: error_of(topic.error_code) or topic for topic in response.topics}

    async def create(
        self,
        topics: Sequence[NewTopic],
        *,
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
        timeout_ms: int = TIMEOUT_MS,
    ) -> dict[str, CreatableTopicResult | KafkaError]:
        """`retry_on_quota_violation`: ask again for topics that a quota refuses, until `timeout_ms` (KIP-599)."""

        async def ask(left: Sequence[NewTopic]) -> tuple[dict[str, CreatableTopicResult | KafkaError], int]:
            request = CreateTopicsRequest(topics=[_creatable(one) for one in left], timeout_ms=timeout_ms, validate_only=validate_only)
            response = await self._cluster.send_to_controller(request, lambda answer: _first(answer.topics), extra_s=timeout_ms / 1000)
            return {one.name: error_of(one.error_code, one.error_message) or one for one in response.topics}, response.throttle_time_ms

        return await past_quota(topics, lambda topic: topic.name, ask, is_retried=retry_on_quota_violation, within_s=timeout_ms / 1000)

    async def delete(
        self,
        names: Sequence[str] = (),
        *,
        ids: Sequence[UUID] = (),
        retry_on_quota_violation: bool = True,
        timeout_ms: int = TIMEOUT_MS,
    ) -> dict[str | UUID, KafkaError | None]:
        """Delete topics by name or by id.  Answers are by the name or id that was given.

        `retry_on_quota_violation`: as for `create`.
        """

        async def ask(left: Sequence[str | UUID]) -> tuple[dict[str | UUID, KafkaError | None], int]:
            asked_names = [one for one in left if isinstance(one, str)]
            states = [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in asked_names]
            states += [DeleteTopicState(name=None, topic_id=one) for one in left if isinstance(one, UUID)]
            request = DeleteTopicsRequest(topics=states, topic_names=asked_names, timeout_ms=timeout_ms)
            response = await self._cluster.send_to_controller(request, lambda answer: _first(answer.responses), extra_s=timeout_ms / 1000)
            answers: dict[str | UUID, KafkaError | None] = {}
            for one in response.responses:
                asked = one.name if one.name is not None and one.name in asked_names else one.topic_id
                answers[asked] = error_of(one.error_code, one.error_message)
            return answers, response.throttle_time_ms

        asked: list[str | UUID] = [*names, *ids]
        return await past_quota(asked, lambda one: one, ask, is_retried=retry_on_quota_violation, within_s=timeout_ms / 1000)

    async def create_partitions(
        self,
        topic: str,
        count: int,
        *,
        assignments: Sequence[Sequence[int]] | None = None,
        validate_only: bool = False,
        retry_on_quota_violation: bool = True,
        timeout_ms: int = TIMEOUT_MS,
    ) -> None:
        """Add partitions, up to `count` in all.  `assignments`: the replicas of the new partitions.  Errors: KafkaError.

        `retry_on_quota_violation`: as for `create`.
        """
        placed = None if assignments is None else [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignments]
        asked = CreatePartitionsTopic(name=topic, count=count, assignments=placed)

        async def ask(left: Sequence[CreatePartitionsTopic]) -> tuple[dict[str, KafkaError | None], int]:
            request = CreatePartitionsRequest(topics=list(left), timeout_ms=timeout_ms, validate_only=validate_only)
            response = await self._cluster.send_to_controller(request, lambda answer: _first(answer.results), extra_s=timeout_ms / 1000)
            return {one.name: error_of(one.error_code, one.error_message) for one in response.results}, response.throttle_time_ms

        answers = await past_quota([asked], lambda one: one.name, ask, is_retried=retry_on_quota_violation, within_s=timeout_ms / 1000)
        for error in answers.values():
            if error is not None:
                raise error


def _first(results: Sequence[CreatableTopicResult | DeletableTopicResult | CreatePartitionsTopicResult]) -> int:
    return results[0].error_code if results else ErrorCode.NONE


def _described(topic: MetadataResponseTopic) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=topic.error_code,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=one.error_code,
                partition_index=one.partition_index,
                leader_id=one.leader_id,
                leader_epoch=one.leader_epoch,
                replica_nodes=one.replica_nodes,
                isr_nodes=one.isr_nodes,
                eligible_leader_replicas=None,
                last_known_elr=None,
                offline_replicas=one.offline_replicas,
            )
            for one in topic.partitions
        ],
        topic_authorized_operations=topic.topic_authorized_operations,
    )


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.partition_count,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas)) for index, replicas in enumerate(topic.assignments)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs.items()],
    )
