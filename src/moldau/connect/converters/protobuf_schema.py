"""◇ Connect's schemas as Protobuf's (proto3), and back.  Source: ProtobufData, as Confluent documents it.

    int8, int16, int32   int32, the first two with connect.type     array     repeated
    int64                int64                                      map       map, with keys of integers, booleans or texts
    float32, float64     float, double                              struct    a message within its message
    string, bytes        string, bytes                              union     oneof
    boolean              bool                                       enum      enum, of a text with the enum's values as parameters

Proto3 has no null for a scalar: an optional field that is null is read as zero or empty, unless `optional.for.nullables` or
`wrapper.for.nullables` is true.  A field's number is its parameter `io.confluent.connect.protobuf.Tag`, else its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    EnumValueDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from moldau.connect import data
from moldau.connect.converters import protobuf_types as types
from moldau.connect.data import DECIMAL, Field, Schema, Type
from moldau.connect.errors import DataError

NAMESPACE: Final = "io.confluent.connect.protobuf"
DEFAULT_NAME: Final = "ConnectDefault"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
TAG: Final = f"{NAMESPACE}.Tag"
PRECISION: Final = "connect.decimal.precision"
_F: Final = FieldDescriptorProto
_SCALARS: Final = {
    Type.INT8: _F.TYPE_INT32, Type.INT16: _F.TYPE_INT32, Type.INT32: _F.TYPE_INT32, Type.INT64: _F.TYPE_INT64,
    Type.FLOAT32: _F.TYPE_FLOAT, Type.FLOAT64: _F.TYPE_DOUBLE, Type.BOOLEAN: _F.TYPE_BOOL, Type.STRING: _F.TYPE_STRING,
    Type.BYTES: _F.TYPE_BYTES,
}  # fmt: skip
_CONNECT: Final = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), Type.INT32),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64, _F.TYPE_UINT32, _F.TYPE_FIXED32), Type.INT64),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), Type.INT64),
    _F.TYPE_FLOAT: Type.FLOAT32, _F.TYPE_DOUBLE: Type.FLOAT64, _F.TYPE_BOOL: Type.BOOLEAN, _F.TYPE_STRING: Type.STRING,
    _F.TYPE_BYTES: Type.BYTES,
}  # fmt: skip
_KEYS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN, Type.STRING)


@dataclass(frozen=True, slots=True)
class Forms:
    """Confluent's options of the converter that choose between forms."""

    optional_for_nullables: bool = False
    wrapper_for_nullables: bool = False
    enhanced: bool = False
    int_for_enums: bool = False
    index_for_unions: bool = True
    raw_primitives: bool = True


def is_union(schema: Schema) -> bool:
    return schema.type is Type.STRUCT and (schema.name == UNION or (schema.name or "").startswith(f"{UNION}."))


def is_enum(schema: Schema) -> bool:
    return schema.parameter(ENUM) is not None


