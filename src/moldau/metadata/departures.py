"""◇ Changes partitions when brokers come and go: which replicas leave the in-sync sets, and which replica leads then.

    fenced, shutting down      leaves every in-sync set; stays eligible where too few are left (KIP-966)
    stopped uncleanly          leaves the eligible sets, too: it may have lost records that only its page cache held
    unregistered               the same: it does not come back
    lost a directory           a replica whose directory it has not told yet may have been there: it counts as lost
    a directory is offline     leaves the in-sync sets of the replicas in that directory
    unfenced                   leads partitions without a leader, where it may

A broker leaves in pieces of at most `PIECE` partitions, so that the event loop has other turns in between.  The record about the broker
itself comes with the last piece: a controller that takes over half-way finds the broker as it was and begins again.
Source: ReplicationControlManager.generateLeaderAndIsrUpdates and its callers.
"""

from collections.abc import Callable, Iterator
from typing import Final
from uuid import UUID

from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.image import BrokerRegistration, MetadataImage, PartitionRegistration, TopicImage
from moldau.metadata.outcome import PIECE, Piece
from moldau.metadata.partition_change import change_of, may_lead
from moldau.metadata.records import BrokerRegistrationChangeRecord
from moldau.protocol.wire import StoredRecord
from moldau.types import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, NO_LEADER

FENCE: Final = 1
UNFENCE: Final = -1
SHUTTING_DOWN: Final = 1


def fence(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> Piece:
    """Fence a broker: it may neither lead nor be in sync.  `broker_id` is registered."""
    broker = image.brokers[broker_id]
    left = leave(image, schema, broker_id)
    if left.is_complete:
        left.records.append(BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=FENCE))
    return left


def shut_down(image: MetadataImage, schema: ConfigSchema, broker: BrokerRegistration) -> Piece:
    """Move leaderships away from a broker before it stops (KIP-841)."""
    left = leave(image, schema, broker.id)
    if left.is_complete and not broker.in_controlled_shutdown:
        change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=SHUTTING_DOWN)
        left.records.insert(0, change)
    return left


def unfence(image: MetadataImage, schema: ConfigSchema, broker: BrokerRegistration) -> list[StoredRecord]:
    """Unfence a broker: it may lead again, and leads partitions without a leader.  The number of records is not limited."""

    def is_active(one: int) -> bool:
        return one == broker.id or image.is_active(one)

    records: list[StoredRecord] = [BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE)]
    for topic, number in partitions_of(image, lambda partition: partition.leader == NO_LEADER):
        record = change_of(image, schema, topic, number, is_active=is_active).record()
        if record is not None:
            records.append(record)
    return records


def leave(
    image: MetadataImage, schema: ConfigSchema, broker_id: int, *, lost_its_log: bool = False, lost_a_directory: bool = False
) -> Piece:
    """Take a broker out of every in-sync set; with `lost_its_log` out of the eligible sets, too.

    With `lost_a_directory` its replicas whose directory is not known yet count as lost, until the broker tells where they are.
    """

    def may_be_lost(partition: PartitionRegistration) -> bool:
        return lost_a_directory and partition.directory_of(broker_id) == DIRECTORY_UNASSIGNED

    def concerns(partition: PartitionRegistration) -> bool:
        return may_be_lost(partition) or broker_id in partition.isr or (lost_its_log and broker_id in partition.elr)

    return _leave(image, schema, broker_id, concerns, may_be_lost, lost_its_log=lost_its_log)


def leave_directories(image: MetadataImage, schema: ConfigSchema, broker: BrokerRegistration, offline: list[UUID]) -> Piece:
    """Take replicas in failed log directories of this broker out of the in-sync sets; other replicas may then lead."""
    newly = [one for one in broker.log_dirs if one in offline]
    if not newly:
        return Piece([], is_complete=True)

    def concerns(partition: PartitionRegistration) -> bool:
        if partition.directory_of(broker.id) not in newly:
            return False
        return broker.id in partition.isr or partition.is_reassigning or not may_lead(image, partition)(partition.leader)

    left = _leave(image, schema, broker.id, concerns, lambda _: False)
    if left.is_complete:
        online = [one for one in broker.log_dirs if one not in newly]
        left.records.append(BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=online))
    return left


def _leave(
    image: MetadataImage,
    schema: ConfigSchema,
    broker_id: int,
    concerns: Callable[[PartitionRegistration], bool],
    may_be_lost: Callable[[PartitionRegistration], bool],
    *,
    lost_its_log: bool = False,
) -> Piece:
    def is_active(one: int) -> bool:
        return one != broker_id and image.is_active(one)

    records: list[StoredRecord] = []
    for topic, number in partitions_of(image, concerns):
        if len(records) == PIECE:
            return Piece(records, is_complete=False)
        is_lost = may_be_lost(topic.partitions[number])
        if not is_lost and _has_left(image, schema, broker_id, topic, number):
            continue
        change = change_of(image, schema, topic, number, is_active=is_active)
        change.isr = [one for one in change.partition.isr if one != broker_id]
        change.lost_their_log = (broker_id,) if lost_its_log else ()
        if is_lost:
            change.new_directories = {broker_id: DIRECTORY_LOST}
        record = change.record()
        if record is not None:
            records.append(record)
    return Piece(records, is_complete=True)


def _has_left(image: MetadataImage, schema: ConfigSchema, broker_id: int, topic: TopicImage, number: int) -> bool:
    """Whether a broker has left a partition.

    Without eligible replicas the last one in sync stays in the set, leaderless: a later piece must not look at such partitions again.
    """
    partition = topic.partitions[number]
    is_last = partition.isr == (broker_id,) and partition.leader == NO_LEADER and not partition.elr
    return is_last and not image.is_elr_enabled and not schema.is_unclean_election_enabled(image, topic.name)


def partitions_of(image: MetadataImage, concerns: Callable[[PartitionRegistration], bool]) -> Iterator[tuple[TopicImage, int]]:
    """Topic and number of each partition that `concerns` accepts."""
    for topic in image.topics.values():
        for number, partition in enumerate(topic.partitions):
            if concerns(partition):
                yield topic, number
