"""◇ The life of brokers in the cluster: registered, fenced, unfenced, shutting down, unregistered; and where their partitions go meanwhile.

    register ─▶ fenced ─(caught up)─▶ unfenced ─(wants to stop)─▶ in controlled shutdown ─(leads nothing)─▶ fenced, may stop
                  ▲___________ no heartbeat for broker.session.timeout.ms ___│

`Sessions` is soft state: who was heard of when, how far each has read.  It begins anew with every active controller.
Source: ClusterControlManager, BrokerHeartbeatManager, ReplicationControlManager; KIP-631, 841, 966.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.features import METADATA_VERSION, MINIMUM_LEVEL, is_controller_registration_supported
from moldau.metadata.image import BrokerRegistration, MetadataImage, PartitionRegistration
from moldau.metadata.outcome import Outcome
from moldau.metadata.partition_change import Election, PartitionChange
from moldau.metadata.producer_ids import check_broker_epoch
from moldau.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from moldau.protocol.messages.broker_registration import Listener as BrokerListener
from moldau.protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from moldau.protocol.messages.controller_registration import Listener as ControllerListener
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from moldau.protocol.wire import StoredRecord
from moldau.types import NO_LEADER, RESERVED_UUIDS, uuid_to_text

FENCE: Final = 1
UNFENCE: Final = -1
SHUTTING_DOWN: Final = 1
SECURITY_PROTOCOLS: Final = range(4)
"""PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL: by Kafka's numbers."""
MOST_OF_ONE_KIND: Final = 1_000
"""Listeners, features or directories of a node: everybody is told of all of them, again and again."""


