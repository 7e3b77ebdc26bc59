"""◇ DescribeAcls: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int8, int16, int32, message, string, struct


@message(api_key=29, versions="1-3", flexible="2+", listeners=("broker", "controller"))
class DescribeAclsRequest(Request["DescribeAclsResponse"]):
    """List the access control entries that match a filter.  Sent by admin tools."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


@struct
class AclDescription:
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()


@struct
class DescribeAclsResource:
    resource_type: int = int8()
    resource_name: str = string()
    pattern_type: int = int8(default=3)
    acls: list[AclDescription] = array(AclDescription)


@message(response_to=DescribeAclsRequest)
class DescribeAclsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
