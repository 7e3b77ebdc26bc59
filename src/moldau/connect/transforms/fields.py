"""◇ Transforms of the fields of a key or a value: insert, replace, mask, hoist, extract, value to key, flatten.

Source: InsertField, ReplaceField, MaskField, HoistField, ExtractField, ValueToKey, Flatten.
"""

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from moldau.connect import data
from moldau.connect.data import EPOCH, Record, Schema, Struct, Type, from_millis, struct
from moldau.connect.errors import ConfigError, ConnectError, DataError
from moldau.connect.transforms.parts import Part, class_name, fields_of, required_map, required_struct, with_fields
from moldau.connect.transforms.paths import path_of


class InsertField:
    """Inserts topic, partition, offset, timestamp or a fixed text as fields.  `!` behind a name: required; `?`: optional."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._part = part
        self._inserted = []
        for name, kind in (("topic", data.STRING), ("partition", data.INT32), ("offset", data.INT64), ("timestamp", data.timestamp())):
            if options[f"{name}.field"] is not None:
                self._inserted.append((name, *_insertion(options[f"{name}.field"], kind)))
        if options["static.field"] is not None:
            if options["static.value"] is None:
                raise ConfigError.invalid("static.value", None, "No value specified for static field: " + options["static.field"])
            self._inserted.append(("static", *_insertion(options["static.field"], data.STRING)))
        if not self._inserted:
            raise ConfigError("No field insertion configured")
        self._static = options["static.value"]
        self._fills_in = options["replace.null.with.default"]

    def apply(self, record: Record) -> Record | None:
        value, schema = self._part.value_of(record), self._part.schema_of(record)
        if value is None:
            return record
        if schema is None:
            found = dict(required_map(value, "field insertion"))
            for what, name, _ in self._inserted:
                inserted = self._value(what, record)
                if inserted is not None or what != "timestamp":
                    found[name] = inserted
            return self._part.replaced(record, None, found)
        old = required_struct(value, "field insertion")
        for _, name, _ in self._inserted:
            if schema.field(name) is not None:
                raise DataError(f"Cannot create field because of field name duplication {name}")
        wider = with_fields(schema, {**fields_of(schema), **{name: kind for _, name, kind in self._inserted}})
        values = {one.name: old.get(one.name, with_default=self._fills_in) for one in schema.fields}
        for what, name, _ in self._inserted:
            inserted = self._value(what, record)
            values[name] = from_millis(inserted) if what == "timestamp" and inserted is not None else inserted
        return self._part.replaced(record, wider, Struct(wider, values))

    def _value(self, what: str, record: Record) -> Any:
        if what == "static":
            return self._static
        if what == "offset" and record.offset is None:
            raise DataError(f"Only SinkRecord objects supported for [offset insertion], found: {class_name(record)}")
        return getattr(record, what)


def _insertion(field: str, kind: Schema) -> tuple[str, Schema]:
    if field.endswith("?"):
        return field[:-1], kind.as_optional()
    return (field[:-1], kind) if field.endswith("!") else (field, kind.as_optional())


class ReplaceField:
    """Keeps `include` (all without it) but not `exclude`, and renames `old:new`."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._part = part
        self._exclude, self._include = set(options["exclude"]), set(options["include"])
        self._renames = dict(one.split(":") for one in options["renames"])
        self._fills_in = options["replace.null.with.default"]

    def apply(self, record: Record) -> Record | None:
        value, schema = self._part.value_of(record), self._part.schema_of(record)
        if value is None:
            return record
        if schema is None:
            old = required_map(value, "field replacement")
            return self._part.replaced(record, None, {self._renamed(name): one for name, one in old.items() if self._keeps(name)})
        old_struct = required_struct(value, "field replacement")
        kept = [one for one in schema.fields if self._keeps(one.name)]
        narrower = with_fields(schema, {self._renamed(one.name): one.schema for one in kept})
        values = {self._renamed(one.name): old_struct.get(one.name, with_default=self._fills_in) for one in kept}
        return self._part.replaced(record, narrower, Struct(narrower, values))

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _renamed(self, name: str) -> str:
        return str(self._renames.get(name, name))


def check_renames(name: str, value: Any) -> None:
    for one in value or []:
        if one.count(":") != 1:
            raise ConfigError.invalid(name, value, f"Invalid rename mapping: {one}")


