"""◇ ListGroups: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int16, int32, message, string, struct


@message(api_key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Request["ListGroupsResponse"]):
    """List the groups a broker coordinates.  Sent by admin tools to every broker.  Source: KIP-518, 848."""

    states_filter: list[str] = array(string, "4+", default=[])
    types_filter: list[str] = array(string, "5+", default=[])


@struct
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string("4+", default="", ignorable=True)
    group_type: str = string("5+", default="", ignorable=True)


@message(response_to=ListGroupsRequest)
class ListGroupsResponse(Response):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16(default=0)
    groups: list[ListedGroup] = array(ListedGroup)
