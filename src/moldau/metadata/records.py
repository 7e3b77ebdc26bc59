"""◇ Every record of the metadata log, `__cluster_metadata-0`, and of its snapshots.

Each lies in a frame: `METADATA_RECORDS.encode(record, version)`.  The finalized metadata.version decides the version that is written.

Source: KIP-500, KIP-631; the decisions beside this module show the records of each API.
"""

from uuid import UUID

from moldau.protocol.stored import FramedRecords
from moldau.protocol.wire import (
    StoredRecord,
    array,
    boolean,
    bytes_,
    float64,
    int8,
    int16,
    int32,
    int64,
    record,
    string,
    struct,
    uint16,
    uuid,
)


@struct
class BrokerEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@struct
class BrokerFeature:
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@record(record_type=0, versions="0-4", flexible="0+")
class RegisterBrokerRecord(StoredRecord):
    """A broker registered, and takes the place of its earlier registration."""

    broker_id: int = int32()
    is_migrating_zk_broker: bool = boolean("2+", default=False)
    incarnation_id: UUID = uuid()
    broker_epoch: int = int64()
    end_points: list[BrokerEndpoint] = array(BrokerEndpoint)
    features: list[BrokerFeature] = array(BrokerFeature)
    rack: str | None = string(nullable="0+")
    fenced: bool = boolean(default=True)
    in_controlled_shutdown: bool = boolean("1+", default=False)
    log_dirs: list[UUID] = array(uuid, "3+", tag=0, default=[])
    cordoned_log_dirs: list[UUID] | None = array(uuid, "4+", nullable="0+", tag=1, default=None)


@record(record_type=1, versions="0", flexible="0+")
class UnregisterBrokerRecord(StoredRecord):
    """A broker is forgotten."""

    broker_id: int = int32()
    broker_epoch: int = int64()


@record(record_type=2, versions="0", flexible="0+")
class TopicRecord(StoredRecord):
    """A topic exists."""

    name: str = string()
    topic_id: UUID = uuid()


@record(record_type=3, versions="0-2", flexible="0+")
class PartitionRecord(StoredRecord):
    """A partition exists, in this state.  Source: KIP-858, 966."""

    partition_id: int = int32(default=-1)
    topic_id: UUID = uuid()
    replicas: list[int] = array(int32)
    isr: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(tag=0, default=0, about="0 recovered, 1 recovering.")
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[UUID] = array(uuid, "1+", default=[])
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="0+", tag=1, default=None)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="0+", tag=2, default=None)


@record(record_type=4, versions="0", flexible="0+")
class ConfigRecord(StoredRecord):
    """A config of a resource has this value; null removes it."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+")


@record(record_type=5, versions="0-2", flexible="0+")
class PartitionChangeRecord(StoredRecord):
    """The changes of a partition; a missing field stays.  Source: KIP-858, 966."""

    partition_id: int = int32(default=-1)
    topic_id: UUID = uuid()
    isr: list[int] | None = array(int32, nullable="0+", tag=0, default=None)
    leader: int = int32(tag=1, default=-2, about="-1 no leader, -2 unchanged.")
    replicas: list[int] | None = array(int32, nullable="0+", tag=2, default=None)
    removing_replicas: list[int] | None = array(int32, nullable="0+", tag=3, default=None)
    adding_replicas: list[int] | None = array(int32, nullable="0+", tag=4, default=None)
    leader_recovery_state: int = int8(tag=5, default=-1, about="-1 unchanged, 0 recovered, 1 recovering.")
    directories: list[UUID] | None = array(uuid, "1+", nullable="0+", tag=8, default=None)
    eligible_leader_replicas: list[int] | None = array(int32, "2+", nullable="0+", tag=6, default=None)
    last_known_elr: list[int] | None = array(int32, "2+", nullable="0+", tag=7, default=None)


@record(record_type=7, versions="0", flexible="0+")
class FenceBrokerRecord(StoredRecord):
    """A broker may no longer lead or be in sync.  BrokerRegistrationChangeRecord took its place."""

    id: int = int32()
    epoch: int = int64()


@record(record_type=8, versions="0", flexible="0+")
class UnfenceBrokerRecord(StoredRecord):
    """A broker may lead and be in sync again.  BrokerRegistrationChangeRecord took its place."""

    id: int = int32()
    epoch: int = int64()


@record(record_type=9, versions="0", flexible="0+")
class RemoveTopicRecord(StoredRecord):
    """A topic is gone, with its partitions."""

    topic_id: UUID = uuid()


@record(record_type=10, versions="0", flexible="0+")
class DelegationTokenRecord(StoredRecord):
    """A delegation token exists, with this life."""

    owner: str = string()
    requester: str = string()
    renewers: list[str] = array(string)
    issue_timestamp: int = int64()
    max_timestamp: int = int64()
    expiration_timestamp: int = int64()
    token_id: str = string()


@record(record_type=11, versions="0", flexible="0+")
class UserScramCredentialRecord(StoredRecord):
    """A user has this SCRAM credential."""

    name: str = string()
    mechanism: int = int8()
    salt: bytes = bytes_()
    stored_key: bytes = bytes_()
    server_key: bytes = bytes_()
    iterations: int = int32()


@record(record_type=12, versions="0", flexible="0+")
class FeatureLevelRecord(StoredRecord):
    """A feature is finalized at this level; 0 removes it."""

    name: str = string()
    feature_level: int = int16()


@struct
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@record(record_type=14, versions="0", flexible="0+")
class ClientQuotaRecord(StoredRecord):
    """A quota of an entity has this value, or is removed."""

    entity: list[EntityData] = array(EntityData)
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@record(record_type=15, versions="0", flexible="0+")
class ProducerIdsRecord(StoredRecord):
    """A broker was given the producer ids before this one."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