def camel_case(name: str) -> str:
    """The name that Protobuf wants of a map's entry."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


class Writer:
    """Makes the file of one schema, with the structs within as messages within.  Errors: DataError."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._defaults = 0
        self._imports: set[str] = set()
        self._messages: dict[Schema, str] = {}
        """The full names of the messages so far."""

    def file(self, schema: Schema) -> FileDescriptorProto:
        package, name = self._name(schema)
        message = self._message(schema, name, f"{package}." if package else "")
        file = FileDescriptorProto(name=f"{name}.proto", syntax="proto3", message_type=[message], dependency=sorted(self._imports))
        if package:
            file.package = package
        return file

    def _name(self, schema: Schema) -> tuple[str, str]:
        if schema.name is None:
            self._defaults += 1
            return "", f"{DEFAULT_NAME}{self._defaults}"
        package, _, name = schema.name.rpartition(".")
        return package, name

    def _message(self, schema: Schema, name: str, within: str) -> DescriptorProto:
        full = f"{within}{name}"
        self._messages[_plain(schema)] = full
        message = DescriptorProto(name=name)
        taken = {one.name for one in schema.fields}
        place = 1
        for field in schema.fields:
            if is_union(field.schema):
                index = len(message.oneof_decl)
                prefix = f"{UNION}."
                message.oneof_decl.add(name=(field.schema.name or "").removeprefix(prefix) if field.schema.name != UNION else field.name)
                for member in field.schema.fields:
                    made = self._field(message, full, taken, member, place)
                    made.oneof_index = index
                    place += 1
            else:
                self._field(message, full, taken, field, place)
                place += 1
        for made in message.field:  # the oneof of a field with the word optional stands behind all others
            if made.proto3_optional:
                made.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{made.name}")
        return message

    def _field(self, message: DescriptorProto, full: str, taken: set[str], field: Field, place: int) -> FieldDescriptorProto:
        schema = field.schema
        number = int(schema.parameter(TAG) or place)
        made = message.field.add(name=field.name, number=number, label=_F.LABEL_OPTIONAL)
        if schema.type is Type.ARRAY:
            made.label = _F.LABEL_REPEATED
            assert schema.value_schema is not None
            if schema.value_schema.type in (Type.ARRAY, Type.MAP):
                raise DataError(f"field {field.name}: Protobuf has no lists of lists or maps")
            self._set_type(made, message, full, taken, schema.value_schema, wraps=False)
        elif schema.type is Type.MAP:
            made.label = _F.LABEL_REPEATED
            made.type, made.type_name = _F.TYPE_MESSAGE, self._map_entry(message, full, taken, field)
        else:
            self._set_type(made, message, full, taken, schema, wraps=self._forms.wrapper_for_nullables)
            is_scalar = made.type != _F.TYPE_MESSAGE
            if schema.optional and self._forms.optional_for_nullables and is_scalar:
                made.proto3_optional = True
        return made

    def _map_entry(self, message: DescriptorProto, full: str, taken: set[str], field: Field) -> str:
        key, value = field.schema.key_schema, field.schema.value_schema
        assert key is not None and value is not None
        if key.type not in _KEYS:
            raise DataError(f"field {field.name}: Protobuf's maps have no keys of {key.type}")
        if value.type in (Type.ARRAY, Type.MAP):
            raise DataError(f"field {field.name}: Protobuf's maps have no values of lists or maps")
        name = f"{camel_case(field.name)}Entry"
        taken.add(name)
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (part, schema) in enumerate((("key", key), ("value", value)), 1):
            made = entry.field.add(name=part, number=number, label=_F.LABEL_OPTIONAL)
            self._set_type(made, message, full, taken, schema, wraps=False)
        return f".{full}.{name}"

    def _set_type(
        self, made: FieldDescriptorProto, message: DescriptorProto, full: str, taken: set[str], schema: Schema, *, wraps: bool
    ) -> None:
        if schema.name in types.LOGICAL:
            name, file = types.LOGICAL[str(schema.name)]
            self._imports.add(file)
            made.type, made.type_name = _F.TYPE_MESSAGE, f".{name}"
            if schema.name == DECIMAL:
                precision = schema.parameter(PRECISION)
                given = {"scale": schema.parameter("scale") or "0", **({"precision": precision} if precision else {})}
                self._mark(made, given)
        elif schema.type is Type.STRUCT:
            made.type, made.type_name = _F.TYPE_MESSAGE, self._nested(message, full, taken, schema)
        elif is_enum(schema):
            made.type, made.type_name = _F.TYPE_ENUM, self._enum(message, full, taken, schema)
        elif schema.optional and wraps:
            self._imports.add(types.WRAPPERS_FILE)
            made.type, made.type_name = _F.TYPE_MESSAGE, f".google.protobuf.{types.WRAPPERS[schema.type]}"
        else:
            made.type = _SCALARS[schema.type]
        if schema.type in (Type.INT8, Type.INT16):
            self._mark(made, {types.CONNECT_TYPE: str(schema.type)})

    def _mark(self, made: FieldDescriptorProto, parameters: Mapping[str, str]) -> None:
        self._imports.add(types.META_FILE)
        types.set_parameters(made, parameters)

    def _nested(self, message: DescriptorProto, full: str, taken: set[str], schema: Schema) -> str:
        known = self._messages.get(_plain(schema))
        if known is None:
            name = _free(self._name(schema)[1], taken)
            self._messages[_plain(schema)] = known = f"{full}.{name}"
            message.nested_type.append(self._message(schema, name, f"{full}."))
        return f".{known}"

    def _enum(self, message: DescriptorProto, full: str, taken: set[str], schema: Schema) -> str:
        name = (schema.parameter(ENUM) or "").rpartition(".")[2]
        values = {key.removeprefix(f"{ENUM}."): int(value) for key, value in schema.parameters if key.startswith(f"{ENUM}.")}
        made = EnumDescriptorProto(name=name)
        for symbol, number in sorted(values.items(), key=lambda one: one[1]):
            made.value.append(EnumValueDescriptorProto(name=symbol, number=number))
        if made not in message.enum_type:
            made.name = _free(name, taken)
            message.enum_type.append(made)
        return f".{full}.{made.name}"


