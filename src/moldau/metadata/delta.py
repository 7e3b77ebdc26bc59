"""◇ The step from one image to the next: one replay function for each type of record, and the parts that changed.

    delta = Delta(image); for record in records: delta.replay(record); image = delta.apply(offset=…, epoch=…, timestamp_ms=…)

Copy on write: a mapping of the image is copied when the first record touches it, so the cost of a change depends on what it touches (one
topic among 10,000: a copy of one dictionary).  A snapshot comes as a delta too: `Delta.between(old, new)`.

Publishers read `changed_topics` and the like.

Source: MetadataDelta.java, TopicsDelta.java.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar
from uuid import UUID

from moldau.metadata import records as r
from moldau.metadata.features import KRAFT_VERSION
from moldau.metadata.image import (
    AclBinding,
    BrokerRegistration,
    ControllerRegistration,
    DelegationToken,
    Endpoint,
    MetadataImage,
    PartitionRegistration,
    QuotaEntity,
    Resource,
    ScramCredential,
    TopicImage,
    VersionRange,
)
from moldau.metadata.topic_names import unified
from moldau.protocol.wire import StoredRecord
from moldau.types import DIRECTORY_MIGRATING

UNCHANGED: Final = -2
"""The leader in a PartitionChangeRecord that leaves the leader as it is."""

K = TypeVar("K")
V = TypeVar("V")


class TopicInTheMaking(NamedTuple):
    """The name of a topic, the partitions that it had, and its changed or new ones by number."""

    name: str
    before: tuple[PartitionRegistration, ...]
    changed: dict[int, PartitionRegistration]

    def partition(self, number: int) -> PartitionRegistration:
        """Errors: KeyError."""
        found = self.changed.get(number)
        if found is None:
            if not 0 <= number < len(self.before):
                raise KeyError(number)
            found = self.before[number]
        return found

    def partitions(self) -> tuple[PartitionRegistration, ...]:
        """All partitions, in order.  One change among 10,000 costs two copies of pointers."""
        partitions = list(self.before)
        for number in sorted(self.changed):
            if number < len(partitions):
                partitions[number] = self.changed[number]
            else:
                assert number == len(partitions), f"{self.name} has no partition {len(partitions)}"
                partitions.append(self.changed[number])
        return tuple(partitions)


class Delta:
    """See the module.  `image` is the image before, `applied` the one after.  An applied delta only lists the changes."""

    def __init__(self, image: MetadataImage) -> None:
        self.image: Final = image
        self.applied: MetadataImage | None = None
        self.changed_topics: dict[UUID, set[int]] = {}
        """Topics that are new or have changed partitions, with the numbers of these partitions."""
        self.deleted_topics: dict[UUID, TopicImage] = {}
        self.changed_brokers: dict[int, BrokerRegistration | None] = {}
        """None: unregistered."""
        self.changed_configs: dict[Resource, set[str]] = {}
        self.changed_features: set[str] = set()
        self.changed_quotas: set[QuotaEntity] = set()
        self.changed_scram: set[tuple[str, int]] = set()
        self.changed_acls: set[UUID] = set()
        self.changed_tokens: set[str] = set()
        self._copies: dict[str, Any] = {}
        self._topics: dict[UUID, TopicInTheMaking] = {}
        self._names: dict[str, UUID] = {}
        """The names of topics that are new in this delta."""

    @classmethod
    def between(cls, old: MetadataImage, new: MetadataImage) -> "Delta":
        """The changes between two images, as when a snapshot takes the place of the log."""
        delta = cls(old)
        delta.applied = new
        for topic in new.topics.values():
            before = old.topic(topic.id)
            if before is not topic and before != topic:
                known = before.partitions if before is not None else ()
                delta.changed_topics[topic.id] = {
                    number for number, one in enumerate(topic.partitions) if number >= len(known) or known[number] != one
                }
        delta.deleted_topics = {old_id: old.topics[name] for old_id, name in old.topic_names.items() if old_id not in new.topic_names}
        delta.changed_brokers = {key: new.brokers.get(key) for key in _differing(old.brokers, new.brokers)}
        for resource in _differing(old.configs, new.configs):
            delta.changed_configs[resource] = _differing(old.configs.get(resource, {}), new.configs.get(resource, {}))
        delta.changed_features = _differing(old.features, new.features)
        delta.changed_quotas = _differing(old.quotas, new.quotas)
        delta.changed_scram = _differing(old.scram, new.scram)
        delta.changed_acls = _differing(old.acls, new.acls)
        delta.changed_tokens = _differing(old.delegation_tokens, new.delegation_tokens)
        return delta

    def replay(self, record: StoredRecord) -> None:
        """The only place where metadata changes.  Errors: KeyError, AssertionError for a record that cannot follow what came before."""
        _REPLAYS[type(record)](self, record)

    def apply(self, *, offset: int = -1, epoch: int = 0, timestamp_ms: int = -1) -> MetadataImage:
        """The next image."""
        for topic_id, topic in self._topics.items():
            self._copy("topics")[topic.name] = TopicImage(topic.name, topic_id, topic.partitions())
        changes = {**self._copies, "offset": max(offset, self.image.offset), "epoch": max(epoch, self.image.epoch)}
        self.applied = replace(self.image, **changes, timestamp_ms=max(timestamp_ms, self.image.timestamp_ms))
        return self.applied

    # What replays use

    def _copy(self, name: str) -> Any:
        """The image's mapping of that name as a copy to be changed."""
        copy = self._copies.get(name)
        if copy is None:
            copy = self._copies[name] = dict(getattr(self.image, name))
        return copy

    def _current(self, name: str) -> Any:
        copy = self._copies.get(name)
        return getattr(self.image, name) if copy is None else copy

    def _changing(self, topic_id: UUID) -> TopicInTheMaking:
        found = self._topics.get(topic_id)
        if found is None:
            topic = self.image.topic(topic_id)
            assert topic is not None and topic_id not in self.deleted_topics, f"there is no topic {topic_id}"
            found = self._topics[topic_id] = TopicInTheMaking(topic.name, topic.partitions, {})
        return found

    def _topic_id_of(self, name: str) -> UUID | None:
        if name in self._names:
            return self._names[name]
        topic = self.image.topics.get(name)
        return topic.id if topic is not None and topic.id not in self.deleted_topics else None

    # Topics

    def _topic(self, record: r.TopicRecord) -> None:
        assert self._topic_id_of(record.name) is None, f"the topic {record.name} exists"
        self._topics[record.topic_id] = TopicInTheMaking(record.name, (), {})
        self._names[record.name] = record.topic_id
        self._copy("topic_names")[record.topic_id] = record.name
        self.changed_topics[record.topic_id] = set()
        by = unified(record.name)
        if by is not None:
            names = self._copy("colliding_names")
            names[by] = tuple(sorted((*names.get(by, ()), record.name)))

    def _partition(self, record: r.PartitionRecord) -> None:
        self._changing(record.topic_id).changed[record.partition_id] = PartitionRegistration(
            replicas=tuple(record.replicas),
            directories=tuple(record.directories) or (DIRECTORY_MIGRATING,) * len(record.replicas),
            isr=tuple(record.isr),
            removing_replicas=tuple(record.removing_replicas),
            adding_replicas=tuple(record.adding_replicas),
            elr=tuple(record.eligible_leader_replicas or ()),
            last_known_elr=tuple(record.last_known_elr or ()),
            leader=record.leader,
            leader_recovery_state=record.leader_recovery_state,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
        )
        self.changed_topics.setdefault(record.topic_id, set()).add(record.partition_id)

    def _partition_change(self, record: r.PartitionChangeRecord) -> None:
        topic = self._changing(record.topic_id)
        topic.changed[record.partition_id] = merge(topic.partition(record.partition_id), record)
        self.changed_topics.setdefault(record.topic_id, set()).add(record.partition_id)

    def _remove_topic(self, record: r.RemoveTopicRecord) -> None:
        name = self._copy("topic_names").pop(record.topic_id)
        known = self.image.topic(record.topic_id)
        self._topics.pop(record.topic_id, None)
        self._names.pop(name, None)
        self.changed_topics.pop(record.topic_id, None)
        if known is not None:
            self.deleted_topics[record.topic_id] = known
            self._copy("topics").pop(name, None)
        by = unified(name)
        if by is not None:
            names = self._copy("colliding_names")
            names[by] = tuple(one for one in names[by] if one != name)
            if not names[by]:
                del names[by]
        resource = Resource(_TOPIC, name)
        if resource in self._current("configs"):
            self.changed_configs[resource] = set(self._copy("configs").pop(resource))

    def _clear_elr(self, record: r.ClearElrRecord) -> None:
        names = [record.topic_name] if record.topic_name else list(self._current("topic_names").values())
        for name in names:
            topic_id = self._topic_id_of(name)
            assert topic_id is not None, f"there is no topic {name}"
            topic = self._changing(topic_id)
            for number, partition in enumerate(topic.partitions()):
                if partition.elr or partition.last_known_elr:
                    topic.changed[number] = partition._replace(elr=(), last_known_elr=())
                    self.changed_topics.setdefault(topic_id, set()).add(number)

    # Nodes

    def _register_broker(self, record: r.RegisterBrokerRecord) -> None:
        self._set_broker(
            BrokerRegistration(
                id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=_endpoints(record.end_points),
                features=_ranges(record.features),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                log_dirs=tuple(record.log_dirs),
                cordoned_log_dirs=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
            )
        )

    def _unregister_broker(self, record: r.UnregisterBrokerRecord) -> None:
        broker = self._copy("brokers").pop(record.broker_id)
        assert broker.epoch == record.broker_epoch, f"broker {broker.id} is at epoch {broker.epoch}, not {record.broker_epoch}"
        self.changed_brokers[record.broker_id] = None

    def _set_broker(self, broker: BrokerRegistration) -> None:
        self._copy("brokers")[broker.id] = broker
        self.changed_brokers[broker.id] = broker

    def _broker(self, broker_id: int, epoch: int) -> BrokerRegistration:
        broker: BrokerRegistration = self._current("brokers")[broker_id]
        assert broker.epoch == epoch, f"broker {broker_id} is at epoch {broker.epoch}, not {epoch}"
        return broker

    def _fence_broker(self, record: r.FenceBrokerRecord) -> None:
        self._set_broker(self._broker(record.id, record.epoch)._replace(fenced=True))

    def _unfence_broker(self, record: r.UnfenceBrokerRecord) -> None:
        self._set_broker(self._broker(record.id, record.epoch)._replace(fenced=False))

    def _broker_change(self, record: r.BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch)
        cordoned = record.cordoned_log_dirs
        self._set_broker(
            broker._replace(
                fenced=broker.fenced if record.fenced == 0 else record.fenced == 1,
                in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown == 1,
                log_dirs=tuple(record.log_dirs) or broker.log_dirs,
                cordoned_log_dirs=broker.cordoned_log_dirs if cordoned is None else tuple(cordoned),
            )
        )

    def _register_controller(self, record: r.RegisterControllerRecord) -> None:
        self._copy("controllers")[record.controller_id] = ControllerRegistration(
            record.controller_id,
            record.incarnation_id,
            _endpoints(record.end_points),
            _ranges(record.features),
            record.zk_migration_ready,
        )

    # Everything else

    def _config(self, record: r.ConfigRecord) -> None:
        resource = Resource(record.resource_type, record.resource_name)
        configs = self._copy("configs")
        values = dict(configs.get(resource, {}))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if values:
            configs[resource] = values
        else:
            configs.pop(resource, None)
        self.changed_configs.setdefault(resource, set()).add(record.name)

    def _feature(self, record: r.FeatureLevelRecord) -> None:
        if record.name == KRAFT_VERSION:
            return  # the quorum reads it in control records; it means nothing here
        self.changed_features.add(record.name)
        if record.feature_level == 0:
            self._copy("features").pop(record.name, None)
        else:
            self._copy("features")[record.name] = record.feature_level

    def _quota(self, record: r.ClientQuotaRecord) -> None:
        entity = tuple(sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda part: part[0]))
        quotas = self._copy("quotas")
        values = dict(quotas.get(entity, {}))
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        if values:
            quotas[entity] = values
        else:
            quotas.pop(entity, None)
        self.changed_quotas.add(entity)

    def _producer_ids(self, record: r.ProducerIdsRecord) -> None:
        assert record.next_producer_id > self._current("next_producer_id"), "a producer id is never handed out twice"
        self._copies["next_producer_id"] = record.next_producer_id

    def _acl(self, record: r.AccessControlEntryRecord) -> None:
        self._copy("acls")[record.id] = AclBinding(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )
        self.changed_acls.add(record.id)

    def _remove_acl(self, record: r.RemoveAccessControlEntryRecord) -> None:
        del self._copy("acls")[record.id]
        self.changed_acls.add(record.id)

    def _scram(self, record: r.UserScramCredentialRecord) -> None:
        credential = ScramCredential(bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations)
        self._copy("scram")[record.name, record.mechanism] = credential
        self.changed_scram.add((record.name, record.mechanism))

    def _remove_scram(self, record: r.RemoveUserScramCredentialRecord) -> None:
        del self._copy("scram")[record.name, record.mechanism]
        self.changed_scram.add((record.name, record.mechanism))

    def _token(self, record: r.DelegationTokenRecord) -> None:
        self._copy("delegation_tokens")[record.token_id] = DelegationToken(
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
            record.token_id,
        )
        self.changed_tokens.add(record.token_id)

    def _remove_token(self, record: r.RemoveDelegationTokenRecord) -> None:
        del self._copy("delegation_tokens")[record.token_id]
        self.changed_tokens.add(record.token_id)

    def _zk_migration(self, record: r.ZkMigrationStateRecord) -> None:
        self._copies["zk_migration_state"] = record.zk_migration_state

    def _nothing(self, record: StoredRecord) -> None:
        """Change nothing: transactions are the business of the loader and the controller."""


