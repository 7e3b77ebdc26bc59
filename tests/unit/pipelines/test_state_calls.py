"""Many state calls at once, over a socket to a stand-in for the JVM that answers as the JVM does: one request after the other."""

import socket
import struct
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pyspark.sql.streaming.proto.StateMessage_pb2 as messages
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.map_state_client import MapStateClient
from pyspark.sql.streaming.stateful_processor import MapState
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient
from pyspark.sql.types import LongType, StringType, StructType

from moldau.pipelines import state_calls
from moldau.pipelines.state_calls import get_many, put_many, remove_many

KEY = StructType().add("key", StringType())
VALUE = StructType().add("text", StringType()).add("number", LongType())


class Jvm:
    """The state of one grouping key, behind a socket."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.requests = 0
        self.refused_at = 0
        self.here, self.there = socket.socketpair()
        self.thread = Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        with self.there, self.there.makefile("rwb") as file:
            while len(head := file.read(8)) == 8:
                request = messages.StateRequest()
                request.ParseFromString(file.read(struct.unpack("!ii", head)[1]))
                answer = self.answer(request.stateVariableRequest.mapStateCall).SerializeToString()
                file.write(struct.pack("!i", len(answer)) + answer)
                file.flush()

    def answer(self, call: Any) -> Any:
        self.requests += 1
        if self.requests == self.refused_at:
            return messages.StateResponse(statusCode=1, errorMessage="no such state")
        if call.HasField("getValue"):
            return messages.StateResponse(statusCode=0, value=self.values.get(call.getValue.userKey, b""))
        if call.HasField("updateValue"):
            self.values[call.updateValue.userKey] = call.updateValue.value
        else:
            self.values.pop(call.removeKey.userKey, None)
        return messages.StateResponse(statusCode=0)


@pytest.fixture
def jvm() -> Iterator[Jvm]:
    jvm = Jvm()
    yield jvm
    jvm.here.shutdown(socket.SHUT_RDWR)  # a close waits for the file that `state` made of the socket
    jvm.here.close()
    jvm.thread.join(10)


@pytest.fixture
def state(jvm: Jvm) -> MapState:
    api = StatefulProcessorApiClient.__new__(StatefulProcessorApiClient)
    api.sockfile = jvm.here.makefile("rwb", 65536)
    api.pickleSer = CPickleSerializer()
    return MapState(MapStateClient(api, KEY, VALUE), "packed")


def test_answers_are_those_of_single_calls(jvm: Jvm, state: MapState) -> None:
    put_many(state, {(str(number),): (f"text {number}", number) for number in range(1_000)})
    assert jvm.requests == len(jvm.values) == 1_000
    found = get_many(state, [(str(number),) for number in range(990, 1_010)])
    assert found == [(f"text {number}", number) for number in range(990, 1_000)] + [None] * 10
    assert [state.getValue((str(number),)) for number in range(990, 1_010)] == found
    state.updateValue(("999",), ("other", 7))
    remove_many(state, [(str(number),) for number in range(999)])
    assert get_many(state, [("998",), ("999",)]) == [None, ("other", 7)]
    assert len(jvm.values) == 1


def test_many_large_values_do_not_fill_the_sockets(jvm: Jvm, state: MapState) -> None:
    large = {(str(number),): ("x" * 200_000, number) for number in range(300)}
    put_many(state, large)
    assert get_many(state, list(large)) == list(large.values())


def test_long_keys_are_asked_for_in_parts(jvm: Jvm, state: MapState, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [(str(number) * 1_000,) for number in range(100)]
    put_many(state, dict.fromkeys(keys, ("", 1)))
    taken: list[int] = []
    take = state_calls._Gathered.take
    monkeypatch.setattr(state_calls._Gathered, "take", lambda self: (taken.append(self.size), take(self))[1])
    assert get_many(state, keys) == [("", 1)] * 100
    assert max(taken) < 2 * state_calls.MOST_ASKED_BYTES


def test_a_refusal_is_raised(jvm: Jvm, state: MapState) -> None:
    jvm.refused_at = 3
    with pytest.raises(PySparkRuntimeError, match="no such state"):
        get_many(state, [(str(number),) for number in range(10)])


def test_nothing_is_asked_for_no_keys(jvm: Jvm, state: MapState) -> None:
    assert get_many(state, []) == []
    put_many(state, {})
    remove_many(state, [])
    assert jvm.requests == 0
