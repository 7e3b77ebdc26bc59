"""◇ IncrementalAlterConfigs: the request and its response."""

from moldau.protocol.wire import Request, Response, array, boolean, int8, int16, int32, message, string, struct


@struct
class AlterableConfig:
    name: str = string()
    config_operation: int = int8(about="0 set, 1 delete, 2 append, 3 subtract.")
    value: str | None = string(nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


@message(api_key=44, versions="0-1", flexible="1+", listeners=("broker", "controller"), most_elements=50_000)
class IncrementalAlterConfigsRequest(Request["IncrementalAlterConfigsResponse"]):
    """Set, delete, append to and subtract from single configs of resources.  Sent by admin tools."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@struct
class AlterConfigsResourceResponse:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()


@message(response_to=IncrementalAlterConfigsRequest, echoes=("resources -> responses",))
class IncrementalAlterConfigsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
