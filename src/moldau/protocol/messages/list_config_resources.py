"""◇ ListConfigResources: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int8, int16, int32, message, string, struct


@message(api_key=74, versions="0-1", flexible="0+")
class ListConfigResourcesRequest(Request["ListConfigResourcesResponse"]):
    """List the resources that have configs, by type.  Sent by admin tools.  Source: KIP-1142."""

    resource_types: list[int] = array(int8, "1+", default=[])


@struct
class ConfigResource:
    resource_name: str = string()
    resource_type: int = int8("1+", default=16, ignorable=True)


@message(response_to=ListConfigResourcesRequest)
class ListConfigResourcesResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    config_resources: list[ConfigResource] = array(ConfigResource)
