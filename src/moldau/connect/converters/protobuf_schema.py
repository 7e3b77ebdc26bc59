"""◇ Protobuf's messages as Connect's schemas; `protobuf_writing` makes the messages of schemas.  Source: as there.

    int8, int16, int32   int32, the first two with connect.type     array     repeated
    int64                int64                                      map       repeated message of a key and a value, or map
    float32, float64     float, double                              struct    a message within its message
    string, bytes        string, bytes                              union     oneof
    boolean              bool                                       enum      enum, of a text with the enum's values as parameters

Proto3 has no null for a scalar: an optional field that is null is read as zero or empty, unless `optional.for.nullables` or
`wrapper.for.nullables` is true.  A field's number is its parameter `io.confluent.connect.protobuf.Tag`, else the next from 1 on.  Other
integers, such as sint32, keep their types in the parameter `io.confluent.connect.protobuf.Type`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto

from moldau.connect import data
from moldau.connect.converters import protobuf_types as types
from moldau.connect.converters.protobuf_names import snake_case
from moldau.connect.data import Field, Schema, Type
from moldau.connect.errors import DataError

NAMESPACE: Final = "io.confluent.connect.protobuf"
DEFAULT_NAME: Final = "ConnectDefault"
UNION: Final = f"{NAMESPACE}.Union"
ENUM: Final = f"{NAMESPACE}.Enum"
TAG: Final = f"{NAMESPACE}.Tag"
PROTOBUF_TYPE: Final = f"{NAMESPACE}.Type"
GENERAL_UNION: Final = "org.apache.kafka.connect.data.Union"
GENERAL_ENUM: Final = "org.apache.kafka.connect.data.Enum"
_F: Final = FieldDescriptorProto
TYPE_NAMES: Final = {
    "uint32": _F.TYPE_UINT32, "sint32": _F.TYPE_SINT32, "fixed32": _F.TYPE_FIXED32, "sfixed32": _F.TYPE_SFIXED32,
    "uint64": _F.TYPE_UINT64, "sint64": _F.TYPE_SINT64, "fixed64": _F.TYPE_FIXED64, "sfixed64": _F.TYPE_SFIXED64,
}  # fmt: skip
"""The integers that are not the usual ones."""
_NAMES_OF_TYPES: Final = {number: name for name, number in TYPE_NAMES.items()}
_CONNECT: Final = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), Type.INT32),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64, _F.TYPE_UINT32, _F.TYPE_FIXED32), Type.INT64),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), Type.INT64),
    _F.TYPE_FLOAT: Type.FLOAT32, _F.TYPE_DOUBLE: Type.FLOAT64, _F.TYPE_BOOL: Type.BOOLEAN, _F.TYPE_STRING: Type.STRING,
    _F.TYPE_BYTES: Type.BYTES,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Forms:
    """Confluent's options of the converter that choose between forms."""

    optional_for_nullables: bool = False
    optional_for_proto2: bool = True
    wrapper_for_nullables: bool = False
    enhanced: bool = False
    general: bool = False
    int_for_enums: bool = False
    index_for_unions: bool = True
    flat_unions: bool = False
    raw_primitives: bool = True
    struct_for_nulls: bool = False
    scrub: bool = False


def forms_of(options: Mapping[str, Any]) -> Forms:
    """The forms that the converter's options choose."""
    return Forms(
        optional_for_nullables=options["optional.for.nullables"],
        optional_for_proto2=options["optional.for.proto2"],
        wrapper_for_nullables=options["wrapper.for.nullables"],
        enhanced=options["enhanced.protobuf.schema.support"],
        general=options["generalized.sum.type.support"],
        int_for_enums=options["int.for.enums"],
        index_for_unions=options["generate.index.for.unions"],
        flat_unions=options["flatten.unions"],
        raw_primitives=options["wrapper.for.raw.primitives"],
        struct_for_nulls=options["generate.struct.for.nulls"],
        scrub=options["scrub.invalid.names"],
    )


def is_union(schema: Schema) -> bool:
    if schema.type is not Type.STRUCT:
        return False
    return schema.name == UNION or (schema.name or "").startswith(f"{UNION}.") or schema.parameter(GENERAL_UNION) is not None


def oneof_name(field: Field) -> str:
    """The name of a union's oneof."""
    name = field.schema.name
    return field.name if name is None or name == UNION else name.rpartition(".")[2]


def enum_of(schema: Schema) -> tuple[str, str] | None:
    """The prefix of the enum's parameters, and the name of the enum; None for a schema of no enum."""
    for prefix in (ENUM, GENERAL_ENUM):
        name = schema.parameter(prefix)
        if name is not None:
            return prefix, name
    return None


