"""◇ RemoveRaftVoter: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, int16, int32, message, string, uuid


@message(api_key=81, versions="0", flexible="0+", listeners=("controller", "broker"))
class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"]):
    """Remove a voter from the KRaft quorum.  Sent by admin tools."""

    cluster_id: str | None = string(nullable="0+")
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()


@message(response_to=RemoveRaftVoterRequest)
class RemoveRaftVoterResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
