"""Every message and stored record, in every version: what is written is what is read, and damaged bytes are refused."""

import importlib
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.protocol import consumer_protocol
from moldau.protocol.compiler import decode, encode, encode_bytes
from moldau.protocol.messages import MODULES, REQUESTS
from moldau.protocol.wire import DecodeError, Message, Request, Response, StoredRecord
from proof.arbitrary import arbitrary

ROOMS = ("metadata.records", "raft.records", "coordinator.group.records", "coordinator.group.streams.records")
ROOMS += ("coordinator.share.records", "coordinator.txn.records")


def declared_in(module: ModuleType) -> list[type[Message]]:
    abstract = (Message, Request, Response, StoredRecord)
    found = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, Message) and one not in abstract]
    return [one for one in found if one.__module__ == module.__name__]


MODULES_WITH_MESSAGES = [importlib.import_module(f"moldau.protocol.messages.{name}") for name in MODULES]
MODULES_WITH_RECORDS = [importlib.import_module(f"moldau.{room}") for room in (*ROOMS, "storage.tiered.records")] + [consumer_protocol]
DECLARED = [one for module in (*MODULES_WITH_MESSAGES, *MODULES_WITH_RECORDS) for one in declared_in(module)]

# A message has many versions and many fields, so it gets a twenty-fifth of the profile's examples, each in every version.
few = settings(max_examples=max(2, settings.default.max_examples // 25))


def test_all_are_here() -> None:
    assert len(REQUESTS) == 89
    assert sum(len(request.VERSIONS) for request in REQUESTS.values()) == 302
    records = [one for one in DECLARED if issubclass(one, StoredRecord)]
    assert len(DECLARED) - len(records) == 2 * 89
    assert len(records) == 26 + 44 + 2 + 4 + 5 + 4 + 2 + 1


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.__name__)
@given(data=st.data())
@few
def test_what_is_written_is_what_is_read(declared: type[Message], data: st.DataObject) -> None:
    for version in declared.VERSIONS:
        message = data.draw(arbitrary(declared, version))
        written = encode_bytes(message, version)
        read = decode(declared, version, written)
        assert read == message
        assert encode_bytes(read, version) == written
        assert b"".join(encode(message, version)) == written
        with pytest.raises(DecodeError):
            decode(declared, version, written + b"\0")
        if written:
            cut = data.draw(st.integers(0, len(written) - 1))
            with pytest.raises(DecodeError):
                decode(declared, version, written[:cut])


@pytest.mark.parametrize("declared", DECLARED, ids=lambda declared: declared.__name__)
@given(data=st.data())
@few
def test_any_bytes_are_read_or_refused(declared: type[Message], data: st.DataObject) -> None:
    """Damage anywhere ends in a message or a DecodeError, and in nothing else.  A message that was read can be written."""
    for version in (declared.VERSIONS[0], declared.VERSIONS[-1]):
        damaged = bytearray(encode_bytes(data.draw(arbitrary(declared, version)), version))
        for _ in range(3):
            if damaged:
                damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        try:
            read = decode(declared, version, damaged)
        except DecodeError:
            continue
        encode_bytes(read, version)
