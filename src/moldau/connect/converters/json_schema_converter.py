"""◇ JSON with its schemas in a registry.  Source: io.confluent.connect.json.JsonSchemaConverter, as Confluent documents it."""

import json
from typing import Any, Final

from moldau.connect.converters.json_schema_draft import Drafts
from moldau.connect.converters.json_schema_reading import SchemaReader
from moldau.connect.converters.json_schema_values import JsonSchemaValues
from moldau.connect.data import Schema
from moldau.connect.errors import DataError
from moldau.connect.registry.cache import Schemas
from moldau.connect.registry.client import Registered
from moldau.connect.registry.framing import framed, unframed
from moldau.connect.registry.subjects import Subject

CACHED: Final = 1000
SCHEMA_DRAFT: Final = "http://json-schema.org/draft-07/schema#"


class JsonSchemaConverter:
    """See the module.  Errors of its methods: DataError; Absent and RetriableError, of the registry."""

    def __init__(
        self,
        schemas: Schemas,
        subject: Subject,
        *,
        decimal_format: str = "BASE64",
        replace_null_with_default: bool = True,
        optional_unless_required: bool = False,
        additional_properties: bool = True,
    ) -> None:
        """`optional_unless_required`: whether a property that is not required is read as optional."""
        self._schemas = schemas
        self._subject = subject
        self._values = JsonSchemaValues(decimal_format=decimal_format, replace_null_with_default=replace_null_with_default)
        self._drafts = Drafts(self._values, is_open=additional_properties)
        self._reader = SchemaReader(self._values, has_optional=optional_unless_required)
        self._texts: dict[Schema | None, str] = {}
        self._read: dict[int, Schema] = {}

    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        body = self._values.to_bytes(topic, schema, value)
        assert body is not None
        name = None if schema is None else schema.name
        schema_id, _ = self._schemas.id_of(self._subject(topic, name), Registered("JSON", self._text(schema)))
        return framed(schema_id, body)

    def to_data(self, topic: str, data: bytes | None) -> tuple[Schema | None, Any]:
        if data is None:
            return None, None
        schema_id, body = unframed(data)
        schema = self._of_id(schema_id)
        try:
            found = json.loads(body)
        except ValueError as error:
            raise DataError(f"Converting byte[] to Kafka Connect data failed due to serialization error: {error}") from error
        return schema, self._values.from_json(schema, found)

    def _text(self, schema: Schema | None) -> str:
        def written() -> str:
            found: dict[str, Any] = {} if schema is None else self._drafts.draft(schema)
            return json.dumps({"$schema": SCHEMA_DRAFT, **found}, separators=(",", ":"))

        try:
            if schema not in self._texts:
                if len(self._texts) >= CACHED:
                    self._texts.clear()
                self._texts[schema] = written()
            return self._texts[schema]
        except TypeError:  # a default that cannot be hashed, such as a list
            return written()

    def _of_id(self, schema_id: int) -> Schema:
        if schema_id not in self._read:
            registered = self._schemas.schema(schema_id)
            if registered.kind != "JSON":
                raise DataError(f"schema {schema_id} is of the kind {registered.kind}, not JSON")
            try:
                imported = {name: json.loads(text) for name, text in registered.imported}
                self._read[schema_id] = self._reader.read(json.loads(registered.text), imported)
            except (ValueError, KeyError, AttributeError, TypeError) as error:
                raise DataError(f"schema {schema_id} cannot be read: {error}") from error
        return self._read[schema_id]