class State(Enum):
    """A broker as the controller deals with it."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "may stop now"


@dataclass(slots=True)
class Session:
    heard_ms: int
    metadata_offset: int = -1
    shutdown_offset: int = -1
    """From where on everybody knows that its leaderships have moved; -1 while it is not shutting down."""


@dataclass(slots=True)
class Sessions:
    """Who lives.  Times are of the steady clock."""

    timeout_ms: int
    by_broker: dict[int, Session] = field(default_factory=dict)

    def touch(self, broker_id: int, now_ms: int, metadata_offset: int = -1) -> Session:
        session = self.by_broker.setdefault(broker_id, Session(now_ms))
        session.heard_ms = now_ms
        session.metadata_offset = max(session.metadata_offset, metadata_offset)
        return session

    def is_valid(self, broker_id: int, now_ms: int) -> bool:
        session = self.by_broker.get(broker_id)
        return session is not None and now_ms - session.heard_ms < self.timeout_ms

    def forget(self, broker_id: int) -> None:
        self.by_broker.pop(broker_id, None)

    def adopt(self, brokers: Iterable[int], now_ms: int) -> None:
        """A new active controller gives everybody a whole session to be heard of."""
        for broker_id in brokers:
            self.touch(broker_id, now_ms)

    def overdue(self, image: MetadataImage, now_ms: int) -> list[int]:
        """Unfenced brokers that were silent too long."""
        return [one.id for one in image.alive_brokers() if not self.is_valid(one.id, now_ms)]

    def lowest_metadata_offset(self, image: MetadataImage) -> int:
        """How far every active broker has read."""
        offsets = [self.by_broker[one.id].metadata_offset for one in image.brokers.values() if one.is_active and one.id in self.by_broker]
        return min(offsets, default=(1 << 63) - 1)


# ---------------------------------------------------------------------- registering


def register_broker(
    image: MetadataImage,
    schema: ConfigSchema,
    request: BrokerRegistrationRequest,
    *,
    cluster_id: str,
    next_offset: int,
    is_session_valid: bool,
) -> Outcome[BrokerRegistrationResponse]:
    """A broker comes, fenced; its epoch is the offset of its record.

    Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, BROKER_ID_NOT_REGISTERED, INVALID_REGISTRATION, UNSUPPORTED_VERSION.
    """
    existing = image.brokers.get(request.broker_id)
    _check_registration(image, request, existing, cluster_id=cluster_id, is_session_valid=is_session_valid)
    is_same = existing is not None and existing.incarnation_id == request.incarnation_id
    records: list[StoredRecord] = []
    if existing is not None and not is_same:
        # Its clean stop told us its epoch; a broker that cannot name it lost what it had not synced, and its eligibility with it.
        if request.previous_broker_epoch != existing.epoch:
            records += _after_unclean_stop(image, schema, request.broker_id)
        else:
            records += _leaving(image, schema, request.broker_id)
    epoch = existing.epoch if existing is not None and is_same else next_offset + len(records)
    features = {one.name: one for one in request.features}
    listed = [
        BrokerFeature(name=one.name, min_supported_version=one.min_supported_version, max_supported_version=one.max_supported_version)
        for one in request.features
    ]
    if METADATA_VERSION not in features:
        listed.append(BrokerFeature(name=METADATA_VERSION, min_supported_version=MINIMUM_LEVEL, max_supported_version=MINIMUM_LEVEL))
    records.append(
        RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            broker_epoch=epoch,
            end_points=[
                BrokerEndpoint(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
                for one in request.listeners
            ],
            features=listed,
            rack=request.rack,
            fenced=existing.fenced if existing is not None and is_same else True,
            in_controlled_shutdown=existing.in_controlled_shutdown if existing is not None and is_same else False,
            log_dirs=list(request.log_dirs),
        )
    )
    return Outcome(BrokerRegistrationResponse(broker_epoch=epoch), records)


def _check_registration(
    image: MetadataImage,
    request: BrokerRegistrationRequest,
    existing: BrokerRegistration | None,
    *,
    cluster_id: str,
    is_session_valid: bool,
) -> None:
    if request.cluster_id != cluster_id:
        text = f"Expected cluster ID {cluster_id}, but got cluster ID {request.cluster_id}"
        raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID, text)
    if existing is not None and is_session_valid and existing.incarnation_id != request.incarnation_id:
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id.")
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    _check_counts(listeners=request.listeners, features=request.features, directories=request.log_dirs)
    _check_listeners(request.listeners)
    _check_log_dirs(image, request)
    offered = {one.name: one for one in request.features}
    for name, level in {**dict.fromkeys(offered.keys() - {METADATA_VERSION}, 0), **image.features}.items():
        feature = offered.get(name)
        if feature is None or not feature.min_supported_version <= level <= feature.max_supported_version:
            low, high = (0, 0) if feature is None else (feature.min_supported_version, feature.max_supported_version)
            text = (
                f"Unable to register because the broker does not support finalized version {level} of {name}. The broker wants a version "
                f"between {low} and {high}, inclusive."
            )
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, text)


def _check_counts(**lists: Sequence[object]) -> None:
    """Errors: INVALID_REGISTRATION."""
    for what, listed in lists.items():
        if len(listed) > MOST_OF_ONE_KIND:
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"{len(listed)} {what} are too many, {MOST_OF_ONE_KIND} may be")


def _check_listeners(listeners: Iterable[BrokerListener | ControllerListener]) -> None:
    """What Kafka cannot read back from the metadata log does not get into it.  Errors: INVALID_REGISTRATION."""
    for one in listeners:
        if not one.name or not one.host or not one.port or one.security_protocol not in SECURITY_PROTOCOLS:
            text = f"Invalid listener {one.name!r}: host {one.host!r}, port {one.port}, security protocol {one.security_protocol}"
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, text)


def _check_log_dirs(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    def refuse(text: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_REGISTRATION, text)

    if not request.log_dirs:
        raise refuse("No directories specified in request")
    if any(one.int < RESERVED_UUIDS for one in request.log_dirs):
        raise refuse("Reserved directory ID in request")
    if len(set(request.log_dirs)) < len(request.log_dirs):
        raise refuse("Duplicate directory ID in request")
    for broker in image.brokers.values():
        for directory in request.log_dirs:
            if broker.id != request.broker_id and directory in broker.log_dirs:
                raise refuse(f"Broker {broker.id} is already registered with directory {uuid_to_text(directory)}")


def register_controller(image: MetadataImage, request: ControllerRegistrationRequest) -> Outcome[ControllerRegistrationResponse]:
    """A controller tells how it can be reached and what it supports; a cluster of before Kafka 3.7 has no record for that.

    Errors: INVALID_REGISTRATION.
    """
    _check_counts(listeners=request.listeners, features=request.features)
    _check_listeners(request.listeners)
    if not is_controller_registration_supported(image.metadata_version):
        return Outcome(ControllerRegistrationResponse(error_code=0, error_message=None))
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
            for one in request.listeners
        ],
        features=[
            ControllerFeature(
                name=one.name, min_supported_version=one.min_supported_version, max_supported_version=one.max_supported_version
            )
            for one in request.features
        ],
    )
    return Outcome(ControllerRegistrationResponse(error_code=0, error_message=None), [record])


def unregister_broker(image: MetadataImage, schema: ConfigSchema, request: UnregisterBrokerRequest) -> Outcome[UnregisterBrokerResponse]:
    """Forget a broker for good.  Errors: BROKER_ID_NOT_REGISTERED."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        text = f"Broker ID {request.broker_id} is not currently registered"
        return Outcome(UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=text))
    records = _leaving(image, schema, broker.id, with_eligible=True)
    records.append(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    return Outcome(UnregisterBrokerResponse(), records)


# ---------------------------------------------------------------------- heartbeats


def broker_heartbeat(
    image: MetadataImage, schema: ConfigSchema, sessions: Sessions, request: BrokerHeartbeatRequest, *, now_ms: int, next_offset: int
) -> Outcome[BrokerHeartbeatResponse]:
    """A broker lives and says what it wants.  Errors: STALE_BROKER_EPOCH.

    `next_offset` is where the records would go: from there on everybody knows of a shutdown.
    """
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    broker = image.brokers[request.broker_id]
    session = sessions.touch(broker.id, now_ms, request.current_metadata_offset)
    state = _state_of(broker)
    is_caught_up = request.current_metadata_offset >= broker.epoch
    wanted = _next_state(image, sessions, session, request, state, is_caught_up=is_caught_up)
    records: list[StoredRecord] = []
    if wanted is not state:
        if wanted is State.UNFENCED:
            records += unfence(image, schema, broker)
            session.shutdown_offset = -1
        elif wanted is State.CONTROLLED_SHUTDOWN:
            records += _shut_down(image, schema, broker)
            session.shutdown_offset = next_offset + len(records)
        elif not broker.fenced:
            records += fence(image, schema, broker.id)
    records += _offline_directories(image, schema, broker, request.offline_log_dirs)
    response = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up,
        is_fenced=wanted in (State.FENCED, State.SHUTDOWN_NOW),
        should_shut_down=wanted is State.SHUTDOWN_NOW,
    )
    return Outcome(response, records)