class MaskField:
    """Fields become empty, zero, or `replacement` where that fits their type."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._part = part
        self._fields = set(options["fields"])
        self._replacement = options["replacement"]
        self._fills_in = options["replace.null.with.default"]

    def apply(self, record: Record) -> Record | None:
        value, schema = self._part.value_of(record), self._part.schema_of(record)
        if schema is None:
            found = dict(required_map(value, "mask fields"))
            for name in sorted(self._fields):
                found[name] = self._masked(found.get(name))
            return self._part.replaced(record, None, found)
        old = required_struct(value, "mask fields")
        values = {one.name: old.get(one.name, with_default=self._fills_in) for one in schema.fields}
        for name in self._fields & set(values):
            values[name] = self._masked(values[name])
        return self._part.replaced(record, schema, Struct(schema, values))

    def _masked(self, value: Any) -> Any:
        if value is None:
            return None
        if self._replacement is None:
            return _blank(value)
        try:
            if isinstance(value, str):
                return self._replacement
            if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
                return type(value)(self._replacement)
        except (ValueError, ArithmeticError) as error:
            raise DataError(f"Unable to convert {self._replacement} ({class_name(self._replacement)}) to number") from error
        raise DataError(f"Cannot mask value of type {class_name(value)} with custom replacement.")


def _blank(value: Any) -> Any:
    if isinstance(value, datetime):
        return EPOCH
    if isinstance(value, bool | int | float | str | Decimal | list | dict):
        return type(value)()
    raise DataError(f"Cannot mask value of type: {class_name(value)}")


class HoistField:
    """The whole key or value becomes one field of a struct, or of a map where there is no schema."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._part = part
        self._field = options["field"]

    def apply(self, record: Record) -> Record | None:
        value, schema = self._part.value_of(record), self._part.schema_of(record)
        if schema is None:
            return self._part.replaced(record, None, {self._field: value})
        hoisted = struct({self._field: schema})
        return self._part.replaced(record, hoisted, Struct(hoisted, {self._field: value}))


class ExtractField:
    """One field becomes the whole key or value."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._part = part
        self._field = options["field"]
        self._path = path_of(options["field"], options["field.syntax.version"])
        self._fills_in = options["replace.null.with.default"]

    def apply(self, record: Record) -> Record | None:
        value, schema = self._part.value_of(record), self._part.schema_of(record)
        if schema is None:
            found = value if value is None else required_map(value, "field extraction")
            for name in self._path:
                found = None if found is None else required_map(found, "nested field access").get(name)
            return self._part.replaced(record, None, found)
        inner: Schema | None = schema
        if value is not None:
            required_struct(value, "field extraction")
        for name in self._path:
            inner = inner.field(name) if inner is not None and inner.type is Type.STRUCT else None
            value = value.get(name, with_default=self._fills_in) if isinstance(value, Struct) else None
        if inner is None:
            raise ConnectError(f"Unknown field: {self._field}")
        return self._part.replaced(record, inner, value)


class ValueToKey:
    """Fields of the value become the key."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._fields = options["fields"]
        self._fills_in = options["replace.null.with.default"]

    def apply(self, record: Record) -> Record | None:
        if record.value_schema is None:
            value = required_map(record.value, "copying fields from value to key")
            return Part.KEY.replaced(record, None, {name: value.get(name) for name in self._fields})
        old = required_struct(record.value, "copying fields from value to key")
        kinds = fields_of(record.value_schema)
        for name in self._fields:
            if name not in kinds:
                raise DataError(f"Field does not exist: {name}")
        schema = struct({name: kinds[name] for name in self._fields})
        values = {name: old.get(name, with_default=self._fills_in) for name in self._fields}
        return Part.KEY.replaced(record, schema, Struct(schema, values))


FLATTEN: Final = "flattening"


class Flatten:
    """Nested structs and maps become fields of one level, their names joined by `delimiter`.  Lists stay as they are."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._part = part
        self._delimiter = options["delimiter"]

    def apply(self, record: Record) -> Record | None:
        value, schema = self._part.value_of(record), self._part.schema_of(record)
        if value is None:
            return record
        if schema is None:
            return self._part.replaced(record, None, dict(self._entries("", required_map(value, FLATTEN))))
        old = required_struct(value, FLATTEN)
        flat = with_fields(schema, dict(self._kinds("", schema, is_optional=schema.optional)))
        return self._part.replaced(record, flat, Struct(flat, dict(self._values("", old))))

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _entries(self, prefix: str, value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, one in value.items():
            if isinstance(one, dict):
                yield from self._entries(self._name(prefix, name), one)
            else:
                yield self._name(prefix, name), one

    def _kinds(self, prefix: str, schema: Schema, *, is_optional: bool) -> Iterator[tuple[str, Schema]]:
        for one in schema.fields:
            if one.schema.type is Type.STRUCT:
                yield from self._kinds(self._name(prefix, one.name), one.schema, is_optional=is_optional or one.schema.optional)
            else:
                yield self._name(prefix, one.name), one.schema.as_optional() if is_optional else one.schema

    def _values(self, prefix: str, value: Struct) -> Iterator[tuple[str, Any]]:
        for one in value.schema.fields:
            inner = value.get(one.name)
            if one.schema.type is not Type.STRUCT:
                yield self._name(prefix, one.name), inner
            elif inner is not None:
                yield from self._values(self._name(prefix, one.name), inner)
