"""◇ The wire format of requests that change voters.  They are about the one log, and name no topic.

Source: RaftUtil.java; KIP-853.
"""

from typing import Any, Final, TypeAlias

from moldau.errors import ErrorCode
from moldau.protocol.messages import add_raft_voter, remove_raft_voter, update_raft_voter
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.wire import Request, Response
from moldau.raft.messages import AddVoter, AskVersions, ChangeAnswer, EpochAnswer, RaftAnswer, RemoveVoter, UpdateVoter, VersionsAnswer
from moldau.raft.voters import Address, ReplicaKey, Voter
from moldau.types import NO_LEADER
from moldau.version import __version__

VoterRequest: TypeAlias = (
    add_raft_voter.AddRaftVoterRequest | remove_raft_voter.RemoveRaftVoterRequest | update_raft_voter.UpdateRaftVoterRequest
)

KRAFT_VERSION: Final = "kraft.version"
MAX_LISTENERS: Final = 64


def voter_request_of(message: AddVoter | RemoveVoter | UpdateVoter | AskVersions, cluster_id: str) -> Request[Any]:
    match message:
        case AskVersions():
            return ApiVersionsRequest(client_software_name="moldau", client_software_version=__version__)
        case AddVoter(voter, timeout_ms, waits_for_commit):
            return add_raft_voter.AddRaftVoterRequest(
                cluster_id=cluster_id,
                timeout_ms=timeout_ms,
                voter_id=voter.id,
                voter_directory_id=voter.directory_id,
                listeners=[add_raft_voter.Listener(name=one.name, host=one.host, port=one.port) for one in voter.addresses],
                ack_when_committed=waits_for_commit,
            )
        case RemoveVoter(key):
            return remove_raft_voter.RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=key.id, voter_directory_id=key.directory_id)
        case UpdateVoter(epoch, voter):
            return update_raft_voter.UpdateRaftVoterRequest(
                cluster_id=cluster_id,
                current_leader_epoch=epoch,
                voter_id=voter.id,
                voter_directory_id=voter.directory_id,
                listeners=[update_raft_voter.Listener(name=one.name, host=one.host, port=one.port) for one in voter.addresses],
                kraft_version_feature=update_raft_voter.KRaftVersionFeature(
                    min_supported_version=voter.min_kraft_version, max_supported_version=voter.max_kraft_version
                ),
            )


def parse_voter_request(request: VoterRequest, *, cluster_id: str) -> AddVoter | RemoveVoter | UpdateVoter | ChangeAnswer:
    """The message of a request, or the reason to refuse it: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST."""
    if request.cluster_id is not None and cluster_id and request.cluster_id != cluster_id:
        return ChangeAnswer(ErrorCode.INCONSISTENT_CLUSTER_ID)
    if isinstance(request, remove_raft_voter.RemoveRaftVoterRequest):
        return RemoveVoter(ReplicaKey(request.voter_id, request.voter_directory_id))
    if len(request.listeners) > MAX_LISTENERS:
        return ChangeAnswer(ErrorCode.INVALID_REQUEST, f"{len(request.listeners)} listeners are more than the {MAX_LISTENERS} allowed.")
    addresses = tuple(Address(one.name, one.host, one.port) for one in request.listeners)
    if isinstance(request, add_raft_voter.AddRaftVoterRequest):
        return AddVoter(Voter(request.voter_id, request.voter_directory_id, addresses), request.timeout_ms, request.ack_when_committed)
    speaks = request.kraft_version_feature
    voter = Voter(request.voter_id, request.voter_directory_id, addresses, speaks.min_supported_version, speaks.max_supported_version)
    return UpdateVoter(request.current_leader_epoch, voter)


def voter_response_to(request: VoterRequest, answer: RaftAnswer) -> Response:
    detail = answer.detail if isinstance(answer, ChangeAnswer) else None
    match request:
        case add_raft_voter.AddRaftVoterRequest():
            return add_raft_voter.AddRaftVoterResponse(error_code=answer.error, error_message=detail)
        case remove_raft_voter.RemoveRaftVoterRequest():
            return remove_raft_voter.RemoveRaftVoterResponse(error_code=answer.error, error_message=detail)
        case update_raft_voter.UpdateRaftVoterRequest():
            return update_raft_voter.UpdateRaftVoterResponse(error_code=answer.error, current_leader=_leader(answer))


def _leader(answer: RaftAnswer) -> update_raft_voter.CurrentLeader:
    if not isinstance(answer, EpochAnswer):
        return update_raft_voter.CurrentLeader()
    host, port = answer.leader_at or ("", 0)
    return update_raft_voter.CurrentLeader(leader_id=answer.leader_id, leader_epoch=answer.epoch, host=host, port=port)


def parse_voter_response(response: Response) -> RaftAnswer | None:
    """The answer in a response; None for one of another kind."""
    match response:
        case add_raft_voter.AddRaftVoterResponse() | remove_raft_voter.RemoveRaftVoterResponse():
            return ChangeAnswer(ErrorCode.of(response.error_code), response.error_message)
        case update_raft_voter.UpdateRaftVoterResponse():
            leader = response.current_leader
            return EpochAnswer(ErrorCode.of(response.error_code), leader.leader_epoch, max(leader.leader_id, NO_LEADER))
        case ApiVersionsResponse():
            found = (one for one in response.supported_features if one.name == KRAFT_VERSION)
            speaks = next(found, None)
            lowest, highest = (0, 0) if speaks is None else (speaks.min_version, speaks.max_version)
            return VersionsAnswer(ErrorCode.of(response.error_code), lowest, highest)
        case _:
            return None
