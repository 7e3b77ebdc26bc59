"""● A `RaftDriver` behind a listener of its own, which serves a controller's APIs of consensus and nothing else of a server."""

from collections.abc import Callable
from typing import Any, Final

from moldau.errors import ErrorCode, KafkaError
from moldau.net.connection import Connection, InvalidFrame, Reply, ReplyOrLater
from moldau.net.listener import Listener
from moldau.net.transport import Network
from moldau.protocol.compiler import request_decoder
from moldau.protocol.header import decode_request_header, encode_response
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest
from moldau.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from moldau.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from moldau.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.fetch_snapshot import FetchSnapshotRequest
from moldau.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from moldau.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from moldau.protocol.messages.vote import VoteRequest
from moldau.protocol.wire import Request, Response
from moldau.raft.driver import RaftDriver

SERVED: Final[dict[int, type[Request[Any]]]] = {
    request.API_KEY: request
    for request in (
        ApiVersionsRequest,
        VoteRequest,
        BeginQuorumEpochRequest,
        EndQuorumEpochRequest,
        FetchRequest,
        FetchSnapshotRequest,
        AddRaftVoterRequest,
        RemoveRaftVoterRequest,
        UpdateRaftVoterRequest,
    )
}


class Door:
    """Serves the driver that it was given last.  Before it has a driver it closes connections."""

    def __init__(self, network: Network) -> None:
        self.driver: RaftDriver | None = None
        self.listener = Listener(network, self._dispatch, name="CONTROLLER")

    async def open(self, host: str, port: int) -> int:
        await self.listener.start(host, port)
        return self.listener.port

    async def close(self) -> None:
        await self.listener.stop(grace_s=0)

    def _dispatch(self, connection: Connection, frame: memoryview) -> ReplyOrLater:
        header, body = decode_request_header(frame)
        declared = SERVED.get(header.api_key)
        if declared is None or self.driver is None:
            raise InvalidFrame(f"api key {header.api_key} is not served")
        request = request_decoder(declared, header.api_version)(body)

        def encoded(response: Response) -> Reply:
            return encode_response(response, version=header.api_version, correlation_id=header.correlation_id)

        if isinstance(request, ApiVersionsRequest):
            return encoded(versions())
        return self._answer(request, header.api_version, encoded)

    async def _answer(self, request: Any, version: int, encoded: Callable[[Response], Reply]) -> Reply:
        assert self.driver is not None
        try:
            if isinstance(request, AddRaftVoterRequest | RemoveRaftVoterRequest | UpdateRaftVoterRequest):
                return encoded(await self.driver.change_voters(request))
            return encoded(await self.driver.handle(request, version))
        except KafkaError as error:
            return encoded(request.refused(error.code, error.detail))


def versions() -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=key, min_version=one.VERSIONS[0], max_version=one.VERSIONS[-1]) for key, one in SERVED.items()]
    features = [SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)]
    return ApiVersionsResponse(error_code=ErrorCode.NONE, api_keys=keys, supported_features=features)