def _plain(schema: Schema) -> Schema:
    """Schemas that share a message."""
    kept = tuple(one for one in schema.parameters if one[0] != TAG)
    return replace(schema, optional=False, default=None, doc=None, parameters=kept)


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number if a field or another message has it."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}{number}"
    taken.add(found)
    return found


# ------------------------------------------------------------ back


def connect_schema(message: Any, forms: Forms, within: tuple[str, ...] = ()) -> Schema:
    """Connect's schema of a message's descriptor.  Errors: DataError, also for a message that holds itself."""
    if message.full_name in within:
        raise DataError(f"the Protobuf message {message.full_name} holds itself")
    within = (*within, message.full_name)
    fields: list[Field] = []
    seen: set[str] = set()
    for one in message.fields:
        oneof = _oneof(one)
        if oneof is None:
            fields.append(Field(one.name, _tagged(_of_field(one, forms, within), one)))
        elif oneof.name not in seen:
            seen.add(oneof.name)
            members = tuple(Field(each.name, _tagged(_of_field(each, forms, within), each)) for each in oneof.fields)
            union = Schema(Type.STRUCT, True, f"{UNION}.{oneof.name}", fields=members)
            fields.append(Field(union_field(oneof, forms), union))
    name = message.full_name if forms.enhanced else message.name
    return Schema(Type.STRUCT, name=name, fields=tuple(fields))


def _oneof(field: Any) -> Any:
    """The oneof that the field is a member of; None for the one behind the word optional."""
    found = field.containing_oneof
    return None if found is None or (len(found.fields) == 1 and found.name == f"_{field.name}") else found


def union_field(oneof: Any, forms: Forms) -> str:
    return f"{oneof.name}_{oneof.index}" if forms.index_for_unions else str(oneof.name)


def _tagged(schema: Schema, field: Any) -> Schema:
    return replace(schema, parameters=(*schema.parameters, (TAG, str(field.number))))


def _of_field(field: Any, forms: Forms, within: tuple[str, ...]) -> Schema:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    if is_map:
        parts = field.message_type.fields_by_name
        key, value = (_of_type(parts[name], forms, within) for name in ("key", "value"))
        return Schema(Type.MAP, True, key_schema=key, value_schema=value)
    found = _of_type(field, forms, within)
    if field.is_repeated:
        return data.array(found, optional=True)
    if forms.optional_for_nullables and field.message_type is None:
        return replace(found, optional=bool(field.containing_oneof))
    if forms.wrapper_for_nullables and field.message_type is None:
        return replace(found, optional=False)
    return found


def _of_type(field: Any, forms: Forms, within: tuple[str, ...]) -> Schema:
    if field.enum_type is not None:
        if forms.int_for_enums:
            return Schema(Type.INT32, True)
        values = tuple((f"{ENUM}.{one.name}", str(one.number)) for one in field.enum_type.values)
        name = field.enum_type.full_name if forms.enhanced else field.enum_type.name
        return Schema(Type.STRING, True, parameters=((ENUM, name), *values))
    if field.message_type is None:
        marked = types.parameters_of(field).get(types.CONNECT_TYPE)
        return Schema(Type(marked) if marked in ("int8", "int16") else _CONNECT[field.type], True)
    full = field.message_type.full_name
    if full in types.READERS:
        return types.logical_schema(full, types.parameters_of(field))
    if is_wrapper(full) and (forms.wrapper_for_nullables or forms.raw_primitives):
        marked = types.parameters_of(field).get(types.CONNECT_TYPE)
        return Schema(Type(marked) if marked in ("int8", "int16") else types.WRAPPED[full.rpartition(".")[2]], True)
    return replace(connect_schema(field.message_type, forms, within), optional=True)


def is_wrapper(full_name: str) -> bool:
    package, _, name = full_name.rpartition(".")
    return package == "google.protobuf" and name in types.WRAPPED