def replay(
    image: MetadataImage, records: Iterable[StoredRecord], *, offset: int = -1, epoch: int = 0, timestamp_ms: int = -1
) -> MetadataImage:
    """The image after these records; `offset` is that of the last, inclusive."""
    delta = Delta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)


def merge(partition: PartitionRegistration, change: r.PartitionChangeRecord) -> PartitionRegistration:
    """A partition after a change: its epoch goes up by one, its leader's only with a new leader.  Source: PartitionRegistration.merge."""

    def changed(new: list[Any] | None, old: tuple[Any, ...]) -> tuple[Any, ...]:
        return old if new is None else tuple(new)

    replicas = changed(change.replicas, partition.replicas)
    directories = partition.directories if change.directories is None else tuple(change.directories)
    if change.directories is None and change.replicas is not None:
        known = dict(zip(partition.replicas, partition.directories, strict=True))
        directories = tuple(known.get(replica, DIRECTORY_MIGRATING) for replica in replicas)
    assert len(directories) == len(replicas), f"{len(replicas)} replicas in {len(directories)} directories"
    is_new_leader = change.leader != UNCHANGED
    return PartitionRegistration(
        replicas=replicas,
        directories=directories,
        isr=changed(change.isr, partition.isr),
        removing_replicas=changed(change.removing_replicas, partition.removing_replicas),
        adding_replicas=changed(change.adding_replicas, partition.adding_replicas),
        elr=changed(change.eligible_leader_replicas, partition.elr),
        last_known_elr=changed(change.last_known_elr, partition.last_known_elr),
        leader=change.leader if is_new_leader else partition.leader,
        leader_recovery_state=partition.leader_recovery_state if change.leader_recovery_state < 0 else change.leader_recovery_state,
        leader_epoch=partition.leader_epoch + is_new_leader,
        partition_epoch=partition.partition_epoch + 1,
    )


