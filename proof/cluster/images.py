"""● A small cluster for decisions to be tested on: images made of records, as in life."""

from collections.abc import Mapping
from random import Random
from typing import Any
from uuid import UUID

from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.delta import replay
from moldau.metadata.features import FEATURES, KRAFT_VERSION, METADATA_VERSION, default_level, supported_ranges
from moldau.metadata.image import EMPTY, MetadataImage, PartitionRegistration, ResourceType
from moldau.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from moldau.metadata.topics import TopicRules, create_topics
from moldau.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest


def an_image(*brokers: int, level: int = 30, fenced: tuple[int, ...] = ()) -> MetadataImage:
    """An image with the features finalized as 4.3.1 formats them.  These brokers are alive, except the fenced ones."""
    records = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)]
    for name in FEATURES:
        if name != KRAFT_VERSION and default_level(name, level):
            records.append(FeatureLevelRecord(name=name, feature_level=default_level(name, level)))
    registered = [a_broker(number, fenced=number in fenced) for number in brokers]
    return replay(EMPTY, [*records, *registered], offset=len(records) + len(registered) - 1)


def with_topics(topic_ids: Mapping[str, UUID]) -> MetadataImage:
    """An image of these topics and nothing else.  The topics have no partitions yet."""
    return replay(EMPTY, [TopicRecord(name=name, topic_id=topic_id) for name, topic_id in topic_ids.items()])


def a_broker(number: int, *, fenced: bool = False, epoch: int = 7, rack: str | None = None) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=number,
        incarnation_id=UUID(int=1000 + number),
        broker_epoch=epoch,
        end_points=[BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9000 + number, security_protocol=0)],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported_ranges().items()
        ],
        rack=rack,
        fenced=fenced,
        log_dirs=[UUID(int=5000 + number)],
    )


def rules(properties: dict[str, str] | None = None, *, seed: int = 1) -> TopicRules:
    """Rules that draw the topic ids 1001, 1002, … in this order."""
    ids = iter(range(1001, 100_000))
    schema = ConfigSchema(properties or {}, node_id=1)
    return TopicRules(schema, num_partitions=1, replication_factor=1, new_id=lambda: UUID(int=next(ids)), chance=Random(seed))


def with_topic(image: MetadataImage, *replicas: int, name: str = "t", partition_count: int = 1) -> MetadataImage:
    """The image with a topic.  All its partitions lie on these brokers, and the first broker leads."""
    placed = [CreatableReplicaAssignment(partition_index=number, broker_ids=list(replicas)) for number in range(partition_count)]
    topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=placed, configs=[])
    return replay(image, create_topics(image, rules(), CreateTopicsRequest(topics=[topic])).records)


def with_config(image: MetadataImage, **values: str) -> MetadataImage:
    """The image with these configs of the topic `t`.  In their names `_` stands for `.`."""
    records = [
        ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name=name.replace("_", "."), value=value)
        for name, value in values.items()
    ]
    return replay(image, records)


def partition(image: MetadataImage, number: int = 0) -> PartitionRegistration:
    """The first partition of the topic `t`."""
    return image.topics["t"].partitions[number]


def with_partition(image: MetadataImage, **changes: Any) -> MetadataImage:
    """The image with changes to the first partition of the topic `t` that no request would make: `isr=[1]`, `leader=-1` and the like."""
    changed = PartitionChangeRecord(partition_id=0, topic_id=image.topics["t"].id, **changes)
    return replay(image, [changed])
