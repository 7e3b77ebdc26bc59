"""◇ CreateAcls: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int8, int16, int32, message, string, struct


@struct
class AclCreation:
    resource_type: int = int8()
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@message(api_key=30, versions="1-3", flexible="2+", listeners=("broker", "controller"), most_elements=50_000)
class CreateAclsRequest(Request["CreateAclsResponse"]):
    """Add access control entries.  Sent by admin tools."""

    creations: list[AclCreation] = array(AclCreation)


@struct
class AclCreationResult:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@message(response_to=CreateAclsRequest, echoes=("creations -> results",))
class CreateAclsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    results: list[AclCreationResult] = array(AclCreationResult)
