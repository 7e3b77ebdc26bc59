"""◇ Connect's schemas as Avro's, and back.  Source: AvroData, as Confluent documents it.

    int8, int16          int with connect.type            Decimal      bytes, logicalType decimal
    struct               record                           Date, Time   int, logicalType date, time-millis
    map of strings       map; others: array of MapEntry   Timestamp    long, logicalType timestamp-millis
    optional             union with null                  enum         string, its symbols as parameters
    union                struct with a field each         fixed        bytes with connect.fixed.size

What Avro has no place for stands in properties: connect.name, connect.version, connect.doc, connect.parameters, connect.default.
What Connect has no place for, such as the doc of a record or of a field, stands in parameters.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from moldau.connect import data
from moldau.connect.converters.avro_names import with_full_names
from moldau.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from moldau.connect.errors import DataError

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
MAP_ENTRY: Final = "MapEntry"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
FIXED_SIZE: Final = "connect.fixed.size"
RECORD_DOC: Final = f"{NAMESPACE}.record.doc"
FIELD_DOC: Final = f"{NAMESPACE}.field.doc."
FIELD_DEFAULT: Final = f"{NAMESPACE}.field.default"
"""Parameter of a schema whose default stands in the field only."""
ENUM_DOC: Final = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT: Final = f"{NAMESPACE}.enum.default."
OWN_TO_AVRO: Final = "avro"
"""Properties whose names begin so are parameters in Connect."""
PRECISION: Final = "connect.decimal.precision"
DEFAULT_PRECISION: Final = 64
_AVRO: Final = {
    Type.INT8: "int", Type.INT16: "int", Type.INT32: "int", Type.INT64: "long", Type.FLOAT32: "float", Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean", Type.STRING: "string", Type.BYTES: "bytes",
}  # fmt: skip
_CONNECT: Final = {
    "int": Type.INT32, "long": Type.INT64, "float": Type.FLOAT32, "double": Type.FLOAT64, "boolean": Type.BOOLEAN, "string": Type.STRING,
    "bytes": Type.BYTES,
}  # fmt: skip
_LOGICAL: Final = {DATE: "date", TIME: "time-millis", TIMESTAMP: "timestamp-millis"}
_NAMES: Final = {("int", "date"): DATE, ("int", "time-millis"): TIME, ("long", "timestamp-millis"): TIMESTAMP}
ToAvro = Callable[[Schema, Any], Any]


def is_plain_map(schema: Schema) -> bool:
    """Whether the map's keys are strings, which Avro's maps have."""
    return schema.key_schema is not None and schema.key_schema.type is Type.STRING and not schema.key_schema.optional


class Writer:
    """Makes one Avro schema.  A record is written out where it is first, and named afterwards."""

    def __init__(self, to_avro: ToAvro) -> None:
        """`to_avro`: makes Avro's JSON of a default."""
        self._to_avro = to_avro
        self._named: dict[str, Schema] = {}
        self._entries: list[Schema] = []
        self._defaults = 0
        self._space = ""

    def written(self, schema: Schema) -> Any:
        if schema.name == UNION:
            members = [self.written(replace(one.schema, optional=False)) for one in schema.fields]
            kinds = [one if isinstance(one, str) else one["type"] for one in members]
            if twice := next((one for one in kinds if kinds.count(one) > 1 and one not in ("record", "fixed")), None):
                raise DataError(f"Avro knows no union with two types {twice}")
            return ["null", *members] if schema.optional else members
        kind = self._kind(schema)
        if not schema.optional:
            return kind
        return ["null", kind] if schema.default is None else [kind, "null"]

    def _kind(self, schema: Schema) -> Any:
        if schema.type is Type.STRUCT:
            return self._record(schema)
        properties = self._properties(schema)
        if schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            return {"type": "array", "items": self.written(schema.value_schema), **properties}
        if schema.type is Type.MAP:
            return {**self._map(schema), **properties}
        avro = _AVRO[schema.type]
        size = schema.parameter(FIXED_SIZE) if schema.type is Type.BYTES else None
        if schema.type in (Type.INT8, Type.INT16):
            properties["connect.type"] = str(schema.type)
        if schema.name == DECIMAL:
            precision = int(schema.parameter(PRECISION) or DEFAULT_PRECISION)
            properties |= {"logicalType": "decimal", "precision": precision, "scale": int(schema.parameter("scale") or 0)}
        elif schema.name in _LOGICAL:
            properties["logicalType"] = _LOGICAL[schema.name]
        if size is not None:
            return self._fixed(schema, size, properties)
        return {"type": avro, **properties} if properties else avro

    def _properties(self, schema: Schema) -> dict[str, Any]:
        parameters = {name: value for name, value in schema.parameters if name != FIELD_DEFAULT}
        found: dict[str, Any] = {
            "connect.doc": schema.doc, "connect.version": schema.version, "connect.parameters": parameters or None,
            "connect.name": schema.name,
        }  # fmt: skip
        if schema.default is not None and schema.parameter(FIELD_DEFAULT) is None:
            found["connect.default"] = self._to_avro(schema.as_optional(), schema.default)
        found |= {name: value for name, value in schema.parameters if name.startswith(OWN_TO_AVRO)}
        return {name: value for name, value in found.items() if value is not None}

    def _map(self, schema: Schema) -> dict[str, Any]:
        assert schema.key_schema is not None and schema.value_schema is not None
        if is_plain_map(schema):
            return {"type": "map", "values": self.written(schema.value_schema)}
        parts = Schema(Type.STRUCT, name=schema.name, fields=(Field("key", schema.key_schema), Field("value", schema.value_schema)))
        name, is_marked = schema.name, True
        if name is None:
            if parts not in self._entries:
                self._entries.append(parts)
            number = self._entries.index(parts) + 1
            name, is_marked = f"{NAMESPACE}.{MAP_ENTRY}{number if number > 1 else ''}", number > 1
        more = {"connect.internal.type": MAP_ENTRY} if is_marked else {}
        return {"type": "array", "items": self._defined(name, parts, "record", more)}

    def _record(self, schema: Schema) -> Any:
        name = schema.name
        if name is None:
            self._defaults += 1
            name = f"{NAMESPACE}.{DEFAULT_NAME}" + (str(self._defaults) if self._defaults > 1 else "")
        doc = schema.parameter(RECORD_DOC)
        return self._defined(name, schema, "record", {**({"doc": doc} if doc else {}), **self._properties(schema)})

    def _fixed(self, schema: Schema, size: str, properties: dict[str, Any]) -> Any:
        name = schema.name
        if name is None or name == DECIMAL:
            self._defaults += 1
            name = f"{NAMESPACE}.{DEFAULT_NAME}" + (str(self._defaults) if self._defaults > 1 else "")
        return self._defined(name, schema, "fixed", {"size": int(size), **properties})

    def _defined(self, name: str, schema: Schema, kind: str, more: dict[str, Any]) -> Any:
        """The definition of a named type, or its name where it was defined before.  Errors: DataError."""
        plain = replace(schema, optional=False, default=None)
        if name in self._named:
            if self._named[name] != plain:
                raise DataError(f"two different structs have the name {name}, and Avro knows one record of a name")
            return name
        self._named[name] = plain
        namespace, _, simple = name.rpartition(".")
        around, self._space = self._space, namespace
        found: dict[str, Any] = {"type": kind, "name": simple, **({"namespace": namespace} if namespace != around else {})}
        if kind == "record":
            found["fields"] = [self._field(one, schema.parameter(f"{FIELD_DOC}{one.name}")) for one in schema.fields]
        self._space = around
        return {**found, **more}

    def _field(self, field: Field, doc: str | None) -> dict[str, Any]:
        schema = field.schema
        found: dict[str, Any] = {"name": field.name, "type": self.written(schema)}
        if doc:
            found["doc"] = doc
        if schema.default is not None:
            found["default"] = self._to_avro(replace(schema, optional=False), schema.default)
        elif schema.optional:
            found["default"] = None
        return found


