"""◇ The few bytes in front of a stored record's fields, which name its type and version.

    internal topics   key = type:int16 fields        value = version:int16 fields      (a null value is a tombstone)
    framed            1:uvarint type:uvarint version:uvarint fields                    (metadata log, remote log metadata)
    embedded          version:int16 fields                                             (classic assignments, forwarded principals)

Each room declares its records with the words of `wire` and lists them in a `KeyedRecords` or `FramedRecords`, with which a log is replayed.
Decoding raises DecodeError; a type or version that is not declared is an error too, except where a method says otherwise.

Source: CoordinatorRecordSerde.java, AbstractApiMessageSerde.java.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from moldau.protocol.compiler import coordinator_record_decoder, decode, encode_bytes, encoder
from moldau.protocol.decoding import FAILURES
from moldau.protocol.encoding import has_records
from moldau.protocol.varint import read_unsigned, write_unsigned
from moldau.protocol.wire import DecodeError, StoredRecord

R = TypeVar("R", bound=StoredRecord)
Data: TypeAlias = bytes | bytearray | memoryview

FRAME_VERSION: Final = 1

_INT16 = struct.Struct(">h")


def encode_versioned(record: StoredRecord, version: int) -> bytes:
    """The version as int16, then the fields."""
    return _WRITERS[type(record), version, version](record)


class _Writers(dict[tuple[type[StoredRecord], int, int], Callable[[StoredRecord], bytes]]):
    """(class, version, prefix) → writes the prefix as int16, then the fields."""

    def __missing__(self, key: tuple[type[StoredRecord], int, int]) -> Callable[[StoredRecord], bytes]:
        declared, version, prefix = key
        assert not has_records(declared, version), f"{declared.__name__} would be written in more than one part"
        head, encode = _INT16.pack(prefix), encoder(declared, version)
        made = self[key] = lambda record: head + encode(record)[0]  # type: ignore[operator]
        return made


_WRITERS: Final = _Writers()


def decode_versioned(declared: type[R], data: Data) -> R:
    version, body = _prefixed(declared.__name__, data)
    return decode(declared, _declared(declared, version), body)


def decode_newer_too(declared: type[R], data: Data) -> R:
    """Read a message; a version above the highest known is read as that one.  Members of classic groups read each other's bytes so."""
    version, body = _prefixed(declared.__name__, data)
    return decode(declared, _declared(declared, min(version, declared.VERSIONS[-1])), body)


def _prefixed(what: str, data: Data) -> tuple[int, memoryview]:
    view = memoryview(data)
    if len(view) < 2:
        raise DecodeError(what, f"{len(view)} bytes cannot hold the int16 that says what it is")
    return _INT16.unpack_from(view)[0], view[2:]


def _declared(declared: type[StoredRecord], version: int) -> int:
    if version not in declared.VERSIONS:
        known = f"{declared.VERSIONS[0]} to {declared.VERSIONS[-1]}"
        raise DecodeError(declared.__name__, f"version {version} is unknown here, {known} are not")
    return version


class KeyedRecords:
    """The records of an internal topic: pairs of key and value with one type number."""

    def __init__(self, *pairs: tuple[type[StoredRecord], type[StoredRecord]]) -> None:
        self.keys: Mapping[int, type[StoredRecord]] = {_number(key): key for key, _ in pairs}
        self.values: Mapping[int, type[StoredRecord]] = {_number(value): value for _, value in pairs}
        assert self.keys.keys() == self.values.keys() and len(self.keys) == len(pairs), "a type number is missing or taken twice"

    def encode_key(self, key: StoredRecord) -> bytes:
        declared = type(key)
        number = _number(declared)
        assert self.keys.get(number) is declared, f"{declared.__name__} is no key of this topic"
        return _WRITERS[declared, 0, number](key)

    def encode_value(self, value: StoredRecord, version: int | None = None) -> bytes:
        """A value's bytes, in the highest version if none is given."""
        return encode_versioned(value, type(value).VERSIONS[-1] if version is None else version)

    def decode(self, key: Data, value: Data | None) -> tuple[StoredRecord, StoredRecord | None] | None:
        """The key and the value.  None for an unknown type, which a newer coordinator may have written.  Errors: DecodeError."""
        number, body = _prefixed("key", key)
        if number not in self.keys:
            return None
        decoded = coordinator_record_decoder(self.keys[number], 0)(body)
        if value is None:
            return decoded, None
        declared = self.values[number]
        version, body = _prefixed(declared.__name__, value)
        return decoded, coordinator_record_decoder(declared, _declared(declared, version))(body)


class FramedRecords:
    """Records of a log without keys, each in a frame that names its type and version."""

    def __init__(self, *declared: type[StoredRecord]) -> None:
        self.types: Mapping[int, type[StoredRecord]] = {_number(one): one for one in declared}
        assert len(self.types) == len(declared), "a type number is taken twice"

    def encode(self, record: StoredRecord, version: int | None = None) -> bytes:
        """A record's bytes, in the highest version if none is given."""
        declared = type(record)
        assert self.types[_number(declared)] is declared, f"{declared.__name__} is no record of this log"
        if version is None:
            version = declared.VERSIONS[-1]
        return _frame(FRAME_VERSION, _number(declared), version) + encode_bytes(record, version)

    def decode(self, data: Data) -> Any:
        view = memoryview(data)
        try:
            frame, position = read_unsigned(view, 0)
            number, position = read_unsigned(view, position)
            version, position = read_unsigned(view, position)
        except FAILURES as error:
            raise DecodeError("frame", "the bytes end inside it" if isinstance(error, IndexError) else str(error)) from None
        if frame != FRAME_VERSION:
            raise DecodeError("frame", f"frame version {frame} is unknown here, only {FRAME_VERSION} is not")
        if number not in self.types:
            raise DecodeError("frame", f"record type {number} is unknown here")
        declared = self.types[number]
        return decode(declared, _declared(declared, version), view[position:])


def _frame(*numbers: int) -> bytes:
    return b"".join(map(write_unsigned, numbers))


def _number(declared: type[StoredRecord]) -> int:
    number = declared.RECORD_TYPE
    assert number is not None, f"{declared.__name__} has no type number"
    return number
