"""◇ The cluster at one offset of the metadata log: one immutable model for controllers and brokers alike.

`replay(image, records)` of `delta.py` gives the next image: it copies only changed parts, and can list the changes.  `image.records()`
gives the records of a snapshot, which make the image out of nothing.

Mappings of an image are never changed, so a caller may keep one.  A topic's partitions are a tuple, numbered from 0.
Source: MetadataImage.java, TopicsImage, ClusterImage and the like; KIP-631.  Read by every handler as `loader.image`.
"""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from moldau.metadata.features import METADATA_VERSION, record_version
from moldau.metadata.records import (
    METADATA_RECORDS,
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    ClientQuotaRecord,
    ConfigRecord,
    ControllerEndpoint,
    ControllerFeature,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from moldau.protocol.wire import StoredRecord
from moldau.types import DIRECTORY_LOST, NO_LEADER, RESERVED_UUIDS


class ResourceType(IntEnum):
    """The kinds of resource that have configs.  Source: ConfigResource.Type."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Resource(NamedTuple):
    """The resource that a config belongs to.  A broker without a name stands for all brokers."""

    type: int
    name: str


class Endpoint(NamedTuple):
    """The address of one listener of a node.  `security_protocol`: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int


class VersionRange(NamedTuple):
    low: int
    high: int


class BrokerRegistration(NamedTuple):
    """A registered broker, fenced or not.  `epoch` is the offset of the record that registered this process."""

    id: int
    epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, VersionRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[UUID, ...]
    cordoned_log_dirs: tuple[UUID, ...] | None

    @property
    def is_active(self) -> bool:
        """Whether the broker may lead and be in sync."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def has_uncordoned_dirs(self) -> bool:
        """Whether some directory takes new replicas (KIP-1066)."""
        return not self.log_dirs or self.cordoned_log_dirs is None or not set(self.log_dirs) <= set(self.cordoned_log_dirs)

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)

    def has_online_dir(self, directory_id: UUID) -> bool:
        """Whether a directory is online.  Reserved ids name no directory: they count as online, except that of a lost one."""
        if directory_id.int < RESERVED_UUIDS:
            return directory_id != DIRECTORY_LOST
        return not self.log_dirs or directory_id in self.log_dirs


class ControllerRegistration(NamedTuple):
    id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, VersionRange]
    zk_migration_ready: bool

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)


class PartitionRegistration(NamedTuple):
    """One partition as the controller sees it.  `directories` go with `replicas`, one to one."""

    replicas: tuple[int, ...]
    directories: tuple[UUID, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int

    @property
    def is_reassigning(self) -> bool:
        return bool(self.removing_replicas or self.adding_replicas)

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    def directory_of(self, broker_id: int) -> UUID | None:
        return self.directories[self.replicas.index(broker_id)] if broker_id in self.replicas else None


@dataclass(slots=True, frozen=True)
class TopicImage:
    name: str
    id: UUID
    partitions: tuple[PartitionRegistration, ...]


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class AclBinding(NamedTuple):
    """One ACL, by Kafka's numbers."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class DelegationToken(NamedTuple):
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str


QuotaEntity = tuple[tuple[str, str | None], ...]
"""Type and name of each part, sorted; a None name is the default entity."""

NO_CONFIGS: Final[Mapping[str, str]] = {}


@dataclass(slots=True, frozen=True)
class MetadataImage:
    """See the module.  `offset` is that of the last record in it, inclusive, -1 for none."""

    features: Mapping[str, int] = field(default_factory=dict)
    """Finalized levels by name, metadata.version among them; a feature at 0 is left out."""
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    colliding_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Topics with `.` or `_` in their names, by the unified name."""
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    controllers: Mapping[int, ControllerRegistration] = field(default_factory=dict)
    configs: Mapping[Resource, Mapping[str, str]] = field(default_factory=dict)
    """The dynamic configs that were set."""
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    next_producer_id: int = 0
    acls: Mapping[UUID, AclBinding] = field(default_factory=dict)
    scram: Mapping[tuple[str, int], ScramCredential] = field(default_factory=dict)
    """Credentials by user and mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512)."""
    delegation_tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    zk_migration_state: int | None = None
    offset: int = -1
    epoch: int = 0
    timestamp_ms: int = -1

    # Looking things up

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, 0)

    @property
    def is_elr_enabled(self) -> bool:
        return self.features.get("eligible.leader.replicas.version", 0) > 0

    def topic(self, topic_id: UUID) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, partition: int) -> PartitionRegistration | None:
        found = self.topics.get(topic)
        return found.partitions[partition] if found is not None and 0 <= partition < len(found.partitions) else None

    def config_of(self, kind: int, name: str) -> Mapping[str, str]:
        return self.configs.get(Resource(kind, name), NO_CONFIGS)

    def topic_config(self, topic: str) -> Mapping[str, str]:
        return self.config_of(ResourceType.TOPIC, topic)

    def broker_epoch(self, broker_id: int) -> int:
        """The epoch of a broker; -1 if it is not registered."""
        broker = self.brokers.get(broker_id)
        return -1 if broker is None else broker.epoch

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered, not fenced and not shutting down: it may lead and be in sync."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def alive_brokers(self) -> Iterator[BrokerRegistration]:
        """The brokers that are not fenced."""
        return (broker for broker in self.brokers.values() if not broker.fenced)

    # As records

    def records(self) -> Iterator[StoredRecord]:
        """The records that make this image out of nothing, metadata.version first."""
        yield from self._feature_records()
        yield from map(_broker_record, self.brokers.values())
        yield from map(_controller_record, self.controllers.values())
        for topic in self.topics.values():
            yield TopicRecord(name=topic.name, topic_id=topic.id)
            for number, partition in enumerate(topic.partitions):
                yield partition_record(topic.id, number, partition)
        for resource, configs in self.configs.items():
            for name, value in configs.items():
                yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
        for entity, quotas in self.quotas.items():
            parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
            for key, limit in quotas.items():
                yield ClientQuotaRecord(entity=parts, key=key, value=limit, remove=False)
        if self.next_producer_id > 0:
            yield ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id)
        for acl_id, acl in self.acls.items():
            yield AccessControlEntryRecord(id=acl_id, **acl._asdict())
        for (user, mechanism), credential in self.scram.items():
            yield UserScramCredentialRecord(name=user, mechanism=mechanism, **credential._asdict())
        for token in self.delegation_tokens.values():
            yield DelegationTokenRecord(**{**token._asdict(), "renewers": list(token.renewers)})

    def encoded(self) -> list[bytes]:
        """`records()`, each in its version at the finalized metadata.version."""
        level = self.metadata_version
        return [encode_record(record, level) for record in self.records()]

    def _feature_records(self) -> Iterator[StoredRecord]:
        if METADATA_VERSION in self.features:
            yield FeatureLevelRecord(name=METADATA_VERSION, feature_level=self.features[METADATA_VERSION])
        for name in sorted(self.features):
            if name != METADATA_VERSION:
                yield FeatureLevelRecord(name=name, feature_level=self.features[name])


EMPTY: Final = MetadataImage()


def encode_record(record: StoredRecord, metadata_version: int) -> bytes:
    """The record's bytes in a log of this metadata.version.  Fields that the version does not have are left out."""
    version = record_version(type(record).__name__, metadata_version)
    unsaid = [field for field in record.FIELDS if not field.is_in(version) and getattr(record, field.name) != field.default]
    if unsaid:
        record = copy(record)
        for field in unsaid:
            setattr(record, field.name, field.default)
    return METADATA_RECORDS.encode(record, version)


def partition_record(topic_id: UUID, number: int, partition: PartitionRegistration) -> PartitionRecord:
    return PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories),
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _broker_record(broker: BrokerRegistration) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[BrokerEndpoint(**endpoint._asdict()) for endpoint in broker.endpoints],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(broker.features.items())
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown,
        log_dirs=list(broker.log_dirs),
        cordoned_log_dirs=None if broker.cordoned_log_dirs is None else list(broker.cordoned_log_dirs),
    )


def _controller_record(controller: ControllerRegistration) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[ControllerEndpoint(**endpoint._asdict()) for endpoint in controller.endpoints],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(controller.features.items())
        ],
    )