def connect_schema(message: Any, forms: Forms, within: tuple[str, ...] = ()) -> Schema:
    """Connect's schema of a message's descriptor, oneofs first.  Errors: DataError, also for a message that holds itself."""
    if message.full_name in within:
        raise DataError(f"the Protobuf message {message.full_name} holds itself")
    within = (*within, message.full_name)
    fields: list[Field] = []
    for oneof in message.oneofs:
        if _is_real(oneof):
            members = tuple(Field(each.name, _tagged(_of_field(each, forms, within), each)) for each in oneof.fields)
            fields.extend(members if forms.flat_unions else [Field(union_field(oneof, forms), _union(oneof, members, forms))])
    for one in message.fields:
        if one.containing_oneof is None or not _is_real(one.containing_oneof):
            fields.append(Field(one.name, _tagged(_of_field(one, forms, within), one)))
    return Schema(Type.STRUCT, name=_name(message, forms), fields=tuple(fields))


def _name(descriptor: Any, forms: Forms) -> str:
    return str(descriptor.full_name if forms.enhanced else descriptor.name)


def _is_real(oneof: Any) -> bool:
    """Whether the oneof is not the one behind the word optional."""
    return not (len(oneof.fields) == 1 and oneof.name == f"_{oneof.fields[0].name}")


def _union(oneof: Any, members: tuple[Field, ...], forms: Forms) -> Schema:
    if forms.general:
        name = str(oneof.name)
        return Schema(Type.STRUCT, True, name, parameters=((GENERAL_UNION, name),), fields=members)
    return Schema(Type.STRUCT, True, f"{UNION}.{_name(oneof, forms)}", fields=members)


def union_field(oneof: Any, forms: Forms) -> str:
    return f"{oneof.name}_{oneof.index}" if forms.index_for_unions else str(oneof.name)


def _tagged(schema: Schema, field: Any) -> Schema:
    return replace(schema, parameters=(*schema.parameters, (TAG, str(field.number))))


def _is_map(field: Any, forms: Forms) -> bool:
    """Whether the field is a map, or repeats a message that Confluent's converter makes of a map's entries."""
    message = field.message_type
    if message is None or not field.is_repeated:
        return False
    if message.GetOptions().map_entry:
        return True
    parts = message.fields
    is_entry = message.name.endswith("Entry") and [one.name for one in parts] == ["key", "value"]
    if not is_entry or any(one.is_repeated for one in parts):
        return False
    return parts[0].message_type is None or _is_scalar(parts[0].message_type.full_name, forms)


def _of_map(message: Any, forms: Forms, within: tuple[str, ...]) -> Schema:
    key, value = (_tagged(_of_single(one, forms, within), one) for one in message.fields)
    name = snake_case(message.name.removesuffix("Entry"))
    if forms.enhanced:
        name = f"{message.full_name.rpartition('.')[0]}.{name}"
    return Schema(Type.MAP, True, name, key_schema=key, value_schema=value)


def _of_field(field: Any, forms: Forms, within: tuple[str, ...]) -> Schema:
    if _is_map(field, forms):
        return _of_map(field.message_type, forms, within)
    if field.is_repeated:
        return data.array(_of_type(field, forms, within), optional=True)
    return _of_single(field, forms, within)


def _of_single(field: Any, forms: Forms, within: tuple[str, ...]) -> Schema:
    found = _of_type(field, forms, within)
    if field.message_type is None and field.enum_type is None and (forms.optional_for_nullables or forms.wrapper_for_nullables):
        may_be_null = forms.optional_for_nullables or in_oneof(field)
        return replace(found, optional=may_be_null and field.has_presence and not field.is_required)
    return found


def in_oneof(field: Any) -> bool:
    return field.containing_oneof is not None and _is_real(field.containing_oneof)


def _of_type(field: Any, forms: Forms, within: tuple[str, ...]) -> Schema:
    if field.enum_type is not None:
        prefix = GENERAL_ENUM if forms.general else ENUM
        values = tuple((f"{prefix}.{one.name}", str(one.number)) for one in field.enum_type.values)
        kind = Type.INT32 if forms.int_for_enums else Type.STRING
        return Schema(kind, True, _name(field.enum_type, forms), parameters=((prefix, str(field.enum_type.name)), *values))
    if field.message_type is None:
        marked = types.parameters_of(field).get(types.CONNECT_TYPE)
        kind = Type(marked) if marked in ("int8", "int16") else _CONNECT[field.type]
        named = _NAMES_OF_TYPES.get(field.type)
        return Schema(kind, True, parameters=() if named is None else ((PROTOBUF_TYPE, named),))
    full = field.message_type.full_name
    if full in types.READERS:
        return types.logical_schema(full, types.parameters_of(field))
    if _is_scalar(full, forms):
        return Schema(types.WRAPPED[full.rpartition(".")[2]], True)
    return replace(connect_schema(field.message_type, forms, within), optional=True)


def _is_scalar(full_name: str, forms: Forms) -> bool:
    """Whether the message is read as a value that is no struct."""
    return full_name in types.READERS or (is_wrapper(full_name) and (forms.wrapper_for_nullables or forms.raw_primitives))


def is_wrapper(full_name: str) -> bool:
    package, _, name = full_name.rpartition(".")
    return package == "google.protobuf" and name in types.WRAPPED