def connect_schema(
    avro: Any, from_avro: Callable[[Schema, Any], Any], named: dict[str, Any] | None = None, within: tuple[str, ...] = ()
) -> Schema:
    """Connect's schema of an Avro schema.  `from_avro` reads defaults.  Errors: DataError, also for a record that holds itself."""
    named = {} if named is None else named
    return _read(with_full_names(avro, {*named}), from_avro, named, within)


def _read(avro: Any, from_avro: Callable[[Schema, Any], Any], named: dict[str, Any], within: tuple[str, ...]) -> Schema:
    """The schema has full names.  `within`: the named types around it."""
    if isinstance(avro, list):
        return _union(avro, from_avro, named, within)
    if isinstance(avro, str):
        if avro in _CONNECT:
            return Schema(_CONNECT[avro])
        if avro not in named or avro in within:
            raise DataError(f"the Avro type {avro} is unknown, or holds itself")
        return _read(named[avro], from_avro, named, within)
    kind = avro["type"]
    if isinstance(kind, dict | list):
        return _read(kind, from_avro, named, within)
    if kind in ("record", "enum", "fixed"):
        named[avro["name"]] = avro
        found = _named(kind, avro["name"], avro, from_avro, named, within)
    elif kind == "array" and (parts := _entry(avro["items"], named)) is not None:
        entry = {one["name"]: _read(one["type"], from_avro, named, within) for one in parts["fields"]}
        found = Schema(Type.MAP, key_schema=entry["key"], value_schema=entry["value"])
    elif kind == "array":
        found = data.array(_read(avro["items"], from_avro, named, within))
    elif kind == "map":
        found = Schema(Type.MAP, key_schema=data.STRING, value_schema=_read(avro["values"], from_avro, named, within))
    elif kind in _CONNECT:
        found = _primitive(kind, avro)
    else:
        return _read(kind, from_avro, named, within)
    return _with_properties(found, avro, from_avro)


