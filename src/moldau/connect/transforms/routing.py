"""◇ Transforms of topics, headers and schema names, and the filter.

Source: RegexRouter, HeaderFrom, InsertHeader, DropHeaders, SetSchemaMetadata, Filter.
"""

import re
from dataclasses import replace
from typing import Any, Final

from moldau.connect.converters.header_values import parse_text
from moldau.connect.data import Header, Record, Struct, Type
from moldau.connect.errors import ConfigError, DataError
from moldau.connect.transforms.parts import Part, fields_of, required_map, required_struct, with_fields

_GROUP: Final = re.compile(r"\\(.)|\$(\d)|\$\{(\w+)\}")


def python_template(replacement: str) -> str:
    """Java's `$1` and `${name}` as Python's."""

    def one(found: re.Match[str]) -> str:
        if found[1] is not None:
            return re.escape(found[1]) if found[1] != "\\" else "\\\\"
        return rf"\g<{found[2] or found[3]}>"

    parts, at = [], 0
    for found in _GROUP.finditer(replacement):
        parts += [replacement[at : found.start()].replace("\\", r"\\"), one(found)]
        at = found.end()
    return "".join([*parts, replacement[at:].replace("\\", r"\\")])


class RegexRouter:
    """A topic whose whole name matches `regex` becomes `replacement`."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._regex = re.compile(options["regex"])
        self._template = python_template(options["replacement"])

    def apply(self, record: Record) -> Record | None:
        found = self._regex.fullmatch(record.topic)
        return record if found is None else replace(record, topic=found.expand(self._template))


class Filter:
    """Drops every record that its predicate lets through to it."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        pass

    def apply(self, record: Record) -> Record | None:
        return None


class HeaderFrom:
    """Fields become headers, moved or copied."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._part = part
        self._fields, self._headers = options["fields"], options["headers"]
        if len(self._fields) != len(self._headers):
            raise ConfigError("'fields' config must have the same number of elements as 'headers' config.")
        self._moves = options["operation"] == "move"
        self._fills_in = options["replace.null.with.default"]

    def apply(self, record: Record) -> Record | None:
        value, schema = self._part.value_of(record), self._part.schema_of(record)
        pairs = list(zip(self._fields, self._headers, strict=True))
        if schema is None:
            found = dict(required_map(value, "header operation"))
            added = [Header(header, None, found.get(name)) for name, header in pairs]
            if self._moves:
                found = {name: one for name, one in found.items() if name not in self._fields}
            return self._part.replaced(record, None, found).with_headers([*record.headers, *added])
        old = required_struct(value, "header operation")
        kinds = fields_of(schema)
        for name in self._fields:
            if name not in kinds:
                raise DataError(f"Field does not exist: {name}")
        added = [Header(header, kinds[name], old.get(name, with_default=self._fills_in)) for name, header in pairs]
        if self._moves:
            schema = with_fields(schema, {name: kind for name, kind in kinds.items() if name not in self._fields})
        values = {one.name: old.get(one.name, with_default=self._fills_in) for one in schema.fields}
        return self._part.replaced(record, schema, Struct(schema, values)).with_headers([*record.headers, *added])


class InsertHeader:
    """A fixed header; `value.literal` gets the type that it looks like."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._header = Header(options["header"], *parse_text(options["value.literal"]))

    def apply(self, record: Record) -> Record | None:
        return record.with_headers([*record.headers, self._header])


class DropHeaders:
    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._names = set(options["headers"])

    def apply(self, record: Record) -> Record | None:
        return record.with_headers([one for one in record.headers if one.key not in self._names])


class SetSchemaMetadata:
    """Another name or version for the schema of the key or value."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._part = part
        self._name, self._version = options["schema.name"], options["schema.version"]
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")

    def apply(self, record: Record) -> Record | None:
        value, schema = self._part.value_of(record), self._part.schema_of(record)
        if schema is None:
            if value is None:
                return record
            raise DataError("Schema required for [updating schema metadata]")
        if schema.type is not Type.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        named = replace(schema, name=self._name or schema.name, version=schema.version if self._version is None else self._version)
        if isinstance(value, Struct):
            value = Struct(named, value.values)
        return self._part.replaced(record, named, value)
