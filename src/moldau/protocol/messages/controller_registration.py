"""◇ ControllerRegistration: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, boolean, int16, int32, message, string, struct, uint16, uuid


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


@message(api_key=70, versions="0", flexible="0+", listeners=("controller",))
class ControllerRegistrationRequest(Request["ControllerRegistrationResponse"]):
    """Register a controller: listeners and features.  Sent by controllers to the active one."""

    controller_id: int = int32()
    incarnation_id: UUID = uuid()
    zk_migration_ready: bool = boolean()
    listeners: list[Listener] = array(Listener)
    features: list[Feature] = array(Feature)


@message(response_to=ControllerRegistrationRequest)
class ControllerRegistrationResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
