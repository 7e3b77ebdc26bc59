"""◇ UpdateRaftVoter: the request and its response."""

from uuid import UUID

from moldau.protocol.wire import Request, Response, array, int16, int32, message, nested, string, struct, uint16, uuid


@struct
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@struct
class KRaftVersionFeature:
    min_supported_version: int = int16()
    max_supported_version: int = int16()


@message(api_key=82, versions="0", flexible="0+", listeners=("controller",))
class UpdateRaftVoterRequest(Request["UpdateRaftVoterResponse"]):
    """Change a voter's endpoints and kraft.version range.  Sent by that voter to the KRaft leader."""

    cluster_id: str | None = string(nullable="0+")
    current_leader_epoch: int = int32()
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()
    listeners: list[Listener] = array(Listener)
    kraft_version_feature: KRaftVersionFeature = nested(KRaftVersionFeature)


@struct
class CurrentLeader:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)
    host: str = string(default="")
    port: int = int32(default=0)


@message(response_to=UpdateRaftVoterRequest)
class UpdateRaftVoterResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    current_leader: CurrentLeader = nested(CurrentLeader, tag=0, default=CurrentLeader())