def _entry(items: Any, named: dict[str, Any]) -> Any:
    """The record of a map's entries, or None when the array is one of something else."""
    if isinstance(items, str) and items in named:
        items = named[items]
    if not isinstance(items, dict) or items.get("type") != "record":
        return None
    named[items["name"]] = items
    is_entry = items["name"] == f"{NAMESPACE}.{MAP_ENTRY}" or items.get("connect.internal.type") == MAP_ENTRY
    return items if is_entry else None


def _primitive(kind: str, avro: dict[str, Any]) -> Schema:
    if kind == "int" and avro.get("connect.type") in ("int8", "int16"):
        return Schema(Type(avro["connect.type"]))
    logical = avro.get("logicalType")
    if kind == "bytes" and logical == "decimal":
        found = data.decimal(int(avro.get("scale", 0)))
        precision = int(avro.get("precision", DEFAULT_PRECISION))
        return replace(found, parameters=(*found.parameters, (PRECISION, str(precision)))) if precision != DEFAULT_PRECISION else found
    name = _NAMES.get((kind, str(logical)))
    return Schema(_CONNECT[kind], name=name, version=None if name is None else 1)


def _named(kind: str, full: str, avro: dict[str, Any], from_avro: Any, named: dict[str, Any], within: tuple[str, ...]) -> Schema:
    if kind == "enum":
        symbols = tuple((f"{ENUM}.{symbol}", symbol) for symbol in avro["symbols"])
        more = [(f"{ENUM_DOC}{_simple(full)}", avro.get("doc")), (f"{ENUM_DEFAULT}{_simple(full)}", avro.get("default"))]
        return Schema(Type.STRING, name=full, parameters=((ENUM, full), *symbols, *((key, one) for key, one in more if one)))
    if kind == "fixed":
        size = ((FIXED_SIZE, str(avro["size"])),)
        if avro.get("logicalType") == "decimal":
            found = _primitive("bytes", avro)
            return replace(found, parameters=(*found.parameters, *size))
        return Schema(Type.BYTES, name=full, parameters=size)
    fields = []
    docs = [(RECORD_DOC, avro["doc"])] if avro.get("doc") else []
    for one in avro["fields"]:
        schema = _read(one["type"], from_avro, named, (*within, full))
        default = one.get("default")
        if default is not None or ("default" in one and schema.name == UNION):
            flag = () if schema.default is not None else ((FIELD_DEFAULT, "true"),)
            schema = replace(schema, default=from_avro(schema, default), parameters=(*schema.parameters, *flag))
        if one.get("doc"):
            docs.append((f"{FIELD_DOC}{one['name']}", one["doc"]))
        fields.append(Field(one["name"], schema))
    is_default = full.startswith(f"{NAMESPACE}.{DEFAULT_NAME}")
    return Schema(Type.STRUCT, name=None if is_default else full, parameters=tuple(docs), fields=tuple(fields))


def _simple(full: str) -> str:
    return full.rpartition(".")[2]


def _union(avro: list[Any], from_avro: Any, named: dict[str, Any], within: tuple[str, ...]) -> Schema:
    kinds = [one for one in avro if one != "null"]
    is_optional = len(kinds) < len(avro)
    if len(kinds) == 1:
        found = _read(kinds[0], from_avro, named, within)
        return replace(found, optional=True) if is_optional else found
    members = []
    for one in kinds:
        schema = _read(one, from_avro, named, within)
        name = _simple(schema.name) if schema.type is Type.STRUCT and schema.name else _label(one)
        members.append(Field(name, schema.as_optional()))
    return Schema(Type.STRUCT, is_optional, UNION, fields=tuple(members))


def _label(avro: Any) -> str:
    if isinstance(avro, str):
        return avro.rpartition(".")[2]
    return str(avro["name"]) if "name" in avro else str(avro["type"])


def _with_properties(schema: Schema, avro: dict[str, Any], from_avro: Any) -> Schema:
    changes: dict[str, Any] = {}
    if "connect.name" in avro:
        changes["name"] = avro["connect.name"]
    if "connect.version" in avro:
        changes["version"] = int(avro["connect.version"])
    if "connect.doc" in avro:
        changes["doc"] = avro["connect.doc"]
    own = {name: str(value) for name, value in avro.items() if name.startswith(OWN_TO_AVRO)}
    parameters = {**dict(schema.parameters), **own, **avro.get("connect.parameters", {})}
    if parameters:
        changes["parameters"] = tuple(sorted(parameters.items()))
    found = replace(schema, **changes) if changes else schema
    return replace(found, default=from_avro(found, avro["connect.default"])) if "connect.default" in avro else found
