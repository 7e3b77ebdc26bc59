"""Our bytes against kafka-python: it reads what we write and writes the same again, in every version it knows."""

import pkgutil
from importlib import import_module
from typing import Any

import kafka.protocol
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.api_message import ApiMessage

from moldau.protocol.compiler import encode_bytes
from moldau.protocol.messages import REQUESTS
from moldau.protocol.wire import Message
from proof.arbitrary import arbitrary

OURS: dict[str, type[Message]] = {one.__name__: one for request in REQUESTS.values() for one in (request, request.RESPONSE)}


def theirs() -> list[tuple[type[Message], int, Any]]:
    """Every message and version that both know.  kafka-python keeps older forms of what it declares anew under `old`."""
    modules = [name for _, name, _ in pkgutil.walk_packages(kafka.protocol.__path__, "kafka.protocol.") if ".old" not in name]
    known = {
        name: one
        for module in modules
        for name, one in vars(import_module(module)).items()
        if isinstance(one, type) and issubclass(one, ApiMessage) and name in OURS
    }
    return [(OURS[name], version, one) for name, one in known.items() for version in OURS[name].VERSIONS if version <= one.max_version]


PAIRS = theirs()
TRIED = [pair for pair in PAIRS if settings.default.max_examples > 50 or pair[1] in (pair[0].FLEXIBLE.start, pair[0].VERSIONS[-1])]
"""At a developer's desk only the first flexible and the last version of each message are tried."""


def test_it_knows_many() -> None:
    assert len({ours for ours, _, _ in PAIRS}) >= 90


@pytest.mark.parametrize(("ours", "version", "other"), TRIED, ids=lambda value: getattr(value, "__name__", value))
@given(data=st.data())
@settings(max_examples=max(1, settings.default.max_examples // 50))
def test_kafka_python_reads_and_writes_our_bytes(ours: type[Message], version: int, other: Any, data: st.DataObject) -> None:
    written = encode_bytes(data.draw(arbitrary(ours, version, unknown_tags=False)), version)
    seen = other.decode(written, version=version)
    seen._header = None  # a message that was read without a header has none, and cannot be written until it says so
    assert seen.encode(version=version) == written
