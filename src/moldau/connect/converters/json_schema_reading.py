"""◇ JSON Schema as Connect's schemas.  Source: JsonSchemaData; `json_schema_draft` goes the other way.

A schema that was written by others has no connect.type: integers are int64, numbers float64.  A choice of null and one type is an optional
type; any other choice is a struct with a field for each of its members, of which one has a value.  An enum is a text with its symbols as
parameters.  The properties of all members of allOf are one struct.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from moldau.connect import data
from moldau.connect.converters.json_schema_draft import ENUM, NULL
from moldau.connect.converters.json_schema_values import UNION, JsonSchemaValues
from moldau.connect.data import Field, Schema, Type
from moldau.connect.errors import DataError, shown

MOST_DEPTH: Final = 64
_CONNECT: Final = {"integer": Type.INT64, "number": Type.FLOAT64, "boolean": Type.BOOLEAN, "string": Type.STRING}
_CHOICES: Final = ("oneOf", "anyOf")
_HINTS: Final = {
    "object": ("properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"),
    "array": ("items", "minItems", "maxItems", "uniqueItems", "contains"),
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Keywords that tell the type of a schema that names none."""


@dataclass(frozen=True)
class Root:
    """The document that references of a schema are resolved in.  `imported`: other documents, by the names that references have."""

    document: Any
    imported: Mapping[str, Any]

    def referenced(self, reference: str) -> "tuple[dict[str, Any], Root]":
        """The schema, and the document that it stands in.  Errors: DataError."""
        name, _, path = reference.partition("#")
        known = next((one for one in (name, name.rpartition("/")[2]) if one in self.imported), None)
        if name and known is None:
            raise DataError(f"the JSON schema refers to {reference}, which the registry does not name as a reference of it")
        root = self if known is None else Root(self.imported[known], self.imported)
        current: Any = root.document
        for part in path.split("/")[1:]:
            if not isinstance(current, dict) or part not in current:
                raise DataError(f"the JSON schema has no {reference}")
            current = current[part]
        if not isinstance(current, dict):
            raise DataError(f"{reference} is no JSON schema")
        return current, root


@dataclass(frozen=True)
class Place:
    """A schema within its document."""

    found: Any
    root: Root
    depth: int = 0

    def at(self, found: Any) -> "Place":
        return Place(found, self.root, self.depth + 1)

    def resolved(self) -> "Place":
        """The schema that a reference refers to; any other schema itself."""
        place = self
        while isinstance(place.found, dict) and "$ref" in place.found:
            if place.depth > MOST_DEPTH:
                raise DataError("the JSON schema holds itself")
            found, root = place.root.referenced(str(place.found["$ref"]))
            place = Place(found, root, place.depth + 1)
        return place


