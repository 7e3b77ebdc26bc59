"""◇ FindCoordinator: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int8, int16, int32, message, string, struct


@message(api_key=10, versions="0-6", flexible="3+", most_elements=50_000)
class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    """Ask which broker coordinates a group, transactional id or share partition.  Sent by clients and brokers.

    Source: KIP-699, 890, 932.
    """

    key: str = string("0-3", default="")
    key_type: int = int8("1+", default=0, about="0 group, 1 transaction, 2 share.")
    coordinator_keys: list[str] = array(string, "4+", default=[])


@struct
class Coordinator:
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@message(response_to=FindCoordinatorRequest, echoes=("coordinator_keys -> coordinators",))
class FindCoordinatorResponse(Response):
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    error_code: int = int16("0-3", default=0, ignorable=True)
    error_message: str | None = string("1-3", nullable="0+", default=None, ignorable=True)
    node_id: int = int32("0-3", default=0, ignorable=True)
    host: str = string("0-3", default="")
    port: int = int32("0-3", default=0, ignorable=True)
    coordinators: list[Coordinator] = array(Coordinator, "4+", default=[])
