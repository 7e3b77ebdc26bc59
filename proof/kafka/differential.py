"""● Sends the same raw requests to Apache Kafka and to us, and compares the answers field for field.

    difference = Differential(ours=("127.0.0.1", 9092), theirs=kafka.address)
    difference.ask(CreateTopicsRequest(…), version=7, ignoring={"topics.topic_id"})

Raises `Differs` with every field that is not the same.  A request comes with the fields that may differ, each a path of field names without
indexes.  A connection that is closed instead of an answer counts as an answer, too.
"""

import socket
import struct
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any, Final, TypeAlias, cast

from moldau.protocol.header import decode_response, encode_request
from moldau.protocol.wire import Request, Response, Struct

Address: TypeAlias = tuple[str, int]

PATIENCE_S: Final = 60.0
SETTLES_WITHIN_S: Final = 60.0
BETWEEN_TRIES_S: Final = 0.05
_LENGTH: Final = struct.Struct(">i")


class Differs(AssertionError):
    """The answers are not the same.  The text lists the fields."""


class NoAnswer:
    """The broker closed the connection, or nothing came."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __repr__(self) -> str:
        return f"NoAnswer({self.how})"


class RawClient:
    """A client with one connection to a broker, which it opens anew after it was closed."""

    def __init__(self, address: Address) -> None:
        self.address: Final = address
        self._socket: socket.socket | None = None
        self._correlation_id = 0

    def ask(self, request: Request[Any], version: int) -> Response | NoAnswer:
        self.send((request, version))
        return self.receive(type(request), version)

    def send(self, *requests: tuple[Request[Any], int]) -> None:
        """Send several requests with their versions in one packet.  Call `receive` once for each."""
        packet = b""
        for request, version in requests:
            self._correlation_id += 1
            parts = encode_request(request, version=version, correlation_id=self._correlation_id, client_id="differential")
            packet += b"".join(cast(list[bytes], parts))
        if self._socket is None:
            self._socket = socket.create_connection(self.address, PATIENCE_S)
        with suppress(ConnectionError):  # `receive` reports it
            self._socket.sendall(packet)

    def receive(self, request: type[Request[Any]], version: int) -> Response | NoAnswer:
        try:
            size = _LENGTH.unpack(self._receive(4))[0]
            return decode_response(request, version, memoryview(self._receive(size)))[1]  # type: ignore[no-any-return]
        except TimeoutError:
            self.close()
            return NoAnswer("nothing came")
        except (ConnectionError, EOFError):
            self.close()
            return NoAnswer("closed")

    def _receive(self, count: int) -> bytes:
        assert self._socket is not None
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Differential:
    """Asks Kafka and us the same."""

    def __init__(self, *, ours: Address, theirs: Address) -> None:
        self.ours: Final = RawClient(ours)
        self.theirs: Final = RawClient(theirs)

    def ask(
        self,
        request: Request[Any],
        version: int,
        *,
        ignoring: Collection[str] = (),
        unordered: bool = True,
        settling: bool = False,
    ) -> tuple[Any, Any]:
        """Our answer and theirs.  With `unordered` lists of structs are compared as sets are.  Errors: Differs.

        With `settling` a request is sent again for a while if answers differ: Kafka acknowledges a config change before it can be read.
        """
        deadline = time.monotonic() + SETTLES_WITHIN_S
        while True:
            ours, theirs = self.both(request, version)
            found = list(differences(ours, theirs, ignoring=ignoring, unordered=unordered))
            if not (found and settling and time.monotonic() < deadline):
                break
            time.sleep(BETWEEN_TRIES_S)
        if found:
            raise Differs(f"{request!r} version {version}:\n" + "\n".join(found))
        return ours, theirs

    def both(self, request: Request[Any], version: int) -> tuple[Any, Any]:
        """Our answer and theirs, not compared."""
        return self.ours.ask(request, version), self.theirs.ask(request, version)

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


def differences(ours: object, theirs: object, *, ignoring: Collection[str] = (), unordered: bool = True, path: str = "") -> Iterator[str]:
    """One line for each field that is not the same."""
    if path in ignoring:
        return
    if isinstance(ours, Struct) and isinstance(theirs, Struct) and type(ours).FIELDS is type(theirs).FIELDS:
        for field in ours.FIELDS:
            below = f"{path}.{field.name}" if path else field.name
            mine, other = getattr(ours, field.name), getattr(theirs, field.name)
            yield from differences(mine, other, ignoring=ignoring, unordered=unordered, path=below)
    elif isinstance(ours, list) and isinstance(theirs, list):
        yield from _list_differences(ours, theirs, ignoring=ignoring, unordered=unordered, path=path)
    elif isinstance(ours, NoAnswer) and isinstance(theirs, NoAnswer):
        return
    elif ours != theirs:
        yield f"  {path}: ours {ours!r}, theirs {theirs!r}"


def _list_differences(ours: list[Any], theirs: list[Any], *, ignoring: Collection[str], unordered: bool, path: str) -> Iterator[str]:
    if unordered and all(isinstance(one, Struct) for one in (*ours, *theirs)):
        mine, others = {_key(one): one for one in ours}, {_key(one): one for one in theirs}
        if len(mine) == len(ours) and len(others) == len(theirs):
            for key in sorted(mine.keys() - others.keys()):
                yield f"  {path}: only ours has {mine[key]!r}"
            for key in sorted(others.keys() - mine.keys()):
                yield f"  {path}: only theirs has {others[key]!r}"
            for key in sorted(mine.keys() & others.keys()):
                found = differences(mine[key], others[key], ignoring=ignoring, unordered=unordered, path=path)
                yield from (f"  [{key}]{line}" for line in found)
            return
        ours, theirs = sorted(ours, key=repr), sorted(theirs, key=repr)
    if len(ours) != len(theirs):
        yield f"  {path}: ours {ours!r}, theirs {theirs!r}"
        return
    for mine_one, other in zip(ours, theirs, strict=True):
        yield from differences(mine_one, other, ignoring=ignoring, unordered=unordered, path=path)


_KEYS: Final = (
    "name",
    "topic_name",
    "resource_name",
    "topic",
    "feature",
    "partition_index",
    "partition_id",
    "partition",
    "index",
    "batch_index",
    "broker_id",
    "node_id",
    "replica_id",
    "group_id",
    "member_id",
)


def _key(one: Struct) -> str:
    """The name of a struct in a list: the first of these fields that the struct has, with its type if it has one."""
    names = {field.name for field in one.FIELDS}
    found = [repr(getattr(one, name)) for name in _KEYS if name in names][:1]
    kinds = [repr(getattr(one, name)) for name in ("resource_type", "source") if name in names]
    return "/".join(found + kinds) or repr(one)