def _state_of(broker: BrokerRegistration) -> State:
    if broker.fenced:
        return State.FENCED
    return State.CONTROLLED_SHUTDOWN if broker.in_controlled_shutdown else State.UNFENCED


def _next_state(
    image: MetadataImage,
    sessions: Sessions,
    session: Session,
    request: BrokerHeartbeatRequest,
    state: State,
    *,
    is_caught_up: bool,
) -> State:
    match state:
        case State.FENCED:
            if request.want_shut_down:
                return State.SHUTDOWN_NOW
            return State.UNFENCED if not request.want_fence and is_caught_up else State.FENCED
        case State.UNFENCED:
            if request.want_fence:
                return State.SHUTDOWN_NOW if request.want_shut_down else State.FENCED
            if request.want_shut_down:
                return State.CONTROLLED_SHUTDOWN if _leads_any(image, request.broker_id) else State.SHUTDOWN_NOW
            return State.UNFENCED
        case _:
            if _leads_any(image, request.broker_id) or session.shutdown_offset > sessions.lowest_metadata_offset(image):
                return State.CONTROLLED_SHUTDOWN
            return State.SHUTDOWN_NOW


def _leads_any(image: MetadataImage, broker_id: int) -> bool:
    return any(partition.leader == broker_id for topic in image.topics.values() for partition in topic.partitions)


