"""◇ AddRaftVoter: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, boolean, int16, int32, message, string, struct, uint16, uuid


@struct
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@message(api_key=80, versions="0-1", flexible="0+", listeners=("controller", "broker"))
class AddRaftVoterRequest(Request["AddRaftVoterResponse"]):
    """Add a voter to the KRaft quorum.  Sent by admin tools and by controllers that join by themselves."""

    cluster_id: str | None = string(nullable="0+")
    timeout_ms: int = int32()
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()
    listeners: list[Listener] = array(Listener)
    ack_when_committed: bool = boolean("1+", default=True)


@message(response_to=AddRaftVoterRequest)
class AddRaftVoterResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
