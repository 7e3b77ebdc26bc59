"""◇ DeleteGroups: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int16, int32, message, string, struct


@message(api_key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    """Delete empty groups with their offsets.  Sent by admin tools to the group coordinator."""

    groups_names: list[str] = array(string)


@struct
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16(default=0)


@message(response_to=DeleteGroupsRequest, echoes=("groups_names -> results",))
class DeleteGroupsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
