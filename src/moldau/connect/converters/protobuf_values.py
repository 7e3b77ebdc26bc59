"""◇ Connect's values as Protobuf's messages, and back."""

from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from moldau.connect.converters import protobuf_types as types
from moldau.connect.converters.protobuf_names import scrubbed
from moldau.connect.converters.protobuf_schema import Forms, enum_of, in_oneof, is_union, union_field
from moldau.connect.data import Schema, Struct, Type
from moldau.connect.errors import DataError

_UNSIGNED: Final = (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64)
"""Their upper half is negative in Connect, as in Java."""


class Values:
    """Fills messages and reads them, in the forms of one converter."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms

    def fill(self, message: Any, schema: Schema, struct: Any) -> None:
        """Errors: DataError."""
        if not isinstance(struct, Struct):
            raise DataError(f"a struct is expected, and the value is a {type(struct).__name__}")
        for field in schema.fields:
            value = struct.get(field.name)
            if value is None:
                continue
            if is_union(field.schema):
                self.fill(message, field.schema, value)
                continue
            try:
                self._set(message, scrubbed(field.name) if self._forms.scrub else field.name, field.schema, value)
            except (TypeError, ValueError, AttributeError, KeyError, OverflowError) as error:
                raise DataError(f"field {field.name} does not fit its Protobuf schema: {error}") from error

    def _set(self, message: Any, name: str, schema: Schema, value: Any) -> None:
        field = message.DESCRIPTOR.fields_by_name[name]
        if schema.type is Type.MAP:
            self._set_map(message, field, schema, value)
        elif schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            target = getattr(message, name)
            for one in value:
                if field.message_type is None or one is None:
                    target.append(_scalar(field, schema.value_schema, one))
                else:
                    self._fill_message(target.add(), schema.value_schema, one)
        elif field.message_type is None:
            setattr(message, name, _scalar(field, schema, value))
        else:
            getattr(message, name).SetInParent()
            self._fill_message(getattr(message, name), schema, value)

    def _set_map(self, message: Any, field: Any, schema: Schema, value: dict[Any, Any]) -> None:
        assert schema.key_schema is not None and schema.value_schema is not None
        target = getattr(message, field.name)
        if not field.message_type.GetOptions().map_entry:
            for key, one in value.items():
                made = target.add()
                for part, kind, each in (("key", schema.key_schema, key), ("value", schema.value_schema, one)):
                    if each is not None:
                        self._set(made, part, kind, each)
            return
        part = field.message_type.fields_by_name["value"]
        for key, one in value.items():  # of a schema that somebody else registered
            if part.message_type is None or one is None:
                target[key] = _scalar(part, schema.value_schema, one)
            else:
                self._fill_message(target[key], schema.value_schema, one)

    def _fill_message(self, message: Any, schema: Schema, value: Any) -> None:
        if schema.type is Type.STRUCT:
            self.fill(message, schema, value)
        elif schema.name in types.LOGICAL:
            types.fill_logical(message, schema, value)
        else:
            message.value = _scalar(message.DESCRIPTOR.fields_by_name["value"], schema, value)

    def struct(self, schema: Schema, message: Any) -> Struct:
        """Errors: DataError."""
        values: dict[str, Any] = {}
        unions = {union_field(one, self._forms): one for one in message.DESCRIPTOR.oneofs}
        for field in schema.fields:
            if not is_union(field.schema):
                values[field.name] = self._read_field(message, field.name, field.schema)
                continue
            chosen = message.WhichOneof(unions[field.name].name)
            inner = next((one.schema for one in field.schema.fields if one.name == chosen), None)
            found = None if inner is None else Struct(field.schema, {chosen: self._read_field(message, chosen, inner)})
            values[field.name] = found
        return Struct(schema, values)

    def _read_field(self, message: Any, name: str, schema: Schema) -> Any:
        field = message.DESCRIPTOR.fields_by_name[name]
        found = getattr(message, name)
        if schema.type is Type.MAP:
            return self._map(field, schema, found)
        if field.is_repeated:
            assert schema.value_schema is not None
            return [self.read(field, schema.value_schema, one) for one in found]
        if field.has_presence and not message.HasField(name) and not self._is_told(field):
            return None
        return self.read(field, schema, found)

    def _is_told(self, field: Any) -> bool:
        """Whether a field that the message does not have is read as its default."""
        if in_oneof(field):
            return False
        is_of_proto2 = field.message_type is None and field.containing_oneof is None
        return self._forms.struct_for_nulls or (is_of_proto2 and not self._forms.optional_for_proto2)

    def _map(self, field: Any, schema: Schema, found: Any) -> dict[Any, Any]:
        assert schema.key_schema is not None and schema.value_schema is not None
        key, value = field.message_type.fields
        is_map = field.message_type.GetOptions().map_entry
        entries = ((one, found[one]) for one in found) if is_map else ((one.key, one.value) for one in found)
        return {self.read(key, schema.key_schema, a): self.read(value, schema.value_schema, b) for a, b in entries}

    def read(self, field: Any, schema: Schema, value: Any) -> Any:
        """One value of a field, of its elements, or of a map's part.  Errors: DataError."""
        if field.enum_type is not None:
            named = field.enum_type.values_by_number.get(value)
            if self._forms.int_for_enums:
                return value
            return f"UNKNOWN_ENUM_VALUE_{field.enum_type.name}_{value}" if named is None else named.name
        if field.message_type is None:
            return value - (1 << 64) if field.type in _UNSIGNED and value >= 1 << 63 else value
        full = field.message_type.full_name
        if full in types.READERS:
            try:
                return types.READERS[full](value)
            except (ValueError, OverflowError) as error:
                raise DataError(f"field {field.name} holds no {full}: {error}") from error
        if schema.type is Type.STRUCT:
            return self.struct(schema, value)
        return self.read(field.message_type.fields_by_name["value"], schema, value.value)


def _scalar(field: Any, schema: Schema, value: Any) -> Any:
    if value is None:
        raise DataError(f"field {field.name}: Protobuf's lists and maps hold no null")
    if field.enum_type is not None and enum_of(schema) is not None and isinstance(value, str):
        found = field.enum_type.values_by_name.get(value)
        if found is None:
            raise DataError(f"{value} is no value of the enum {field.enum_type.name}")
        return found.number
    if field.type in _UNSIGNED and schema.type is Type.INT64 and value < 0:
        return value + (1 << 64)
    return checked(schema, value)


def checked(schema: Schema, value: Any) -> Any:
    """The value.  Errors: DataError for a boolean where a number belongs, which Protobuf would take."""
    if isinstance(value, bool) != (schema.type is Type.BOOLEAN):
        raise DataError(f"{value!r} is no {schema.type}")
    return value
