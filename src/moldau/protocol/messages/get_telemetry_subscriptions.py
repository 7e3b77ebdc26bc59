"""◇ GetTelemetrySubscriptions: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, boolean, int8, int16, int32, message, string, uuid


@message(api_key=71, versions="0", flexible="0+")
class GetTelemetrySubscriptionsRequest(Request["GetTelemetrySubscriptionsResponse"]):
    """Ask which client metrics to push, and how often.  Sent by clients with telemetry on."""

    client_instance_id: UUID = uuid()


@message(response_to=GetTelemetrySubscriptionsRequest)
class GetTelemetrySubscriptionsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    client_instance_id: UUID = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = boolean()
    requested_metrics: list[str] = array(string)
