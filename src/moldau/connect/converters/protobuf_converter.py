"""◇ Protobuf with its schemas in a registry.  Source: io.confluent.connect.protobuf.ProtobufConverter, as Confluent documents it.

Behind the schema's id stand the indexes of the message within its file, as varints: how many, then each.  One zero stands for the first
message.  The registry is sent and asked for files as FileDescriptorProto in base64, which it takes as it takes text.
"""

import base64
import binascii
from typing import Any, Final

from google.protobuf import message_factory, wrappers_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from moldau.connect.converters import protobuf_types as types
from moldau.connect.converters.protobuf_schema import Forms, connect_schema, is_wrapper
from moldau.connect.converters.protobuf_values import Values, checked
from moldau.connect.converters.protobuf_writing import Writer
from moldau.connect.data import Schema, Type
from moldau.connect.errors import DataError
from moldau.connect.registry.cache import Schemas
from moldau.connect.registry.client import Registered
from moldau.connect.registry.framing import framed, unframed
from moldau.connect.registry.subjects import Subject

CACHED: Final = 1000
FIRST_MESSAGE: Final = b"\x00"


class ProtobufConverter:
    """See the module.  Errors of its methods: DataError; Absent and RetriableError, of the registry."""

    def __init__(self, schemas: Schemas, subject: Subject, forms: Forms) -> None:
        self._schemas = schemas
        self._subject = subject
        self._forms = forms
        self._values = Values(forms)
        self._texts: dict[Schema, str] = {}
        self._pools: dict[Registered, tuple[Any, str]] = {}
        self._read: dict[tuple[int, tuple[int, ...]], tuple[Any, Schema]] = {}

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            raise DataError("Protobuf needs a schema, and the value has none")
        if schema.type is not Type.STRUCT:
            return self._primitive_to_bytes(topic, schema, value)
        schema_id, registered = self._schemas.id_of(self._subject(topic, schema.name), Registered("PROTOBUF", self._text(schema)))
        pool, name = self._pool(registered)
        message_type = pool.FindFileByName(name).message_types_by_name
        made = _class(next(iter(message_type.values())))()
        self._values.fill(made, schema, value)
        return framed(schema_id, FIRST_MESSAGE + made.SerializeToString(deterministic=True))

    def _primitive_to_bytes(self, topic: str, schema: Schema, value: Any) -> bytes:
        """A value that is no struct, in the message that wraps it."""
        if schema.type not in types.WRAPPERS or schema.name in types.LOGICAL:
            raise DataError(f"Protobuf has messages at its root, and the value is a {schema.name or schema.type}")
        name = types.WRAPPERS[schema.type]
        file = wrappers_pb2.DESCRIPTOR
        text = base64.b64encode(file.serialized_pb).decode()
        schema_id, _ = self._schemas.id_of(self._subject(topic, schema.name), Registered("PROTOBUF", text))
        place = [one.name for one in file.message_types_by_name.values()].index(name)
        made = getattr(wrappers_pb2, name)(value=checked(schema, value))
        return framed(schema_id, _indexes((place,)) + made.SerializeToString(deterministic=True))

    def to_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        schema_id, body = unframed(data)
        indexes, at = _read_indexes(body)
        message_type, schema = self._of_id(schema_id, indexes)
        try:
            found = _class(message_type).FromString(body[at:])
        except DecodeError as error:
            raise DataError(f"the bytes do not fit the Protobuf schema {schema_id}: {error}") from error
        if self._forms.raw_primitives and is_wrapper(message_type.full_name):
            return schema, self._values.read(message_type.fields_by_name["value"], schema, found.value)
        return schema, self._values.struct(schema, found)

    # ------------------------------------------------------------ schemas

    def _text(self, schema: Schema) -> str:
        def written() -> str:
            return base64.b64encode(Writer(self._forms).file(schema).SerializeToString(deterministic=True)).decode()

        try:
            if schema not in self._texts:
                if len(self._texts) >= CACHED:
                    self._texts.clear()
                self._texts[schema] = written()
            return self._texts[schema]
        except TypeError:  # a default that cannot be hashed, such as a list
            return written()

    def _pool(self, registered: Registered) -> tuple[Any, str]:
        """A pool with the schema and the files that it imports, and the name of the schema's file.  Errors: DataError."""
        if registered not in self._pools:
            file = _file(registered.text)
            name = file.name or "default.proto"
            try:
                imported = {name: _file(text) for name, text in registered.imported}
                pool = types.pool_of({**imported, **({} if name in types.KNOWN else {name: file})})
                pool.FindFileByName(name)
            except (TypeError, KeyError) as error:
                raise DataError(f"the Protobuf schema cannot be used: {error}") from error
            if len(self._pools) >= CACHED:
                self._pools.clear()
            self._pools[registered] = pool, name
        return self._pools[registered]

    def _of_id(self, schema_id: int, indexes: tuple[int, ...]) -> tuple[Any, Schema]:
        key = schema_id, indexes
        if key not in self._read:
            registered = self._schemas.schema(schema_id)
            if registered.kind != "PROTOBUF":
                raise DataError(f"schema {schema_id} is of the kind {registered.kind}, not PROTOBUF")
            pool, name = self._pool(registered)
            messages = list(pool.FindFileByName(name).message_types_by_name.values())
            try:
                found = messages[indexes[0]]
                for index in indexes[1:]:
                    found = found.nested_types[index]
            except IndexError as error:
                raise DataError(f"schema {schema_id} has no message {list(indexes)}") from error
            if self._forms.raw_primitives and is_wrapper(found.full_name):
                self._read[key] = found, Schema(types.WRAPPED[found.name])
            else:
                self._read[key] = found, connect_schema(found, self._forms)
        return self._read[key]


def _file(text: str) -> FileDescriptorProto:
    """Errors: DataError."""
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError) as error:
        raise DataError("the registry does not give Protobuf schemas in the form `serialized`") from error


def _class(message_type: Any) -> Any:
    return message_factory.GetMessageClass(message_type)


def _varint(number: int) -> bytes:
    """Zigzag, as Avro's numbers."""
    found, left = bytearray(), number << 1
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def _indexes(indexes: tuple[int, ...]) -> bytes:
    return FIRST_MESSAGE if indexes == (0,) else b"".join(map(_varint, (len(indexes), *indexes)))


def _read_indexes(body: bytes) -> tuple[tuple[int, ...], int]:
    """The indexes, and where the message begins.  Errors: DataError."""
    at = 0

    def number() -> int:
        nonlocal at
        found = shift = 0
        while at < len(body) and shift < 35:
            byte = body[at]
            at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (found >> 1) ^ -(found & 1)
            shift += 7
        raise DataError("the indexes of a Protobuf message do not end")

    count = number()
    if count == 0:
        return (0,), at
    if not 0 < count <= len(body):
        raise DataError(f"a Protobuf message cannot have {count} indexes")
    found = tuple(number() for _ in range(count))
    if min(found) < 0:
        raise DataError("an index of a Protobuf message is negative")
    return found, at
