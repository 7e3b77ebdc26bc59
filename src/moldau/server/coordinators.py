"""● The coordinators of this broker: groups on `__consumer_offsets`, transactions on `__transaction_state`.

The publisher tells them of leadership and of topics that came and went; handlers ask `groups` and `transactions`.

Source: GroupCoordinatorService, TransactionCoordinator.  Put together by `node.py`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Final
from uuid import UUID

from moldau.clock import Clock
from moldau.coordinator.group.environment import Environment as GroupEnvironment
from moldau.coordinator.group.environment import Topics
from moldau.coordinator.group.machine import GroupMachine, written_version
from moldau.coordinator.group.options import GroupCoordinatorConfig
from moldau.coordinator.group.records import GROUP_RECORDS
from moldau.coordinator.outcome import ProducerIdAndEpoch
from moldau.coordinator.runtime import Shard, ShardState
from moldau.coordinator.txn.coordinator import Environment as TransactionEnvironment
from moldau.coordinator.txn.coordinator import Markers, TransactionMachine
from moldau.coordinator.txn.options import TransactionConfig
from moldau.coordinator.txn.records import TRANSACTION_RECORDS
from moldau.errors import KafkaError
from moldau.protocol.records.compression import Codec
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.server.coordinator_topic import CoordinatorTopic, RecordFormat
from moldau.server.producer_ids import ProducerIds
from moldau.server.txn_markers import MarkerWriter
from moldau.types import GROUP_TOPIC, TRANSACTION_TOPIC, TopicPartition

LOG: Final = logging.getLogger(__name__)

CreateTopic = Callable[[str, int, int, dict[str, str]], Awaitable[None]]
"""(topic, partitions, replication factor, configs) → done.  Errors: KafkaError."""


class Coordinators:
    """See the module."""

    def __init__(
        self,
        *,
        group_config: GroupCoordinatorConfig,
        transaction_config: TransactionConfig,
        topics: Topics,
        clock: Clock,
        new_uuid: Callable[[], UUID],
        replicas: ReplicaManager,
        producer_ids: ProducerIds,
        create_topic: CreateTopic,
    ) -> None:
        self.transaction_config: Final = transaction_config
        self.group_environment: Final = GroupEnvironment(group_config, topics, new_uuid)
        self.groups: Final = CoordinatorTopic(
            GROUP_TOPIC,
            group_config.offsets_topic_partition_count,
            RecordFormat(GROUP_RECORDS, written_version, Codec(group_config.offsets_topic_compression_codec)),
            partial(GroupMachine, self.group_environment),
            clock,
            _sends_nothing,
            load_bytes=group_config.offsets_load_buffer_size,
        )
        transaction_environment = TransactionEnvironment(transaction_config, producer_ids.take_or_ask)
        self.transactions: Final = CoordinatorTopic(
            TRANSACTION_TOPIC,
            transaction_config.topic_partition_count,
            RecordFormat(TRANSACTION_RECORDS, lambda value: value.VERSIONS[-1]),
            partial(TransactionMachine, transaction_environment),
            clock,
            self._send_markers,
        )
        self.markers: Final = MarkerWriter(replicas, clock, self._exists, self._marker_appended)
        self._create_topic: Final = create_topic
        self._creating: dict[str, asyncio.Task[None]] = {}

    # -- what the publisher tells ---------------------------------------------------------------------------------------------

    def leadership_changed(self, partition: Partition) -> None:
        """This broker leads the partition now, in a new epoch perhaps, or does not any more."""
        for topic in (self.groups, self.transactions):
            if topic.topic == partition.topic_partition.topic:
                if partition.is_leader:
                    topic.elected(partition)
                else:
                    topic.resigned(partition.topic_partition.partition)

    def topics_changed(self, topics: Topics, deleted: Collection[TopicPartition]) -> None:
        self.group_environment.topics = topics
        if deleted:
            self.groups.run_all(lambda machine, _: machine.forget_topic_partitions(deleted))
        for topic in (self.groups, self.transactions):
            for each in deleted:
                if each.topic == topic.topic:
                    topic.resigned(each.partition)

    def group_configs_changed(self, group_id: str, own: Mapping[str, Any]) -> None:
        """What one group was given; empty: it has nothing of its own any more."""
        if own:
            self.group_environment.group_configs[group_id] = own
        else:
            self.group_environment.group_configs.pop(group_id, None)

    def group_options_changed(self, config: GroupCoordinatorConfig) -> None:
        """Some options of all groups can be set while the broker runs."""
        self.group_environment.config = config

    def close(self) -> None:
        self.markers.close()
        self.groups.close()
        self.transactions.close()
        for task in self._creating.values():
            task.cancel()

    # -- internal topics ------------------------------------------------------------------------------------------------------

    def create_topic(self, topic: str) -> None:
        """Asks the controller for an internal topic, once; who needs it asks again meanwhile."""
        if topic not in self._creating:
            task = self._creating[topic] = asyncio.get_running_loop().create_task(self._create(topic))
            task.add_done_callback(lambda _: self._creating.pop(topic, None))

    async def _create(self, topic: str) -> None:
        groups, transactions = self.group_environment.config, self.transaction_config
        if topic == GROUP_TOPIC:
            partition_count, replication_factor = groups.offsets_topic_partition_count, groups.offsets_topic_replication_factor
            configs = {"segment.bytes": str(groups.offsets_topic_segment_bytes)}
        else:
            partition_count, replication_factor = transactions.topic_partition_count, transactions.topic_replication_factor
            configs = {
                "segment.bytes": str(transactions.topic_segment_bytes),
                "min.insync.replicas": str(transactions.topic_min_insync_replicas),
                "unclean.leader.election.enable": "false",
            }
        # The producer's codec: batches of coordinators are stored as they are written.
        configs |= {"cleanup.policy": "compact", "compression.type": "producer" if topic == GROUP_TOPIC else "uncompressed"}
        try:
            await self._create_topic(topic, partition_count, replication_factor, configs)
        except KafkaError as error:
            LOG.warning("%s could not be created: %s", topic, error)

    # -- transactions ---------------------------------------------------------------------------------------------------------

    def _exists(self, topic_partition: TopicPartition) -> bool:
        topic = self.group_environment.topics.by_name(topic_partition.topic)
        return topic is not None and topic_partition.partition < topic.partition_count

    def _send_markers(self, shard: Shard[TransactionMachine], markers: Markers) -> None:
        producer = ProducerIdAndEpoch(markers.producer_id, markers.producer_epoch)

        def complete() -> None:
            self.transactions.run(shard, lambda now_ms: shard.machine.markers_written(markers.transactional_id, producer, now_ms))

        self.markers.send(
            markers,
            self.transactions.leader_epoch_of(markers.transactional_id),
            is_wanted=lambda: shard.state is ShardState.ACTIVE,
            on_done=complete,
        )

    def _marker_appended(self, topic_partition: TopicPartition, producer: ProducerIdAndEpoch, is_commit: bool) -> None:
        if topic_partition.topic == GROUP_TOPIC:
            self.groups.marker_appended(topic_partition.partition, producer, is_commit=is_commit)


def _sends_nothing(shard: Shard[Any], send: Any) -> None:
    raise AssertionError("groups send nothing")
