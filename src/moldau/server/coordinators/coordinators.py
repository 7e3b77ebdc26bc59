"""● The coordinators of this broker: groups on `__consumer_offsets`, transactions on `__transaction_state`, the states of share
partitions on `__share_group_state`.

The publisher tells them of leadership and of topics that came and went; handlers ask `groups`,
`transactions`, `share_groups` and `share_persister`.

Source: GroupCoordinatorService, TransactionCoordinator, ShareCoordinatorService.  Put together by `server/node`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from moldau.background import in_background
from moldau.clock import Clock
from moldau.coordinator.group.config import GroupCoordinatorConfig
from moldau.coordinator.group.environment import Environment as GroupEnvironment
from moldau.coordinator.group.environment import Topics
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.records import GROUP_RECORDS
from moldau.coordinator.group.share import BeginStates
from moldau.coordinator.group.written_today import written_version
from moldau.coordinator.outcome import ProducerIdAndEpoch
from moldau.coordinator.runtime import Shard, ShardState
from moldau.coordinator.share.config import ShareCoordinatorConfig
from moldau.coordinator.share.machine import Environment as ShareEnvironment
from moldau.coordinator.share.machine import Prune, ShareStateMachine
from moldau.coordinator.share.records import SHARE_STATE_RECORDS
from moldau.coordinator.txn.config import TransactionConfig
from moldau.coordinator.txn.coordinator import Environment as TransactionEnvironment
from moldau.coordinator.txn.coordinator import Markers, TransactionMachine
from moldau.coordinator.txn.records import TRANSACTION_RECORDS
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.compression import Codec
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.server.coordinators.completions import Completions
from moldau.server.coordinators.log import RecordFormat
from moldau.server.coordinators.markers import MarkerWriter
from moldau.server.coordinators.producer_ids import ProducerIds
from moldau.server.coordinators.share_groups import ShareGroups
from moldau.server.coordinators.streams_topics import Create, StreamsTopics
from moldau.server.coordinators.topic import CoordinatorTopic
from moldau.server.peers.brokers import Brokers
from moldau.server.requests.connection_order import ConnectionOrder, TransactionOrder
from moldau.server.share.persister import SharePersister
from moldau.types import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC, TopicPartition

LOG: Final = logging.getLogger(__name__)

CreateTopic = Callable[[str, int, int, dict[str, str]], Awaitable[None]]
"""A function of (topic, partitions, replication factor, configs) that creates a topic.  Errors: KafkaError."""


class Coordinators:
    """See the module."""

    def __init__(
        self,
        *,
        group_config: GroupCoordinatorConfig,
        transaction_config: TransactionConfig,
        share_config: ShareCoordinatorConfig,
        topics: Topics,
        transaction_version: Callable[[], int],
        clock: Clock,
        new_uuid: Callable[[], UUID],
        replicas: ReplicaManager,
        brokers: Brokers,
        producer_ids: ProducerIds,
        create_topic: CreateTopic,
        create_topics: Create,
    ) -> None:
        self.brokers: Final = brokers
        self.transaction_config = transaction_config
        self.connection_order: Final = ConnectionOrder(is_enabled=transaction_config.is_connection_order_enabled)
        self.transaction_order: Final = TransactionOrder(is_enabled=transaction_config.is_connection_order_enabled)
        self.heartbeat_order: Final = ConnectionOrder(is_enabled=group_config.is_connection_order_enabled)
        self.group_environment: Final = GroupEnvironment(group_config, topics, new_uuid)
        self.groups: Final = CoordinatorTopic(
            GROUP_TOPIC,
            group_config.offsets_topic_partition_count,
            RecordFormat(GROUP_RECORDS, written_version, Codec(group_config.offsets_topic_compression_codec)),
            partial(GroupMachine, self.group_environment),
            clock,
            self._begin_share_states,
            load_bytes=group_config.offsets_load_buffer_size,
        )
        transaction_environment = TransactionEnvironment(transaction_config, producer_ids.take_or_ask, transaction_version)
        self.transactions: Final = CoordinatorTopic(
            TRANSACTION_TOPIC,
            transaction_config.topic_partition_count,
            RecordFormat(TRANSACTION_RECORDS, lambda value: value.VERSIONS[-1]),
            partial(TransactionMachine, transaction_environment),
            clock,
            self._send_markers,
        )
        self.completions: Final = Completions()
        self.share_environment: Final = ShareEnvironment(share_config, topics)
        self.shares: Final = CoordinatorTopic(
            SHARE_TOPIC,
            share_config.topic_partition_count,
            RecordFormat(SHARE_STATE_RECORDS, lambda value: value.VERSIONS[-1], Codec(share_config.topic_compression_codec)),
            partial(ShareStateMachine, self.share_environment),
            clock,
            self._prune_share_states,
            load_bytes=share_config.load_buffer_size,
        )
        self.share_persister: Final = SharePersister(self.shares, brokers, replicas.local_id, self._create_share_topic)
        self.share_groups: Final = ShareGroups(self.groups, self.group_environment, self.share_persister, replicas, brokers)
        self.streams_topics: Final = StreamsTopics(create_topics, clock)
        self._replicas: Final = replicas
        self.markers: Final = MarkerWriter(replicas, brokers, clock, self._exists, self._marker_appended)
        self._create_topic: Final = create_topic
        self._creating: dict[str, asyncio.Task[None]] = {}

    # -- called by the publisher ---------------------------------------------------------------------------------------------------

    def leadership_changed(self, partition: Partition) -> None:
        """Note whether this broker leads the partition now, perhaps in a new epoch."""
        for topic in (self.groups, self.transactions, self.shares):
            if topic.topic == partition.topic_partition.topic:
                if partition.is_leader:
                    topic.elected(partition)
                else:
                    topic.resigned(partition.topic_partition.partition)

    def topics_changed(self, topics: Topics, deleted: Collection[TopicPartition], deleted_ids: Collection[UUID]) -> None:
        self.group_environment.topics = self.share_environment.topics = topics
        if deleted:
            self.groups.run_all(lambda machine, _: machine.forget_topic_partitions(deleted))
            self.groups.run_all(lambda machine, _: machine.forget_topics(deleted_ids))
            self.shares.run_all(lambda machine, _: machine.forget_topics(deleted_ids))
        for topic in (self.groups, self.transactions, self.shares):
            for each in deleted:
                if each.topic == topic.topic:
                    topic.resigned(each.partition)

    def group_configs_changed(self, group_id: str, own: Mapping[str, Any]) -> None:
        """Note the options that were set for one group; empty: it has none of its own any more."""
        if own:
            self.group_environment.group_configs[group_id] = own
        else:
            self.group_environment.group_configs.pop(group_id, None)

    def group_options_changed(self, config: GroupCoordinatorConfig) -> None:
        """Note options of all groups that were set while the broker runs."""
        self.group_environment.config = config

    def transaction_options_changed(self, config: TransactionConfig) -> None:
        """Note whether partitions are verified, which can be set while the broker runs.

        The coordinator's own options are those of the start.
        """
        self.transaction_config = config

    def close(self) -> None:
        self.markers.close()
        self.share_groups.close()
        self.streams_topics.close()
        self.groups.close()
        self.transactions.close()
        self.shares.close()
        for task in self._creating.values():
            task.cancel()

    # -- internal topics ------------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str) -> None:
        """Ask the controller for an internal topic, once at a time.  Callers that need the topic ask again later."""
        if topic not in self._creating:
            task = self._creating[topic] = in_background(self._create(topic))
            task.add_done_callback(lambda _: self._creating.pop(topic, None))

    async def _create(self, topic: str) -> None:
        partition_count, replication_factor, configs = self._wanted(topic)
        try:
            await self._create_topic(topic, partition_count, replication_factor, configs)
        except KafkaError as error:
            LOG.warning("%s could not be created: %s", topic, error)

    def _wanted(self, topic: str) -> tuple[int, int, dict[str, str]]:
        """The partitions, replicas and options of an internal topic."""
        groups, transactions, shares = self.group_environment.config, self.transaction_config, self.share_environment.config
        if topic == GROUP_TOPIC:
            # The codec `producer`: batches of coordinators are stored as they are written.
            configs = {
                "segment.bytes": str(groups.offsets_topic_segment_bytes),
                "cleanup.policy": "compact",
                "compression.type": "producer",
            }
            return groups.offsets_topic_partition_count, groups.offsets_topic_replication_factor, configs
        if topic == TRANSACTION_TOPIC:
            configs = {
                "segment.bytes": str(transactions.topic_segment_bytes),
                "min.insync.replicas": str(transactions.topic_min_insync_replicas),
                "unclean.leader.election.enable": "false",
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
            }
            return transactions.topic_partition_count, transactions.topic_replication_factor, configs
        # Records never expire by age: their coordinator deletes what no state needs any more.
        configs = {
            "segment.bytes": str(shares.topic_segment_bytes),
            "min.insync.replicas": str(shares.topic_min_insync_replicas),
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "retention.ms": "-1",
        }
        return shares.topic_partition_count, shares.topic_replication_factor, configs

    # -- share partitions' states ---------------------------------------------------------------------------------------------

    def _begin_share_states(self, shard: Shard[GroupMachine], begin: BeginStates) -> None:
        self.share_groups.begin(shard, begin)

    def _create_share_topic(self) -> None:
        if self.share_environment.topics.by_name(SHARE_TOPIC) is None:
            self.create_topic(SHARE_TOPIC)

    def _prune_share_states(self, shard: Shard[ShareStateMachine], prune: Prune) -> None:
        index = self.shares.index_of(shard)
        partition = self._replicas.hosted.get(TopicPartition(SHARE_TOPIC, index)) if index is not None else None
        if partition is not None and partition.is_leader:
            start = partition.log.delete_records_before(prune.offset)
            if isinstance(start, ErrorCode):
                LOG.warning("%s-%s could not be pruned to %d: %s", SHARE_TOPIC, index, prune.offset, start.name)

    # -- transactions ---------------------------------------------------------------------------------------------------------

    def _exists(self, topic_partition: TopicPartition) -> bool:
        topic = self.group_environment.topics.by_name(topic_partition.topic)
        return topic is not None and topic_partition.partition < topic.partition_count

    def _send_markers(self, shard: Shard[TransactionMachine], markers: Markers) -> None:
        def complete() -> None:
            self.transactions.run(shard, lambda now_ms: shard.machine.markers_written(markers.transactional_id, markers.producer, now_ms))
            self.completions.completed(markers.transactional_id)

        self.markers.send(
            markers,
            self.transactions.leader_epoch_of(markers.transactional_id),
            is_wanted=lambda: shard.state is ShardState.ACTIVE,
            on_done=complete,
        )

    def _marker_appended(self, topic_partition: TopicPartition, producer: ProducerIdAndEpoch, is_commit: bool) -> None:
        if topic_partition.topic == GROUP_TOPIC:
            self.groups.marker_appended(topic_partition.partition, producer, is_commit=is_commit)
