"""◇ Avro with its schemas in a registry.  Source: io.confluent.connect.avro.AvroConverter, as Confluent documents it."""

import io
import json
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException

from moldau.connect.converters.avro_binary import Branch, branch, parsed, place_of
from moldau.connect.converters.avro_schema import UNION, Writer, connect_schema, is_plain_map
from moldau.connect.data import Schema, Struct, Type, to_logical, to_primitive
from moldau.connect.errors import DataError
from moldau.connect.registry.cache import Schemas
from moldau.connect.registry.client import Registered
from moldau.connect.registry.framing import framed, unframed
from moldau.connect.registry.subjects import Subject

CACHED: Final = 1000
OF_SCHEMALESS: Final = {str: Type.STRING, bool: Type.BOOLEAN, int: Type.INT64, float: Type.FLOAT64, bytes: Type.BYTES}


class AvroConverter:
    """See the module.  Errors of its methods: DataError; Absent and RetriableError, of the registry."""

    def __init__(self, schemas: Schemas, subject: Subject) -> None:
        self._schemas = schemas
        self._subject = subject
        self._texts: dict[Schema, str] = {}
        self._parsed: dict[Registered, Any] = {}
        self._read: dict[int, tuple[Any, Schema]] = {}

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if schema is None:
            schema = _inferred(value)
        schema_id, registered = self._schemas.id_of(self._subject(topic, schema.name), Registered("AVRO", self._text(schema)))
        out = io.BytesIO()
        try:
            fastavro.schemaless_writer(out, self._parse(registered), to_avro(schema, value))
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError, SchemaParseException) as error:
            raise DataError(f"the value does not fit its Avro schema: {error}") from error
        return framed(schema_id, out.getvalue())

    def to_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        schema_id, body = unframed(data)
        avro, schema = self._of_id(schema_id)
        try:
            found = fastavro.schemaless_reader(io.BytesIO(body), avro, None)
        except (ValueError, TypeError, EOFError, IndexError, KeyError, UnicodeDecodeError, StopIteration) as error:
            raise DataError(f"the bytes do not fit the Avro schema {schema_id}: {error}") from error
        return schema, from_avro(schema, found)

    def _text(self, schema: Schema) -> str:
        try:
            if schema not in self._texts:
                if len(self._texts) >= CACHED:
                    self._texts.clear()
                self._texts[schema] = _written(schema)
            return self._texts[schema]
        except TypeError:  # a default that cannot be hashed, such as a list
            return _written(schema)

    def _parse(self, registered: Registered) -> Any:
        if registered not in self._parsed:
            if len(self._parsed) >= CACHED:
                self._parsed.clear()
            self._parsed[registered] = parsed((*(text for _, text in registered.imported), registered.text))
        return self._parsed[registered]

    def _of_id(self, schema_id: int) -> tuple[Any, Schema]:
        if schema_id not in self._read:
            registered = self._schemas.schema(schema_id)
            if registered.kind != "AVRO":
                raise DataError(f"schema {schema_id} is of the kind {registered.kind}, not AVRO")
            try:
                named: dict[str, Any] = {}
                for _, text in registered.imported:
                    connect_schema(json.loads(text), from_avro, named)
                self._read[schema_id] = self._parse(registered), connect_schema(json.loads(registered.text), from_avro, named)
            except (ValueError, KeyError, SchemaParseException) as error:
                raise DataError(f"schema {schema_id} cannot be read: {error}") from error
        return self._read[schema_id]


def _written(schema: Schema) -> str:
    return json.dumps(Writer(to_json).written(schema), separators=(",", ":"))


def _inferred(value: Any) -> Schema:
    """The schema of a value that has none.  Errors: DataError."""
    if type(value) in OF_SCHEMALESS:
        return Schema(OF_SCHEMALESS[type(value)], optional=True)
    if isinstance(value, list):
        return Schema(Type.ARRAY, optional=True, value_schema=_inferred(value[0]) if value else Schema(Type.STRING, optional=True))
    raise DataError(f"a value of type {type(value).__name__} needs a schema to be written as Avro")


def to_avro(schema: Schema, value: Any) -> Any:
    """Connect's value as fastavro takes it."""
    if value is None:
        if schema.default is not None and not schema.optional:
            return to_avro(schema, schema.default)
        return None
    value = to_primitive(schema, value)
    if schema.type is Type.STRUCT:
        if not isinstance(value, Struct):
            raise DataError(f"Invalid type for STRUCT: {type(value).__name__}")
        if schema.name == UNION:
            chosen = ((place, one.schema, value.get(one.name)) for place, one in enumerate(schema.fields))
            return next((branch(place, to_avro(kind, found)) for place, kind, found in chosen if found is not None), None)
        return {one.name: to_avro(one.schema, value.get(one.name)) for one in schema.fields}
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return [to_avro(schema.value_schema, one) for one in value]
    if schema.type is Type.MAP:
        assert schema.key_schema is not None and schema.value_schema is not None
        pairs = [(to_avro(schema.key_schema, key), to_avro(schema.value_schema, one)) for key, one in value.items()]
        return dict(pairs) if is_plain_map(schema) else [{"key": key, "value": one} for key, one in pairs]
    return value


def to_json(schema: Schema, value: Any) -> Any:
    """A default as JSON: bytes are text of Latin-1, as Avro wants them."""

    def shown(found: Any) -> Any:
        if isinstance(found, bytes):
            return found.decode("latin-1")
        if isinstance(found, Branch):
            return shown(place_of(found)[1])
        if isinstance(found, dict):
            return {name: shown(one) for name, one in found.items()}
        return [shown(one) for one in found] if isinstance(found, list) else found

    return shown(to_avro(schema, value))


def from_avro(schema: Schema, found: Any) -> Any:
    """fastavro's value, or a default of JSON, as Connect's."""
    if found is None:
        return None
    if schema.type is Type.STRUCT:
        if schema.name == UNION:
            place, found = place_of(found)
            one = schema.fields[place]
            return Struct(schema, {one.name: from_avro(one.schema, found)})
        return Struct(schema, {one.name: from_avro(one.schema, found.get(one.name)) for one in schema.fields})
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return [from_avro(schema.value_schema, one) for one in found]
    if schema.type is Type.MAP:
        assert schema.key_schema is not None and schema.value_schema is not None
        pairs = found.items() if isinstance(found, dict) else ((one["key"], one["value"]) for one in found)
        return {from_avro(schema.key_schema, key): from_avro(schema.value_schema, one) for key, one in pairs}
    if schema.type is Type.BYTES and isinstance(found, str):
        found = found.encode("latin-1")
    return to_logical(schema, found)
