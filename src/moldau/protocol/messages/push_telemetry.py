"""◇ PushTelemetry: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, boolean, bytes_, int8, int16, int32, message, uuid


@message(api_key=72, versions="0", flexible="0+")
class PushTelemetryRequest(Request["PushTelemetryResponse"]):
    """Hand in client metrics.  Sent by clients with telemetry on."""

    client_instance_id: UUID = uuid()
    subscription_id: int = int32()
    terminating: bool = boolean()
    compression_type: int = int8()
    metrics: bytes = bytes_()


@message(response_to=PushTelemetryRequest)
class PushTelemetryResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
