"""◇ The client's side of one connection as a bytes machine: requests out, responses matched to them, versions agreed upon.

    number, parts = correlation.request(message)
    number, response = correlation.response(frame)

A broker answers in the order of requests.  A response to another request than the oldest one means that the stream cannot be trusted any
more.  After `agree` took an ApiVersions response, requests use the newest version that both sides know.

Source: KIP-35, KIP-511.
"""

from collections import deque
from typing import Any, Final, NamedTuple

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.declared import FieldAbsent
from moldau.protocol.header import decode_response, encode_request
from moldau.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.protocol.messages.produce import ProduceRequest
from moldau.protocol.wire import DecodeError, Request, Response
from moldau.types import Part

MAX_CORRELATION_ID: Final = (1 << 31) - 1


class CorrelationError(Exception):
    """The peer's bytes are no answer to the requests in flight: the connection is of no more use."""


class _Waiting(NamedTuple):
    correlation_id: int
    request: type[Request[Any]]
    version: int


class Correlation:
    """The requests of one connection that wait for their responses."""

    def __init__(self, client_id: str | None) -> None:
        self.client_id = client_id
        self.peer_versions: dict[int, tuple[int, int]] = {}
        """The lowest and highest version by api key; empty until `agree`."""
        self.finalized_features: dict[str, int] = {}
        """The finalized level by feature, as of `agree`."""
        self._next_id = 0
        self._waiting: deque[_Waiting] = deque()

    @property
    def in_flight(self) -> int:
        return len(self._waiting)

    def request(self, message: Request[Any], version: int | None = None) -> tuple[int, list[Part]]:
        """A request as a whole frame, and the number that its response will bear.  Errors: KafkaError UNSUPPORTED_VERSION, EncodeError."""
        declared = type(message)
        if version is None:
            version = self.version_of(declared)
        correlation_id = self._next_id
        try:
            parts = encode_request(message, version=version, correlation_id=correlation_id, client_id=self.client_id)
        except FieldAbsent as error:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{error}; this broker serves {self._served(declared)}") from None
        self._next_id = 0 if correlation_id == MAX_CORRELATION_ID else correlation_id + 1
        if is_answered(message):
            self._waiting.append(_Waiting(correlation_id, declared, version))
        return correlation_id, parts

    def version_of(self, request: type[Request[Any]]) -> int:
        """The newest version that both sides know.  Errors: KafkaError UNSUPPORTED_VERSION."""
        ours = request.VERSIONS
        if not self.peer_versions:
            return ours[-1]
        lowest, highest = self.peer_versions.get(request.API_KEY, (0, -1))
        version = min(highest, ours[-1])
        if version < max(lowest, ours[0]):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the broker serves {self._served(request)}, versions {ours[0]} to {ours[-1]} are known here",
            )
        return version

    def _served(self, request: type[Request[Any]]) -> str:
        lowest, highest = self.peer_versions.get(request.API_KEY, (0, -1))
        return f"{f'versions {lowest} to {highest}' if highest >= 0 else 'no version'} of {request.__name__}"

    def agree(self, response: ApiVersionsResponse) -> None:
        self.peer_versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self.finalized_features = {feature.name: feature.max_version_level for feature in response.finalized_features}

    def response(self, frame: memoryview) -> tuple[int, Response]:
        """The response in a frame, and its request's number.  Errors: CorrelationError."""
        if not self._waiting:
            raise CorrelationError("a response came while no request was in flight")
        waiting = self._waiting.popleft()
        if int.from_bytes(frame[:4], "big", signed=True) != waiting.correlation_id:
            raise CorrelationError(f"a response came that is not the one of {waiting.request.__name__} {waiting.correlation_id}")
        version = waiting.version
        if waiting.request is ApiVersionsRequest and frame[4:6] == UNSUPPORTED:
            # A broker that does not know the version asked for answers in the oldest one.
            version = 0
        try:
            return decode_response(waiting.request, version, frame)
        except DecodeError as error:
            raise CorrelationError(f"a response cannot be read: {error}") from error


UNSUPPORTED: Final = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def is_answered(message: Request[Any]) -> bool:
    """Whether a response will come: true for every request but a produce with acks=0."""
    return not isinstance(message, ProduceRequest) or message.acks != 0