class SchemaReader:
    """`values` reads defaults.  `has_optional`: whether a property that is not required is optional."""

    def __init__(self, values: JsonSchemaValues, *, has_optional: bool = False) -> None:
        self._values = values
        self._has_optional = has_optional

    def read(self, found: Any, imported: Mapping[str, Any]) -> Schema:
        """`imported`: the documents that the schema may refer to.  Errors: DataError."""
        return self._read(Place(found, Root(found, imported)))

    def _read(self, given: Place, *, optional: bool = False) -> Schema:
        place = given.resolved()
        if place.depth > MOST_DEPTH:
            raise DataError("the JSON schema holds itself")
        parts = [place.at(part) for part in _parts(place.found)]
        if len(parts) > 1:
            return self._all_of(parts, optional=optional)
        if not parts:
            raise DataError("a JSON schema that allows any value has no counterpart in Connect")
        found = parts[0].found
        if "allOf" in found:
            members = [place.at(one) for one in found["allOf"]]
            return self._read(members[0]) if len(members) == 1 else self._all_of(members, optional=optional)
        choice = next((name for name in _CHOICES if name in found), None)
        if choice is not None:
            members = [place.at(one) for one in found[choice]]
            if len(members) == 1:
                return self._read(members[0])
            others = [one for one in members if not _is_null(one)]
            if len(members) == 2 and len(others) == 1:
                return self._read(others[0], optional=True)
            schema = self._union(others, has_null=len(others) < len(members))
        else:
            schema = self._of_type(place.at(found))
        return self._marked(schema, place.found, optional=optional)

    def _marked(self, schema: Schema, found: dict[str, Any], *, optional: bool) -> Schema:
        """The schema with what stands beside its type."""
        schema = replace(
            schema, name=schema.name or found.get("title"), version=found.get("connect.version"), doc=found.get("description"),
            parameters=(*schema.parameters, *sorted(found.get("connect.parameters", {}).items())),
        )  # fmt: skip
        default = found.get("default")
        read = None if default is None else self._values.from_json(schema, default)
        return replace(schema, default=read, optional=schema.optional or optional)

    def _union(self, members: list[Place], *, has_null: bool) -> Schema:
        fields = (Field(f"{UNION}.field.{number}", self._read(one, optional=True)) for number, one in enumerate(members))
        return Schema(Type.STRUCT, has_null, UNION, fields=tuple(fields))

    def _all_of(self, members: list[Place], *, optional: bool) -> Schema:
        """One schema for several that hold together."""
        properties: dict[str, tuple[Place, bool]] = {}
        for one in members:
            properties |= self._properties(one)
        if properties:
            fields = (Field(name, self._property(one, is_required=required)) for name, (one, required) in properties.items())
            return Schema(Type.STRUCT, optional, fields=tuple(fields))
        plain = [one for one in members if "$ref" not in one.found]
        choice = next((one for one in plain if {*_CHOICES, "allOf"} & one.found.keys() or isinstance(one.found.get("type"), list)), None)
        chosen = choice or _preferred(plain) or next((one for one in members if "$ref" in one.found), None)
        if chosen is None:
            raise DataError("the parts of a JSON schema do not fit together")
        return self._read(chosen, optional=optional)

    def _properties(self, place: Place) -> dict[str, tuple[Place, bool]]:
        """The properties of an object, or of the objects in allOf, and whether each is required."""
        there = place.resolved()
        if there.depth > MOST_DEPTH:
            raise DataError("the JSON schema holds itself")
        found = there.found if isinstance(there.found, dict) else {}
        collected: dict[str, tuple[Place, bool]] = {}
        for one in found.get("allOf", ()):
            collected |= self._properties(there.at(one))
        required = found.get("required", ())
        return collected | {name: (there.at(one), name in required) for name, one in found.get("properties", {}).items()}

    def _property(self, place: Place, *, is_required: bool) -> Schema:
        return self._read(place, optional=self._has_optional and not is_required)

    def _of_type(self, place: Place) -> Schema:
        found = place.found
        if "enum" in found:
            return _enum(found["enum"])
        if "const" in found:
            return _enum([found["const"]])
        kind, connect_type = _kind(found), found.get("connect.type")
        if kind == "object" and connect_type == "map":
            return Schema(Type.MAP, key_schema=data.STRING, value_schema=self._read(place.at(found["additionalProperties"])))
        if kind == "object":
            return Schema(Type.STRUCT, fields=self._fields(place))
        if kind == "array":
            return self._array(place)
        if connect_type is not None and kind in ("integer", "number", "string"):
            return Schema(Type(connect_type))
        if kind in _CONNECT:
            return Schema(_CONNECT[kind])
        raise DataError(f"a JSON schema of type {kind} has no counterpart in Connect")

    def _array(self, place: Place) -> Schema:
        items = place.found.get("items")
        if not isinstance(items, dict):
            raise DataError("a JSON schema of an array without one schema for its items has no counterpart in Connect")
        if place.found.get("connect.type") == "map" and "properties" in items:
            key, value = (self._read(place.at(items["properties"][name])) for name in ("key", "value"))
            return Schema(Type.MAP, key_schema=key, value_schema=value)
        return data.array(self._read(place.at(items)))

    def _fields(self, place: Place) -> tuple[Field, ...]:
        required = place.found.get("required", ())
        listed = list(enumerate(place.found.get("properties", {}).items()))
        listed.sort(key=lambda one: one[1][1].get("connect.index", one[0]) if isinstance(one[1][1], dict) else one[0])
        return tuple(Field(name, self._property(place.at(one), is_required=name in required)) for _, (name, one) in listed)


def _parts(found: Any) -> Iterator[dict[str, Any]]:
    """The schemas that a schema's keywords make, each of one kind."""
    if not isinstance(found, dict):
        return
    rest = dict(found)
    for name in ("allOf", *_CHOICES, "enum", "const"):
        if name in rest:
            yield {name: rest.pop(name)}
    kinds = rest.get("type")
    if isinstance(kinds, list):
        yield {"anyOf": [{**rest, "type": kind} for kind in kinds]}
    elif kinds is not None or _kind(rest) is not None:
        yield rest


def _kind(found: dict[str, Any]) -> Any:
    return found.get("type") or next((kind for kind, hints in _HINTS.items() if any(one in found for one in hints)), None)


def _is_null(place: Place) -> bool:
    return isinstance(place.found, dict) and place.found.get("type") == "null"


def _preferred(members: list[Place]) -> Place | None:
    """The member whose type all have: an enum of texts, else the number or the text."""
    kinds = {_kind(one.found): one for one in members}
    number = kinds.get("number") or kinds.get("integer")
    text = kinds.get("string")
    enum = next((one for one in members if "enum" in one.found), None)
    if enum is not None and text is not None:
        return enum
    return text if text is not None and any("const" in one.found for one in members) else number or text


def _enum(symbols: list[Any]) -> Schema:
    named = [NULL if one is None else shown(one) for one in symbols]
    return Schema(Type.STRING, parameters=((ENUM, ""), *((f"{ENUM}.{one}", one) for one in named)))
