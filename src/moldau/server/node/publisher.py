"""● Brings this broker in step with the metadata, delta by delta, always in the same order.

    1  topics that are gone: their partitions stop serving, their logs are set aside
    2  partitions that moved away
    3  options of topics, groups and brokers, before the partitions that use them
    4  partitions that are new here, lead here, follow here
    5  brokers that came or went: they change which replicas may join an in-sync set

A delta of thousands of partitions takes seconds, most of them for their files: it is applied in pieces, between which the loop serves
others, and later deltas wait.  Requests about changes that are not applied yet are refused as if the metadata were on its way.

Source: BrokerMetadataPublisher, ReplicaManager.applyDelta.  Called by `metadata/loader.py` for every committed batch.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final
from uuid import UUID

from moldau.clock import Clock
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.delta import Delta
from moldau.metadata.image import MetadataImage, PartitionRegistration, ResourceType, TopicImage
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import Partition
from moldau.server.coordinators.coordinators import Coordinators
from moldau.server.node.directory_assignments import DirectoryAssignments
from moldau.server.node.folders import is_stray
from moldau.server.requests.cluster_view import TopicsView
from moldau.server.requests.pieces import PIECE_MS
from moldau.server.tier.manager import RemoteLogManager
from moldau.storage.files import is_shortage
from moldau.storage.manager import LogManager
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)

REMOVED_AT_ONCE: Final = 500
"""Partitions that are removed at once: their new names share a sync, and a checkpoint of the remaining ones."""


class Publisher:
    """See the module.  `on_failure` gets errors that occur after `publish` has returned."""

    def __init__(
        self,
        *,
        local_id: int,
        clock: Clock,
        logs: LogManager,
        replicas: ReplicaManager,
        schema: ConfigSchema,
        coordinators: Coordinators,
        assignments: DirectoryAssignments,
        on_failure: Callable[[Exception], None],
        on_options: Callable[[MetadataImage], None],
        remote: RemoteLogManager | None = None,
    ) -> None:
        self._local_id: Final = local_id
        self._clock: Final = clock
        self._logs: Final = logs
        self._replicas: Final = replicas
        self._schema: Final = schema
        self._coordinators: Final = coordinators
        self._assignments: Final = assignments
        self._on_failure: Final = on_failure
        self._on_options: Final = on_options
        self._has_published = False
        self._refused: Final[dict[str, list[TopicPartition]]] = {}
        """Partitions that no disk takes, with the reason."""
        self._remote: Final = remote
        self._homeless: Final[set[TopicPartition]] = set()
        """Partitions without room or file descriptor: they are tried again with every change of the metadata."""
        self.published_offset = -1
        """The offset (inclusive) up to which this broker has applied the metadata."""
        self._waiting: Final[deque[tuple[Delta, MetadataImage]]] = deque()
        self._steps: Iterator[None] | None = None
        """The remaining steps of the present delta."""
        self._next_piece: asyncio.Handle | None = None

    def publish(self, delta: Delta, image: MetadataImage) -> None:
        """Apply `delta`, after which the metadata is `image`.  The first delta is all of it."""
        self._waiting.append((delta, image))
        if self._next_piece is None:
            self._work()

    def stop(self) -> None:
        """Stop.  The next start does the rest: its first delta is all of the metadata."""
        if self._next_piece is not None:
            self._next_piece.cancel()
            self._waiting.clear()

    def _work(self) -> None:
        began_ms = self._clock.monotonic_ms()
        while self._steps is not None or self._waiting:
            if self._steps is None:
                self._steps = self._apply_delta(*self._waiting.popleft())
            for _ in self._steps:
                if self._clock.monotonic_ms() - began_ms >= PIECE_MS:
                    self._next_piece = asyncio.get_running_loop().call_soon(self._work_on)
                    return
            self._steps = None

    def _work_on(self) -> None:
        self._next_piece = None
        try:
            self._work()
        except Exception as error:
            self._on_failure(error)

    def _apply_delta(self, delta: Delta, image: MetadataImage) -> Iterator[None]:
        """The steps of a delta; between any two of them other requests may be served."""
        deleted = [TopicPartition(topic.name, number) for topic in delta.deleted_topics.values() for number in range(len(topic.partitions))]
        if not self._has_published:
            yield from self._set_strays_aside(image)
        yield from self._remove(deleted)
        if deleted or delta.changed_topics:
            self._coordinators.topics_changed(TopicsView(image), deleted, delta.deleted_topics.keys())
        for topic_id, numbers in delta.changed_topics.items():
            topic_now = image.topic(topic_id)
            if topic_now is not None:
                yield from self._remove_moved(topic_now, numbers)
        yield from self._take_options(delta, image)
        for topic_id, numbers in delta.changed_topics.items():
            topic_now = image.topic(topic_id)
            if topic_now is not None:
                for number in sorted(numbers):
                    self._apply(image, topic_now, number)
                    yield
        for where in list(self._homeless):
            topic = image.topics.get(where.topic)
            self._homeless.discard(where)
            if topic is not None and where.partition < len(topic.partitions):
                self._apply(image, topic, where.partition, is_told=True)
                if where in self._homeless:
                    break
                LOG.info("%s: there is room for it now", where)
                yield
        if delta.changed_brokers:
            yield from self._take_eligible(image)
        self._has_published = True
        self._tell_refused()
        if deleted and self._remote is not None:
            self._remote.topics_deleted(image)
        self.published_offset = image.offset

    # 1, 2

    def _set_strays_aside(self, image: MetadataImage) -> Iterator[None]:
        """Set the logs aside whose partitions were moved or deleted while this broker loaded them: the first delta does not say so.

        Source: LogManager.startup with BrokerMetadataPublisher.initializeManagers.
        """
        for where, log in list(self._logs.logs.items()):
            if where not in self._replicas.hosted and is_stray(image, self._local_id, log.directory, where, log.topic_id):
                LOG.warning("the cluster does not know this log any more: kept as %s", self._logs.set_stray(where))
                yield

    def _remove(self, wheres: Iterable[TopicPartition]) -> Iterator[None]:
        rest = iter(wheres)
        while some := list(islice(rest, REMOVED_AT_ONCE)):
            removed = [partition for where in some if (partition := self._replicas.remove(where)) is not None]
            if self._remote is not None:
                for partition in removed:
                    self._remote.removed(partition)
            if removed:
                self._logs.delete([partition.topic_partition for partition in removed], self._clock.now_ms())
            yield

    def _remove_moved(self, topic: TopicImage, numbers: Iterable[int]) -> Iterator[None]:
        moved = (number for number in sorted(numbers) if self._local_id not in topic.partitions[number].replicas)
        return self._remove(TopicPartition(topic.name, number) for number in moved)

    # 3

    def _take_options(self, delta: Delta, image: MetadataImage) -> Iterator[None]:
        topics = [resource.name for resource in delta.changed_configs if resource.type == ResourceType.TOPIC]
        if any(resource.type == ResourceType.BROKER for resource in delta.changed_configs):
            topics = list(image.topics)
            self._on_options(image)
        for resource in delta.changed_configs:
            if resource.type == ResourceType.GROUP:
                self._coordinators.group_configs_changed(resource.name, self._schema.group_values(image, resource.name))
        if not topics:
            return
        configs = {}
        for topic in topics:
            configs[topic] = self._schema.log_config(image, topic)
            yield
        for partition in list(self._replicas):
            config = configs.get(partition.topic_partition.topic)
            if config is not None:
                partition.log.configure(config)
                partition.log.verifies_transactions = self._coordinators.transaction_config.is_verification_enabled
            if self._remote is not None:
                self._remote.hosted(partition)
            yield

    # 4

    def _apply(self, image: MetadataImage, topic: TopicImage, number: int, *, is_told: bool = False) -> None:
        """Apply one partition.  `is_told`: that it had no log has been logged already."""
        said = topic.partitions[number]
        if self._local_id not in said.replicas:
            return
        where = TopicPartition(topic.name, number)
        partition = self._replicas.hosted.get(where) or self._host(image, where, topic.id, said, is_told=is_told)
        if partition is None:
            return
        before = partition.leader_epoch, partition.is_leader
        self._replicas.apply(
            partition,
            leader_id=said.leader,
            leader_epoch=said.leader_epoch,
            partition_epoch=said.partition_epoch,
            replicas=said.replicas,
            isr=said.isr,
            eligible=_eligible(image),
            now_ms=self._clock.monotonic_ms(),
        )
        if before != (partition.leader_epoch, partition.is_leader):
            self._coordinators.leadership_changed(partition)
            if self._remote is not None:
                self._remote.leadership_changed(partition)

    def _host(
        self, image: MetadataImage, where: TopicPartition, topic_id: UUID, said: PartitionRegistration, *, is_told: bool
    ) -> Partition | None:
        """The log of a partition; None when no disk takes it: the partition is offline here."""
        log = self._logs.get(where)
        if log is not None and log.topic_id not in (None, topic_id):
            path = self._logs.set_stray(where)
            LOG.warning("%s belonged to another topic of that name: kept as %s", where, path)
            log = None
        if log is None:
            try:
                log = self._logs.get_or_create(
                    where,
                    self._schema.log_config(image, where.topic),
                    now_ms=self._clock.now_ms(),
                    topic_id=topic_id,
                    directory_id=said.directory_of(self._local_id),
                    is_new=self._has_published,
                )
            except OSError as error:
                if is_shortage(error):
                    self._homeless.add(where)
                if not is_told:
                    self._refused.setdefault(error.strerror or str(error), []).append(where)
                return None
        log.verifies_transactions = self._coordinators.transaction_config.is_verification_enabled
        partition = self._replicas.host(where, topic_id, log)
        self.tell_directory(partition, said.directory_of(self._local_id))
        return partition

    def _tell_refused(self) -> None:
        for reason, wheres in self._refused.items():
            more = f" and {len(wheres) - 1} others" if len(wheres) > 1 else ""
            LOG.error("no log for %s%s: %s", wheres[0], more, reason)
        self._refused.clear()

    def tell_directory(self, partition: Partition, known: UUID | None) -> None:
        """Tell the controller the folder of a log, unless it knows it."""
        directory_id = self._logs.directory_of(partition.topic_partition).directory_id
        if directory_id is not None and directory_id != known:
            self._assignments.want(partition.topic_id, partition.topic_partition.partition, directory_id)

    # 5

    def _take_eligible(self, image: MetadataImage) -> Iterator[None]:
        eligible = _eligible(image)
        for partition in list(self._replicas):
            if partition.eligible != eligible:
                partition.take_eligible(eligible, self._clock.monotonic_ms())
                yield


def _eligible(image: MetadataImage) -> Mapping[int, int]:
    """The brokers that may be in sync, neither fenced nor shutting down, with their epochs."""
    return {broker.id: broker.epoch for broker in image.brokers.values() if broker.is_active}