# ---------------------------------------------------------------------- what it means for partitions


def fence(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> list[StoredRecord]:
    """It may neither lead nor be in sync."""
    broker = image.brokers[broker_id]
    change = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker.epoch, fenced=FENCE)
    return [*_leaving(image, schema, broker_id), change]


def unfence(image: MetadataImage, schema: ConfigSchema, broker: BrokerRegistration) -> list[StoredRecord]:
    """It may lead again, and leads what has no leader."""

    def may_lead(one: int) -> bool:
        return one == broker.id or _is_active(image, one)

    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=UNFENCE)
    leaderless = _partitions(image, lambda partition: partition.leader == NO_LEADER)
    return [change, *_changes(image, schema, leaderless, may_lead)]


def _shut_down(image: MetadataImage, schema: ConfigSchema, broker: BrokerRegistration) -> list[StoredRecord]:
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=SHUTTING_DOWN)
    return [change, *_leaving(image, schema, broker.id)]


def _leaving(image: MetadataImage, schema: ConfigSchema, broker_id: int, *, with_eligible: bool = False) -> list[StoredRecord]:
    """Out of every in-sync set; `with_eligible` out of the eligible ones too."""

    def may_lead(one: int) -> bool:
        return one != broker_id and _is_active(image, one)

    def concerns(partition: PartitionRegistration) -> bool:
        return broker_id in partition.isr or (with_eligible and broker_id in partition.elr)

    lost = (broker_id,) if with_eligible else ()
    return _changes(image, schema, _partitions(image, concerns), may_lead, without=broker_id, lost_their_log=lost)


def _after_unclean_stop(image: MetadataImage, schema: ConfigSchema, broker_id: int) -> list[StoredRecord]:
    """It may have lost what the page cache held: in sync and eligible no more."""
    return _leaving(image, schema, broker_id, with_eligible=True)


def _offline_directories(image: MetadataImage, schema: ConfigSchema, broker: BrokerRegistration, offline: list[UUID]) -> list[StoredRecord]:
    """Log directories that failed: their replicas are in sync no more."""
    newly = [one for one in broker.log_dirs if one in offline]
    if not newly:
        return []

    def may_lead(one: int) -> bool:
        return one != broker.id and _is_active(image, one)

    def concerns(partition: PartitionRegistration) -> bool:
        return broker.id in partition.isr and partition.directory_of(broker.id) in newly

    changes = _changes(image, schema, _partitions(image, concerns), may_lead, without=broker.id)
    online = [one for one in broker.log_dirs if one not in newly]
    return [*changes, BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=online)]


def _is_active(image: MetadataImage, broker_id: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.is_active


Place = tuple[str, UUID, int, PartitionRegistration]


def _partitions(image: MetadataImage, concerns: Callable[[PartitionRegistration], bool]) -> Iterator[Place]:
    for topic in image.topics.values():
        for number, partition in enumerate(topic.partitions):
            if concerns(partition):
                yield topic.name, topic.id, number, partition


def _changes(
    image: MetadataImage,
    schema: ConfigSchema,
    places: Iterable[Place],
    may_lead: Callable[[int], bool],
    *,
    without: int = NO_LEADER,
    lost_their_log: tuple[int, ...] = (),
) -> list[StoredRecord]:
    records: list[StoredRecord] = []
    for name, topic_id, number, partition in places:
        record = PartitionChange(
            topic_id,
            number,
            partition,
            may_lead,
            min(schema.min_insync_replicas(image, name), len(partition.replicas)),
            image.is_elr_enabled,
            isr=[one for one in partition.isr if one != without],
            lost_their_log=lost_their_log,
            election=Election.UNCLEAN if schema.is_unclean_election_enabled(image, name) else Election.ONLINE,
        ).record()
        if record is not None:
            records.append(record)
    return records