@record(record_type=17, versions="0-3", flexible="0+")
class BrokerRegistrationChangeRecord(StoredRecord):
    """The changes of a broker's registration: fenced or not, shutting down or not, log directories."""

    broker_id: int = int32()
    broker_epoch: int = int64()
    fenced: int = int8(tag=0, default=0, about="-1 unfence, 0 unchanged, 1 fence.")
    in_controlled_shutdown: int = int8("1+", tag=1, default=0, about="0 unchanged, 1 shutting down.")
    log_dirs: list[UUID] = array(uuid, "2+", tag=2, default=[])
    cordoned_log_dirs: list[UUID] | None = array(uuid, "3+", nullable="0+", tag=3, default=None)


@record(record_type=18, versions="0", flexible="0+")
class AccessControlEntryRecord(StoredRecord):
    """An access control entry exists."""

    id: UUID = uuid()
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8()
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@record(record_type=19, versions="0", flexible="0+")
class RemoveAccessControlEntryRecord(StoredRecord):
    """An access control entry is gone."""

    id: UUID = uuid()


@record(record_type=20, versions="0", flexible="0+")
class NoOpRecord(StoredRecord):
    """A record without content; it moves the high watermark."""


@record(record_type=21, versions="0", flexible="0+")
class ZkMigrationStateRecord(StoredRecord):
    """How far a migration from ZooKeeper is.  Only read: Kafka 4 migrates no more."""

    zk_migration_state: int = int8()


@record(record_type=22, versions="0", flexible="0+")
class RemoveUserScramCredentialRecord(StoredRecord):
    """A user's SCRAM credential is gone."""

    name: str = string()
    mechanism: int = int8()


@record(record_type=23, versions="0", flexible="0+")
class BeginTransactionRecord(StoredRecord):
    """The records from here to EndTransactionRecord take effect together."""

    name: str | None = string(nullable="0+", tag=0, default=None)


@record(record_type=24, versions="0", flexible="0+")
class EndTransactionRecord(StoredRecord):
    """The records since BeginTransactionRecord take effect."""


@record(record_type=25, versions="0", flexible="0+")
class AbortTransactionRecord(StoredRecord):
    """The records since BeginTransactionRecord never take effect."""

    reason: str | None = string(nullable="0+", tag=0, default=None)


@record(record_type=26, versions="0", flexible="0+")
class RemoveDelegationTokenRecord(StoredRecord):
    """A delegation token is gone."""

    token_id: str = string()


@struct
class ControllerEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@struct
class ControllerFeature:
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@record(record_type=27, versions="0", flexible="0+")
class RegisterControllerRecord(StoredRecord):
    """A controller registered, and takes the place of its earlier registration."""

    controller_id: int = int32()
    incarnation_id: UUID = uuid()
    zk_migration_ready: bool = boolean()
    end_points: list[ControllerEndpoint] = array(ControllerEndpoint)
    features: list[ControllerFeature] = array(ControllerFeature)


@record(record_type=28, versions="0", flexible="0+")
class ClearElrRecord(StoredRecord):
    """Eligible leader replicas of a topic, or with an empty name of all, are cleared."""

    topic_name: str = string()


METADATA_RECORDS = FramedRecords(
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    TopicRecord,
    PartitionRecord,
    ConfigRecord,
    PartitionChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    RemoveTopicRecord,
    DelegationTokenRecord,
    UserScramCredentialRecord,
    FeatureLevelRecord,
    ClientQuotaRecord,
    ProducerIdsRecord,
    BrokerRegistrationChangeRecord,
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    NoOpRecord,
    ZkMigrationStateRecord,
    RemoveUserScramCredentialRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    AbortTransactionRecord,
    RemoveDelegationTokenRecord,
    RegisterControllerRecord,
    ClearElrRecord,
)
