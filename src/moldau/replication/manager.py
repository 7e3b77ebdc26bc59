"""◇ The partitions of this broker: made, led, followed and removed as the metadata says.

`hosted` is asked once a partition on the hot path, so it is a plain dictionary by (topic, partition).  Everything that waits shares one
`Timeouts`; logs come from the `LogManager`.  Source: kafka.server.ReplicaManager.  Called by `server/publisher.py` (the metadata) and by
the handlers of the data plane.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Final
from uuid import UUID

from moldau.replication.partition import Partition
from moldau.replication.waits import Timeouts
from moldau.storage.log import Log
from moldau.types import TopicPartition


class ReplicaManager:
    """See the module."""

    def __init__(
        self,
        *,
        local_id: int,
        lag_time_max_ms: int,
        on_flush_wanted: Callable[[Log], None],
        on_earlier_timeout: Callable[[int], None],
    ) -> None:
        self.local_id: Final = local_id
        self.hosted: Final[dict[tuple[str, int], Partition]] = {}
        self.timeouts: Final = Timeouts(on_earlier_timeout)
        self.has_resigned = False
        """The broker stops: nobody is to wait for anything any more."""
        self._lag_time_max_ms: Final = lag_time_max_ms
        self._on_flush_wanted: Final = on_flush_wanted

    def __iter__(self) -> Iterator[Partition]:
        return iter(self.hosted.values())

    def host(self, topic_partition: TopicPartition, topic_id: UUID, log: Log) -> Partition:
        """The partition lives here from now on; `lead` or `follow` says in which role."""
        assert topic_partition not in self.hosted, topic_partition
        partition = Partition(
            topic_partition,
            topic_id,
            log,
            local_id=self.local_id,
            lag_time_max_ms=self._lag_time_max_ms,
            on_flush_wanted=self._on_flush_wanted,
        )
        self.hosted[topic_partition] = partition
        return partition

    def apply(
        self,
        partition: Partition,
        *,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: tuple[int, ...],
        isr: tuple[int, ...],
        eligible: Collection[int],
        now_ms: int,
    ) -> bool:
        """What the metadata says of it now; an older state than the known one is left alone.  True if its role here changed."""
        if partition_epoch < partition.partition_epoch:
            return False
        led = partition.is_leader
        if leader_id == self.local_id:
            partition.lead(
                leader_epoch=leader_epoch,
                partition_epoch=partition_epoch,
                replicas=replicas,
                isr=isr,
                eligible=eligible,
                now_ms=now_ms,
            )
        else:
            partition.follow(leader_id=leader_id, leader_epoch=leader_epoch, partition_epoch=partition_epoch, replicas=replicas, isr=isr)
        return led != partition.is_leader

    def remove(self, topic_partition: TopicPartition) -> Partition | None:
        """It lives here no more: those who wait on it are told."""
        partition = self.hosted.pop(topic_partition, None)
        if partition is not None:
            partition.retire()
        return partition

    def log_flushed(self, log: Log) -> None:
        """More of a log is on stable storage, or its disk has failed."""
        partition = self.hosted.get(log.topic_partition)
        if partition is not None and partition.log is log:
            if log.failure is None:
                partition.flushed()
            else:
                partition.failed()

    def resign(self) -> None:
        """Nothing is led any more; who waits is told, but for those whose records are committed and wait for the disk."""
        self.has_resigned = True
        for partition in self:
            partition.resign()
