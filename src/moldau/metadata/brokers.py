"""◇ Brokers and controllers as the cluster knows them: registered, registered anew, forgotten.

`heartbeats.py` has a broker's life between its registrations, `departures.py` the effect on partitions.
Source: ClusterControlManager, ControllerRegistrationManager; KIP-631, 919, 966.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.departures import leave
from moldau.metadata.features import METADATA_VERSION, MINIMUM_LEVEL, is_controller_registration_supported
from moldau.metadata.image import BrokerRegistration, MetadataImage
from moldau.metadata.outcome import Outcome
from moldau.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from moldau.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from moldau.protocol.messages.broker_registration import Listener as BrokerListener
from moldau.protocol.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from moldau.protocol.messages.controller_registration import Listener as ControllerListener
from moldau.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from moldau.protocol.wire import StoredRecord
from moldau.types import RESERVED_UUIDS, uuid_to_text

SECURITY_PROTOCOLS: Final = range(4)
"""PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL: by Kafka's numbers."""
MOST_OF_ONE_KIND: Final = 1_000
"""The most listeners, features or directories of a node: every node gets all of them, again and again."""


def register_broker(
    image: MetadataImage,
    schema: ConfigSchema,
    request: BrokerRegistrationRequest,
    *,
    cluster_id: str,
    next_offset: int,
    is_session_valid: bool,
) -> Outcome[BrokerRegistrationResponse]:
    """Register a broker, fenced.  Its epoch is the offset of its record.

    Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, BROKER_ID_NOT_REGISTERED, INVALID_REGISTRATION, UNSUPPORTED_VERSION.
    """
    existing = image.brokers.get(request.broker_id)
    _check_registration(image, request, existing, cluster_id=cluster_id, is_session_valid=is_session_valid)
    is_same = existing is not None and existing.incarnation_id == request.incarnation_id
    records: list[StoredRecord] = []
    if not is_same:
        # A clean stop leaves the broker its epoch.  A broker that cannot name its epoch lost the records that it had not synced, and with
        # them its eligibility.
        is_clean = existing is not None and request.previous_broker_epoch == existing.epoch
        lost_a_directory = existing is None or _may_have_lost_a_directory(existing, request, is_clean=is_clean)
        left = leave(image, schema, request.broker_id, lost_its_log=not is_clean, lost_a_directory=lost_a_directory)
        if not left.is_complete:
            return Outcome(BrokerRegistrationResponse(), left.records, is_atomic=False, is_piece=True)
        records = left.records
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
    return Outcome(BrokerRegistrationResponse(broker_epoch=epoch), records, is_atomic=False)


def _may_have_lost_a_directory(existing: BrokerRegistration, request: BrokerRegistrationRequest, *, is_clean: bool) -> bool:
    """Tell whether a broker comes back without a log directory of its former life.

    A directory that failed in that life is in its registration no more.  So after an unclean stop a directory that was not there is as bad
    as one that is missing: it may stand in for the failed one.
    """
    before, now = set(existing.log_dirs), set(request.log_dirs)
    return not before <= now if is_clean else before != now


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
    """Check the numbers of listeners, features and directories.  Errors: INVALID_REGISTRATION."""
    for what, listed in lists.items():
        if len(listed) > MOST_OF_ONE_KIND:
            raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"{len(listed)} {what} are too many, {MOST_OF_ONE_KIND} may be")


def _check_listeners(listeners: Iterable[BrokerListener | ControllerListener]) -> None:
    """Check listeners: one that Kafka cannot read back must not get into the metadata log.  Errors: INVALID_REGISTRATION."""
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
    """Register a controller's addresses and features.  A cluster with a metadata.version before Kafka 3.7 has no record for that.

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
    left = leave(image, schema, broker.id, lost_its_log=True)
    if left.is_complete:
        left.records.append(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    return Outcome(UnregisterBrokerResponse(error_message=""), left.records, is_atomic=False, is_piece=not left.is_complete)