def _endpoints(listed: list[r.BrokerEndpoint] | list[r.ControllerEndpoint]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(one.name, one.host, one.port, one.security_protocol) for one in listed)


def _ranges(listed: list[r.BrokerFeature] | list[r.ControllerFeature]) -> Mapping[str, VersionRange]:
    return {one.name: VersionRange(one.min_supported_version, one.max_supported_version) for one in listed}


def _differing(old: Mapping[K, V], new: Mapping[K, V]) -> set[K]:
    return {key for key in {**old, **new} if old.get(key) != new.get(key)}


_TOPIC: Final = 2

_REPLAYS: Final[dict[type[StoredRecord], Callable[[Delta, Any], None]]] = {
    r.RegisterBrokerRecord: Delta._register_broker,
    r.UnregisterBrokerRecord: Delta._unregister_broker,
    r.TopicRecord: Delta._topic,
    r.PartitionRecord: Delta._partition,
    r.ConfigRecord: Delta._config,
    r.PartitionChangeRecord: Delta._partition_change,
    r.FenceBrokerRecord: Delta._fence_broker,
    r.UnfenceBrokerRecord: Delta._unfence_broker,
    r.RemoveTopicRecord: Delta._remove_topic,
    r.DelegationTokenRecord: Delta._token,
    r.UserScramCredentialRecord: Delta._scram,
    r.FeatureLevelRecord: Delta._feature,
    r.ClientQuotaRecord: Delta._quota,
    r.ProducerIdsRecord: Delta._producer_ids,
    r.BrokerRegistrationChangeRecord: Delta._broker_change,
    r.AccessControlEntryRecord: Delta._acl,
    r.RemoveAccessControlEntryRecord: Delta._remove_acl,
    r.NoOpRecord: Delta._nothing,
    r.ZkMigrationStateRecord: Delta._zk_migration,
    r.RemoveUserScramCredentialRecord: Delta._remove_scram,
    r.BeginTransactionRecord: Delta._nothing,
    r.EndTransactionRecord: Delta._nothing,
    r.AbortTransactionRecord: Delta._nothing,
    r.RemoveDelegationTokenRecord: Delta._remove_token,
    r.RegisterControllerRecord: Delta._register_controller,
    r.ClearElrRecord: Delta._clear_elr,
}
