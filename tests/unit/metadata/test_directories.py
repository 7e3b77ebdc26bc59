"""The directory of each replica, as its broker reports it."""

from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.automatic_elections import elect_uncleanly
from moldau.metadata.delta import replay
from moldau.metadata.departures import unfence
from moldau.metadata.directories import assign_replicas_to_dirs
from moldau.metadata.elections import elect_leaders
from moldau.metadata.features import ELR_VERSION
from moldau.metadata.image import MetadataImage
from moldau.metadata.records import FeatureLevelRecord, PartitionChangeRecord
from moldau.metadata.topics import create_topics
from moldau.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from moldau.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from proof.cluster.images import a_broker, an_image, rules

SCHEMA = rules().schema


def with_topic(*replicas: int) -> MetadataImage:
    image = an_image(*replicas)
    placed = [CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))]
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=placed, configs=[])
    return replay(image, create_topics(image, rules(), CreateTopicsRequest(topics=[topic])).records)


def assign(image: MetadataImage, broker: int, directory: UUID, topic_id: UUID, number: int = 0) -> tuple[MetadataImage, int]:
    partitions = [AssignReplicasToDirsRequestPartitionData(partition_index=number)]
    topics = [AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=partitions)]
    request = AssignReplicasToDirsRequest(
        broker_id=broker,
        broker_epoch=image.broker_epoch(broker),
        directories=[AssignReplicasToDirsRequestDirectoryData(id=directory, topics=topics)],
    )
    outcome = assign_replicas_to_dirs(image, SCHEMA, request)
    (answered,) = outcome.response.directories
    assert answered.id == directory and answered.topics[0].topic_id == topic_id
    return replay(image, outcome.records), answered.topics[0].partitions[0].error_code


def test_a_replica_lies_where_its_broker_says() -> None:
    image = with_topic(1, 2)
    (directory,) = image.brokers[2].log_dirs
    before = image.topics["t"].partitions[0]
    image, code = assign(image, 2, directory, image.topics["t"].id)
    after = image.topics["t"].partitions[0]
    assert code == ErrorCode.NONE and after.directory_of(2) == directory and after.directory_of(1) == before.directory_of(1)
    assert (after.leader, after.leader_epoch, after.isr) == (before.leader, before.leader_epoch, before.isr)


def test_one_in_a_directory_that_is_offline_is_in_sync_no_more() -> None:
    image = with_topic(1, 2)
    offline = UUID(int=77777)
    image, code = assign(image, 1, offline, image.topics["t"].id)
    after = image.topics["t"].partitions[0]
    assert code == ErrorCode.NONE
    assert (after.directory_of(1), after.isr, after.leader) == (offline, (2,), 2)


def test_a_replica_that_begins_on_another_disk_leads_again() -> None:
    image = with_topic(1)
    topic_id, (directory,) = image.topics["t"].id, image.brokers[1].log_dirs
    image, _ = assign(image, 1, UUID(int=77777), topic_id)
    assert image.topics["t"].partitions[0].leader == -1
    image, _ = assign(image, 1, directory, topic_id)
    assert (image.topics["t"].partitions[0].leader, image.topics["t"].partitions[0].isr) == (1, (1,))


def test_the_last_known_leader_leads_no_more_when_its_disk_was_replaced_and_others_may_have_the_records() -> None:
    image = with_topic(1, 2, 3)
    topic_id, (directory,) = image.topics["t"].id, image.brokers[1].log_dirs
    image, _ = assign(image, 1, UUID(int=77777), topic_id)
    left = PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=-1, isr=[], last_known_elr=[1])
    image, _ = assign(replay(image, [left]), 1, directory, topic_id)
    found = image.topics["t"].partitions[0]
    assert (found.leader, found.isr, found.elr, found.last_known_elr, found.directory_of(1)) == (-1, (), (), (), directory)


def test_one_whose_disk_was_replaced_is_in_sync_no_more() -> None:
    image = with_topic(1, 2, 3)
    topic_id, (directory,) = image.topics["t"].id, image.brokers[1].log_dirs
    image, _ = assign(image, 1, UUID(int=77777), topic_id)
    image = replay(image, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1, 2], leader=2)])
    image, _ = assign(image, 1, directory, topic_id)
    found = image.topics["t"].partitions[0]
    assert (found.leader, found.isr, found.elr) == (2, (2,), ())


def without_elr(image: MetadataImage) -> MetadataImage:
    return replay(image, [FeatureLevelRecord(name=ELR_VERSION, feature_level=0)])


def left_on_one(image: MetadataImage) -> MetadataImage:
    """The image after broker 1 was the last one in sync and died, and comes back with another disk.  It is still fenced."""
    topic_id = image.topics["t"].id
    image = replay(image, [PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=[1], leader=-1)])
    back = a_broker(1, fenced=True)
    back.log_dirs = [UUID(int=6001)]
    return replay(image, [back])


@pytest.mark.parametrize("is_active", [False, True])
def test_without_elr_the_last_one_in_sync_leads_no_more_when_its_disk_was_replaced(is_active: bool) -> None:
    """Kafka 4.3.1 elects it, and the others truncate to its empty log."""
    image = left_on_one(without_elr(with_topic(1, 2, 3)))
    topic_id = image.topics["t"].id
    if is_active:
        image = replay(image, unfence(image, SCHEMA, image.brokers[1]))
    image, _ = assign(image, 1, UUID(int=6001), topic_id)
    for broker_id in (1, 2):
        image = replay(image, unfence(image, SCHEMA, image.brokers[broker_id]))
        image = replay(image, elect_uncleanly(image, SCHEMA).records)
    found = image.topics["t"].partitions[0]
    assert (found.leader, found.isr, found.directory_of(1)) == (-1, (), UUID(int=6001))
    asked = [TopicPartitions(topic="t", partitions=[0])]
    elected = elect_leaders(image, SCHEMA, ElectLeadersRequest(election_type=1, topic_partitions=asked, timeout_ms=1000))
    found = replay(image, elected.records).topics["t"].partitions[0]
    assert (found.leader, found.isr, found.leader_recovery_state) == (1, (1,), 1)


def test_without_elr_one_of_several_in_sync_whose_disk_was_replaced_is_in_sync_no_more() -> None:
    image = without_elr(with_topic(1, 2, 3))
    image = replay(image, [PartitionChangeRecord(partition_id=0, topic_id=image.topics["t"].id, isr=[1, 2], leader=2)])
    back = a_broker(1)
    back.log_dirs = [UUID(int=6001)]
    image, _ = assign(replay(image, [back]), 1, UUID(int=6001), image.topics["t"].id)
    found = image.topics["t"].partitions[0]
    assert (found.leader, found.isr) == (2, (2,))


def test_what_cannot_be_assigned_says_so() -> None:
    image = with_topic(1)
    topic_id, directory = image.topics["t"].id, image.brokers[1].log_dirs[0]
    assert assign(image, 1, directory, UUID(int=5))[1] == ErrorCode.UNKNOWN_TOPIC_ID
    assert assign(image, 1, directory, topic_id, 1)[1] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    only_on_one = replay(with_topic(1), [a_broker(2)])
    assert assign(only_on_one, 2, only_on_one.brokers[2].log_dirs[0], topic_id)[1] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    request = AssignReplicasToDirsRequest(broker_id=1, broker_epoch=image.broker_epoch(1) + 1, directories=[])
    with pytest.raises(KafkaError, match="STALE_BROKER_EPOCH"):
        assign_replicas_to_dirs(image, SCHEMA, request)
