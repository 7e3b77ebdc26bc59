"""◇ BrokerRegistration: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, boolean, int16, int32, int64, message, string, struct, uint16, uuid


@struct
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()
    security_protocol: int = int16()


@struct
class Feature:
    name: str = string()
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(api_key=62, versions="0-4", flexible="0+", listeners=("controller",))
class BrokerRegistrationRequest(Request["BrokerRegistrationResponse"]):
    """Register a broker: listeners, features, log directories.  Sent by brokers to the active controller at start-up.

    Source: KIP-858, 966.
    """

    broker_id: int = int32()
    cluster_id: str = string()
    incarnation_id: UUID = uuid()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)
    rack: str | None = string(nullable="0+")
    is_migrating_zk_broker: bool = boolean("1+", default=False)
    log_dirs: list[UUID] = array(uuid, "2+", default=[], ignorable=True)
    previous_broker_epoch: int = int64("3+", default=-1, ignorable=True)


@message(response_to=BrokerRegistrationRequest)
class BrokerRegistrationResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    broker_epoch: int = int64(default=-1)
