"""◇ Connect's schemas as Protobuf's files (proto3).  Source: ProtobufData, as Confluent documents it and as its classes answer.

A struct within is a message within the message that holds it, and is made there once.  A map is a repeated message whose name ends in
Entry, without the option `map_entry`: its bytes are those of a map, and its keys and values may have types that Protobuf's maps refuse.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    EnumValueDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from moldau.connect.converters import protobuf_types as types
from moldau.connect.converters.protobuf_names import camel_case, scrubbed
from moldau.connect.converters.protobuf_schema import DEFAULT_NAME, PROTOBUF_TYPE, TAG, TYPE_NAMES, Forms, enum_of, is_union, oneof_name
from moldau.connect.data import DECIMAL, Field, Schema, Type
from moldau.connect.errors import DataError

PRECISION: Final = "connect.decimal.precision"
_F: Final = FieldDescriptorProto
_SCALARS: Final = {
    Type.INT8: _F.TYPE_INT32, Type.INT16: _F.TYPE_INT32, Type.INT32: _F.TYPE_INT32, Type.INT64: _F.TYPE_INT64,
    Type.FLOAT32: _F.TYPE_FLOAT, Type.FLOAT64: _F.TYPE_DOUBLE, Type.BOOLEAN: _F.TYPE_BOOL, Type.STRING: _F.TYPE_STRING,
    Type.BYTES: _F.TYPE_BYTES,
}  # fmt: skip
_NO_KEYS: Final = (Type.STRUCT, Type.ARRAY, Type.MAP)
_UNSIGNED: Final = {"uint32": "UInt32Value", "fixed32": "UInt32Value", "uint64": "UInt64Value", "fixed64": "UInt64Value"}
_ENTRY: Final = "Entry"


@dataclass(slots=True)
class _Scope:
    """One message, and what has been made within it."""

    message: DescriptorProto
    full: str
    taken: set[str]
    made: dict[Schema, str] = field(default_factory=dict)
    """The names of the messages within."""
    place: int = 0
    """The last number that was given to a field without one of its own."""

    def free(self, name: str, suffix: str = "") -> str:
        """The name and the suffix, with a number between if a field or another message has them."""
        found, number = f"{name}{suffix}", 1
        while found in self.taken:
            number += 1
            found = f"{name}{number}{suffix}"
        self.taken.add(found)
        return found


class Writer:
    """Makes the file of one schema.  Errors: DataError."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._defaults = 0
        self._imports: set[str] = set()

    def file(self, schema: Schema) -> FileDescriptorProto:
        package = self._clean((schema.name or "").rpartition(".")[0])
        name = self._name(schema)
        message = self._message(schema, name, f"{package}." if package else "")
        file = FileDescriptorProto(name=f"{name}.proto", syntax="proto3", message_type=[message], dependency=sorted(self._imports))
        if package:
            file.package = package
        return file

    def _clean(self, name: str) -> str:
        return scrubbed(name) if self._forms.scrub else name

    def _name(self, schema: Schema) -> str:
        if schema.name is None:
            self._defaults += 1
            return f"{DEFAULT_NAME}{self._defaults}"
        return self._clean(schema.name.rpartition(".")[2])

    def _message(self, schema: Schema, name: str, within: str) -> DescriptorProto:
        message = DescriptorProto(name=name)
        fields = [
            one for each in schema.fields for one in ((each, *each.schema.fields) if is_union(each.schema) else (each,))
        ]  # fmt: skip
        scope = _Scope(message, f"{within}{name}", {self._clean(one.name) for one in fields})
        for each in schema.fields:
            if is_union(each.schema):
                index = len(message.oneof_decl)
                message.oneof_decl.add(name=oneof_name(each))
                for member in each.schema.fields:
                    self._field(scope, member).oneof_index = index
            else:
                made = self._field(scope, each)
                is_repeated = made.label == _F.LABEL_REPEATED
                made.proto3_optional = each.schema.optional and self._forms.optional_for_nullables and not is_repeated
                if not made.proto3_optional:
                    made.ClearField("proto3_optional")
        for made in message.field:  # the oneof of a field with the word optional stands behind all others
            if made.proto3_optional:
                made.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{made.name}")
        return message

    def _field(self, scope: _Scope, one: Field) -> FieldDescriptorProto:
        schema = one.schema
        tag = schema.parameter(TAG)
        if tag is None:
            scope.place += 1
        number = int(tag) if tag is not None else scope.place
        made = scope.message.field.add(name=self._clean(one.name), number=number, label=_F.LABEL_OPTIONAL)
        if schema.type is Type.ARRAY:
            made.label = _F.LABEL_REPEATED
            assert schema.value_schema is not None
            if schema.value_schema.type in (Type.ARRAY, Type.MAP):
                raise DataError(f"field {one.name}: Protobuf has no lists of lists or maps")
            self._set_type(made, scope, schema.value_schema)
        elif schema.type is Type.MAP:
            made.label = _F.LABEL_REPEATED
            made.type, made.type_name = _F.TYPE_MESSAGE, self._map_entry(scope, one)
        else:
            self._set_type(made, scope, schema)
        return made

    def _map_entry(self, scope: _Scope, one: Field) -> str:
        key, value = one.schema.key_schema, one.schema.value_schema
        assert key is not None and value is not None
        if key.type in _NO_KEYS:
            raise DataError(f"field {one.name}: Protobuf's maps have no keys of {key.type}")
        plain = _plain(one.schema)
        if plain not in scope.made or one.schema.name is None:
            name = scope.free(camel_case(self._name(one.schema)), _ENTRY)
            scope.made[plain] = name
            entry = scope.message.nested_type.add(name=name)
            inner = _Scope(entry, f"{scope.full}.{name}", {"key", "value"})
            for part, schema in (("key", key), ("value", value)):
                self._field(inner, Field(part, schema))
        return f".{scope.full}.{scope.made[plain]}"

    def _set_type(self, made: FieldDescriptorProto, scope: _Scope, schema: Schema) -> None:
        if schema.name in types.LOGICAL:
            name, file = types.LOGICAL[str(schema.name)]
            self._imports.add(file)
            made.type, made.type_name = _F.TYPE_MESSAGE, f".{name}"
            if schema.name == DECIMAL:
                precision = schema.parameter(PRECISION)
                given = {"scale": schema.parameter("scale") or "0", **({"precision": precision} if precision else {})}
                self._mark(made, given)
        elif schema.type is Type.STRUCT:
            made.type, made.type_name = _F.TYPE_MESSAGE, self._nested(scope, schema)
        elif enum_of(schema) is not None:
            made.type, made.type_name = _F.TYPE_ENUM, self._enum(scope, schema)
        elif schema.optional and self._forms.wrapper_for_nullables:
            self._imports.add(types.WRAPPERS_FILE)
            name = _UNSIGNED.get(schema.parameter(PROTOBUF_TYPE) or "", types.WRAPPERS[schema.type])
            made.type, made.type_name = _F.TYPE_MESSAGE, f".google.protobuf.{name}"
        else:
            made.type = TYPE_NAMES.get(schema.parameter(PROTOBUF_TYPE) or "", _SCALARS[schema.type])
        if schema.type in (Type.INT8, Type.INT16):
            self._mark(made, {types.CONNECT_TYPE: str(schema.type)})

    def _mark(self, made: FieldDescriptorProto, parameters: Mapping[str, str]) -> None:
        self._imports.add(types.META_FILE)
        types.set_parameters(made, parameters)

    def _nested(self, scope: _Scope, schema: Schema) -> str:
        plain = _plain(schema)
        if plain not in scope.made or schema.name is None:
            name = scope.made[plain] = scope.free(self._name(schema))
            scope.message.nested_type.append(self._message(schema, name, f"{scope.full}."))
        return f".{scope.full}.{scope.made[plain]}"

    def _enum(self, scope: _Scope, schema: Schema) -> str:
        prefix, given = enum_of(schema) or ("", "")
        name = self._clean((schema.name or given).rpartition(".")[2])
        values = {key.removeprefix(f"{prefix}."): int(value) for key, value in schema.parameters if key.startswith(f"{prefix}.")}
        made = EnumDescriptorProto(name=name)
        for symbol, number in sorted(values.items(), key=lambda one: one[1]):
            made.value.append(EnumValueDescriptorProto(name=symbol, number=number))
        if made not in scope.message.enum_type:
            made.name = scope.free(name)
            scope.message.enum_type.append(made)
        return f".{scope.full}.{made.name}"


def _plain(schema: Schema) -> Schema:
    """Schemas that share a message."""
    kept = tuple(one for one in schema.parameters if one[0] != TAG)
    return replace(schema, optional=False, default=None, doc=None, parameters=kept)
