"""◇ Connect's schemas as Avro's, and back.  Source: AvroData, as Confluent documents it.

    int8, int16          int with connect.type            Decimal      bytes, logicalType decimal
    struct               record                           Date, Time   int, logicalType date, time-millis
    map of strings       map; others: array of MapEntry   Timestamp    long, logicalType timestamp-millis
    optional             union with null                  enum         string, its symbols as parameters

What Avro has no place for stands in properties: connect.name, connect.version, connect.doc, connect.parameters, connect.default.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from moldau.connect import data
from moldau.connect.data import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from moldau.connect.errors import DataError

NAMESPACE: Final = "io.confluent.connect.avro"
DEFAULT_NAME: Final = "ConnectDefault"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
FIXED_SIZE: Final = f"{NAMESPACE}.fixed.size"
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
        self._defaults = 0

    def written(self, schema: Schema, *, default: Any = None) -> Any:
        kind = self._kind(schema)
        if not schema.optional:
            return kind
        return [kind, "null"] if default is not None else ["null", kind]

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
        if schema.type in (Type.INT8, Type.INT16):
            properties["connect.type"] = str(schema.type)
        if schema.name == DECIMAL:
            precision = int(schema.parameter(PRECISION) or DEFAULT_PRECISION)
            properties |= {"logicalType": "decimal", "precision": precision, "scale": int(schema.parameter("scale") or 0)}
        elif schema.name in _LOGICAL:
            properties["logicalType"] = _LOGICAL[schema.name]
        return {"type": avro, **properties} if properties else avro

    def _properties(self, schema: Schema) -> dict[str, Any]:
        found: dict[str, Any] = {
            "connect.doc": schema.doc, "connect.version": schema.version, "connect.parameters": dict(schema.parameters) or None,
            "connect.name": schema.name,
        }  # fmt: skip
        if schema.default is not None:
            found["connect.default"] = self._to_avro(schema.as_optional(), schema.default)
        return {name: value for name, value in found.items() if value is not None}

    def _map(self, schema: Schema) -> dict[str, Any]:
        assert schema.key_schema is not None and schema.value_schema is not None
        if is_plain_map(schema):
            return {"type": "map", "values": self.written(schema.value_schema)}
        fields = [
            {"name": "key", "type": self.written(schema.key_schema)},
            {"name": "value", "type": self.written(schema.value_schema)},
        ]
        self._defaults += 1
        name = "MapEntry" + (str(self._defaults) if self._defaults > 1 else "")
        entry = {"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields, "connect.internal.type": "MapEntry"}
        return {"type": "array", "items": entry}

    def _record(self, schema: Schema) -> Any:
        name = schema.name
        if name is None:
            self._defaults += 1
            name = f"{NAMESPACE}.{DEFAULT_NAME}" + (str(self._defaults) if self._defaults > 1 else "")
        plain = replace(schema, optional=False, default=None)
        if name in self._named:
            if self._named[name] != plain:
                raise DataError(f"two different structs have the name {name}, and Avro knows one record of a name")
            return name
        self._named[name] = plain
        namespace, _, simple = name.rpartition(".")
        fields = [self._field(one) for one in schema.fields]
        record = {"type": "record", "name": simple, **({"namespace": namespace} if namespace else {}), "fields": fields}
        return {**record, **({"doc": schema.doc} if schema.doc else {}), **self._properties(schema)}

    def _field(self, field: Field) -> dict[str, Any]:
        schema = field.schema
        found: dict[str, Any] = {"name": field.name, "type": self.written(schema, default=schema.default)}
        if schema.doc:
            found["doc"] = schema.doc
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
    if isinstance(avro, list):
        return _union(avro, from_avro, named, within)
    if isinstance(avro, str):
        if avro in _CONNECT:
            return Schema(_CONNECT[avro])
        full = next((one for one in (avro, f"{within[-1].rpartition('.')[0]}.{avro}" if within else avro) if one in named), None)
        if full is None or full in within:
            raise DataError(f"the Avro type {avro} is unknown, or holds itself")
        return connect_schema(named[full], from_avro, named, within)
    kind = avro["type"]
    if isinstance(kind, dict | list):
        return connect_schema(kind, from_avro, named, within)
    if kind in ("record", "enum", "fixed"):
        namespace = avro.get("namespace") or (within[-1].rpartition(".")[0] if within else "")
        full = avro["name"] if "." in avro["name"] or not namespace else f"{namespace}.{avro['name']}"
        named[full] = avro
        found = _named(kind, full, avro, from_avro, named, within)
    elif kind == "array" and isinstance(avro["items"], dict) and avro["items"].get("connect.internal.type") == "MapEntry":
        entry = {one["name"]: connect_schema(one["type"], from_avro, named, within) for one in avro["items"]["fields"]}
        found = Schema(Type.MAP, key_schema=entry["key"], value_schema=entry["value"])
    elif kind == "array":
        found = data.array(connect_schema(avro["items"], from_avro, named, within))
    elif kind == "map":
        found = Schema(Type.MAP, key_schema=data.STRING, value_schema=connect_schema(avro["values"], from_avro, named, within))
    elif kind in _CONNECT:
        found = _primitive(kind, avro)
    else:
        return connect_schema(kind, from_avro, named, within)
    return _with_properties(found, avro, from_avro)


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
        return Schema(Type.STRING, parameters=((ENUM, full), *symbols), doc=avro.get("doc"))
    if kind == "fixed":
        size = ((FIXED_SIZE, str(avro["size"])),)
        if avro.get("logicalType") == "decimal":
            found = _primitive("bytes", avro)
            return replace(found, parameters=(*found.parameters, *size))
        return Schema(Type.BYTES, name=full, parameters=size)
    fields = []
    for one in avro["fields"]:
        schema = connect_schema(one["type"], from_avro, named, (*within, full))
        default = one.get("default")
        if default is not None:
            schema = replace(schema, default=from_avro(schema, default))
        if one.get("doc") and schema.doc is None:
            schema = replace(schema, doc=one["doc"])
        fields.append(Field(one["name"], schema))
    is_default = full.startswith(f"{NAMESPACE}.{DEFAULT_NAME}")
    return Schema(Type.STRUCT, name=None if is_default else full, doc=avro.get("doc"), fields=tuple(fields))


def _union(avro: list[Any], from_avro: Any, named: dict[str, Any], within: tuple[str, ...]) -> Schema:
    kinds = [one for one in avro if one != "null"]
    is_optional = len(kinds) < len(avro)
    if len(kinds) == 1:
        found = connect_schema(kinds[0], from_avro, named, within)
        return replace(found, optional=True) if is_optional else found
    members = []
    for one in kinds:
        schema = connect_schema(one, from_avro, named, within)
        name = schema.name.rpartition(".")[2] if schema.type is Type.STRUCT and schema.name else _label(one)
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
    if "connect.parameters" in avro:
        changes["parameters"] = tuple(sorted({**dict(schema.parameters), **avro["connect.parameters"]}.items()))
    found = replace(schema, **changes) if changes else schema
    return replace(found, default=from_avro(found, avro["connect.default"])) if "connect.default" in avro else found
