"""● Many calls to one MapState of Spark at once: all requests are sent, then all answers are read.

    get_many(state, keys)  →  values          put_many(state, {key: value})          remove_many(state, keys)

A call of PySpark's MapState waits for the JVM's answer, and the next call begins after that: two processes wake each other for every key.
The JVM answers requests in order, one after the other, so requests need not wait for answers.  Where a state is not PySpark's own, such as
that of `TwsTester`, each call waits.  Keys and values are tuples of str and int.

Source: PySpark's map_state_client.py and stateful_processor_api_client.py (the messages are the same).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.errors import PySparkRuntimeError
from pyspark.sql.streaming.stateful_processor import MapState

Key = tuple[Any, ...]
Value = tuple[Any, ...]
MOST_REQUESTS: Final = 256
"""Answers of so many writes fit into a socket's buffer, so the JVM never waits for us while we wait for it."""
MOST_ASKED_BYTES: Final = 32 * 1024
"""Requests of reads are small, answers may be large.  So many bytes fit into a socket's buffer while the JVM waits with an answer."""


def get_many(state: MapState, keys: Sequence[Key]) -> list[Value | None]:
    """The value of each key, None where there is none.  Errors: PySparkRuntimeError."""
    wire = _Wire.of(state)
    if wire is None:
        return [state.getValue(key) for key in keys]
    answers = wire.asked({"getValue": wire.messages.GetValue(userKey=wire.packed(key))} for key in keys)
    return [tuple(wire.unpacked(answer)) if answer else None for answer in answers]


def put_many(state: MapState, values: Mapping[Key, Value]) -> None:
    """Errors: PySparkRuntimeError."""
    wire = _Wire.of(state)
    if wire is None:
        for key, value in values.items():
            state.updateValue(key, value)
        return
    update = wire.messages.UpdateValue
    wire.asked({"updateValue": update(userKey=wire.packed(key), value=wire.packed(value))} for key, value in values.items())


def remove_many(state: MapState, keys: Iterable[Key]) -> None:
    """Errors: PySparkRuntimeError."""
    wire = _Wire.of(state)
    if wire is None:
        for key in keys:
            state.removeKey(key)
        return
    wire.asked({"removeKey": wire.messages.RemoveKey(userKey=wire.packed(key))} for key in keys)


class _Gathered:
    """A file that keeps what is written to it until it is taken."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0

    def write(self, part: bytes) -> None:
        self.parts.append(part)
        self.size += len(part)

    def flush(self) -> None:
        pass

    def take(self) -> bytes:
        parts, self.parts, self.size = self.parts, [], 0
        return b"".join(parts)


class _Wire:
    """The connection to the JVM's state behind a MapState."""

    def __init__(self, name: str, api: Any) -> None:
        import pyspark.sql.streaming.proto.StateMessage_pb2 as messages

        self.messages: Any = messages
        self.packed: Callable[[Key | Value], bytes] = api.pickleSer.dumps
        self.unpacked: Callable[[bytes], Value] = api.pickleSer.loads
        self._name = name
        self._api = api

    @classmethod
    def of(cls, state: MapState) -> "_Wire | None":
        """None for a state that has no connection, or another one than we know."""
        client = getattr(state, "_mapStateClient", None)
        api = getattr(client, "_stateful_processor_api_client", None)
        known = all(hasattr(api, name) for name in ("sockfile", "pickleSer", "_send_proto_message", "_receive_proto_message"))
        return cls(state._stateName, api) if known else None

    def asked(self, calls: Iterable[Mapping[str, Any]]) -> list[bytes]:
        """The answers to the calls, in order.  Errors: PySparkRuntimeError."""
        answers: list[bytes] = []
        for count in self._sent(calls):
            for _ in range(count):
                status, error, answer = self._api._receive_proto_message()
                if status != 0:
                    raise PySparkRuntimeError(f"state {self._name}: {error or f'status {status}'}")
                answers.append(answer)
        return answers

    def _sent(self, calls: Iterable[Mapping[str, Any]]) -> Iterator[int]:
        """Send requests; yields the number of answers that are due."""
        gathered, count = _Gathered(), 0
        for call in calls:
            self._gather(gathered, call)
            count += 1
            if count == MOST_REQUESTS or gathered.size >= MOST_ASKED_BYTES:
                yield self._flushed(gathered, count)
                count = 0
        if count:
            yield self._flushed(gathered, count)

    def _gather(self, gathered: _Gathered, call: Mapping[str, Any]) -> None:
        """PySpark's own code frames the message; it writes to `gathered` instead of the connection."""
        of_state = self.messages.StateVariableRequest(mapStateCall=self.messages.MapStateCall(stateName=self._name, **call))
        file, self._api.sockfile = self._api.sockfile, gathered
        try:
            self._api._send_proto_message(self.messages.StateRequest(stateVariableRequest=of_state).SerializeToString())
        finally:
            self._api.sockfile = file

    def _flushed(self, gathered: _Gathered, count: int) -> int:
        self._api.sockfile.write(gathered.take())
        self._api.sockfile.flush()
        return count
