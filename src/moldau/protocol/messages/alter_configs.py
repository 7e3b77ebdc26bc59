"""◇ AlterConfigs: the request and its response."""

from moldau.protocol.wire import Request, Response, array, boolean, int8, int16, int32, message, string, struct


@struct
class AlterableConfig:
    name: str = string()
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(api_key=33, versions="0-2", flexible="2+", listeners=("broker", "controller"), most_elements=50_000)
class AlterConfigsRequest(Request["AlterConfigsResponse"]):
    """Replace all configs of resources by those given.  Sent by old admin tools; IncrementalAlterConfigs took its place."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()


@message(response_to=AlterConfigsRequest, echoes=("resources -> responses",))
class AlterConfigsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
