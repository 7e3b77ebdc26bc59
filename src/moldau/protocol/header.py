"""◇ The bytes before a body: request headers v1 and v2, response headers v0 and v1, and the frame's length.

    frame    = length:int32 header body                     length counts what follows it
    request  v1 = api_key:int16 api_version:int16 correlation_id:int32 client_id:nullable string      v2 = v1 tagged fields
    response v0 = correlation_id:int32                                                                v1 = v0 tagged fields

Flexible versions of an API have v2 and v1.  `client_id` keeps its two-byte length in v2, so that a broker can read the header of a
version it does not know.  An ApiVersions response always has v0, because the client does not know yet what the broker speaks.
Kafka 4.0 removed request header v0 together with ControlledShutdown.

Source: RequestHeader.json, ResponseHeader.json, ApiKeys.java; KIP-482, 511.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from moldau.protocol.compiler import decoder, encoder
from moldau.protocol.messages import REQUESTS
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.varint import read_unsigned
from moldau.protocol.wire import AnyResponse, DecodeError, EncodeError, Request, Response
from moldau.types import Part

NEVER_FLEXIBLE: Final = 0x8000
MAX_CLIENT_ID: Final = 0x7FFF
MAX_TAGS: Final = 127
"""The most tagged fields in a header.  Kafka defines none in requests and one in responses.

A frame has room for fifty million, and each would be a turn of a loop.
"""

_FIXED = struct.Struct(">hhih")
_LENGTH = struct.Struct(">i")
_REQUEST = struct.Struct(">ihhih")
_RESPONSE_V0 = struct.Struct(">ii")
_RESPONSE_V1 = struct.Struct(">iix")


class _FlexibleFrom(dict[int, int]):
    """The first flexible version by api key.  It is filled when a server asks first; a client never asks."""

    def __missing__(self, api_key: int) -> int:
        if not self:
            self.update({key: request.FLEXIBLE.start if request.FLEXIBLE else NEVER_FLEXIBLE for key, request in REQUESTS.items()})
        return self.get(api_key, NEVER_FLEXIBLE)


FLEXIBLE_FROM: Final = _FlexibleFrom()


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, memoryview]:  # hot: 1 µs
    """The header of a frame without its length, and the body behind it.  The caller checks whether it serves the version.

    Errors: DecodeError.
    """
    try:
        api_key, api_version, correlation_id, length = _FIXED.unpack_from(frame)
        position = 10
        client_id = None
        if length >= 0:
            position += length
            if position > len(frame):
                raise DecodeError("RequestHeader.client_id", f"{length} bytes are named and {len(frame) - 10} are left")
            client_id = str(frame[10:position], "utf-8", "replace")
        if api_version >= FLEXIBLE_FROM[api_key]:
            position = position + 1 if frame[position] == 0 else _skip_tags(frame, position, "RequestHeader")
    except (struct.error, IndexError) as error:
        raise DecodeError("RequestHeader", "the frame ends inside it") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), frame[position:]


def _skip_tags(frame: memoryview, position: int, what: str) -> int:
    """The position behind a header's tagged fields.  No such field is known, so none is kept."""
    try:
        count, position = read_unsigned(frame, position)
        if count > MAX_TAGS:
            raise DecodeError(what, f"{count} tagged fields are more than the {MAX_TAGS} allowed")
        for _ in range(count):
            _, position = read_unsigned(frame, position)
            size, position = read_unsigned(frame, position)
            position += size
            if position > len(frame):
                raise DecodeError(what, f"a tagged field of {size} bytes reaches behind the frame's end")
    except IndexError:
        raise
    except DecodeError:
        raise
    except ValueError as error:
        raise DecodeError(what, str(error)) from error
    return position


def encode_request(message: Request[Any], *, version: int, correlation_id: int, client_id: str | None) -> list[Part]:
    """A request as a whole frame.  Errors: EncodeError."""
    declared = type(message)
    raw = b"" if client_id is None else client_id.encode()
    if len(raw) > MAX_CLIENT_ID:
        raise EncodeError("RequestHeader.client_id", f"{len(raw)} bytes are more than the {MAX_CLIENT_ID} allowed")
    if version in declared.FLEXIBLE:
        raw += b"\0"
    parts = encoder(declared, version)(message)
    length = -1 if client_id is None else len(raw) - (version in declared.FLEXIBLE)
    head = _REQUEST.pack(10 + len(raw) + size_of(parts), declared.API_KEY, version, correlation_id, length) + raw
    return _behind(head, parts)


def encode_response(message: Response, *, version: int, correlation_id: int) -> list[Part]:  # hot: 0.7 µs and the body
    """A response as a whole frame.  Errors: EncodeError."""
    declared = type(message)
    parts = encoder(declared, version)(message)
    if version in declared.FLEXIBLE and declared.REQUEST is not ApiVersionsRequest:
        return _behind(_RESPONSE_V1.pack(5 + size_of(parts), correlation_id), parts)
    return _behind(_RESPONSE_V0.pack(4 + size_of(parts), correlation_id), parts)


def decode_response(request: type[Request[AnyResponse]], version: int, frame: memoryview) -> tuple[int, AnyResponse]:
    """The correlation id and the response of a frame without its length.  Errors: DecodeError."""
    try:
        (correlation_id,) = _LENGTH.unpack_from(frame)
        position = 4
        if version in request.FLEXIBLE and request is not ApiVersionsRequest:
            position = _skip_tags(frame, position, "ResponseHeader")
    except (struct.error, IndexError) as error:
        raise DecodeError("ResponseHeader", "the frame ends inside it") from error
    response: Any = decoder(request.RESPONSE, version)(frame[position:])
    return correlation_id, response


def size_of(parts: Sequence[Part]) -> int:
    return len(parts[0]) if len(parts) == 1 else sum(map(len, parts))


def _behind(head: bytes, parts: list[Part]) -> list[Part]:
    """The parts with `head` before them.  `head` is joined with the first part if that is plain bytes, which it nearly always is."""
    first = parts[0] if parts else b""
    if isinstance(first, bytes):
        parts[:1] = [head + first]
    else:
        parts.insert(0, head)
    return parts
