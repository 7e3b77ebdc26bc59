"""● Random schemas of Connect that Protobuf can hold, random messages of Protobuf, and values of both."""

from dataclasses import replace
from random import Random
from typing import Any, Final

from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from moldau.connect import data
from moldau.connect.converters import protobuf_types as types
from moldau.connect.converters.protobuf_schema import PROTOBUF_TYPE, TAG, TYPE_NAMES, UNION
from moldau.connect.data import Field, Schema, Struct, Type
from proof.connect.avro_data import LEAVES, RandomConnect

# ------------------------------------------------------------ random schemas of Connect


class RandomRows(RandomConnect):
    """Makes schemas that Protobuf can hold, and values."""

    def __init__(self, random: Random, *, has_oneofs: bool, enum: str) -> None:
        """`enum`: what an enum's parameters begin with."""
        super().__init__(random)
        self.has_oneofs = has_oneofs
        self.prefix = enum

    def schema(self, depth: int) -> Schema:
        random = self.random
        what = random.random()
        if depth and what < 0.15:
            return self.decorated(data.array(self.element(depth - 1)))
        if depth and what < 0.3:
            keys = (data.STRING, data.STRING, data.INT8, data.INT32, data.INT64, data.BOOLEAN)
            value = self.schema(depth - 1) if random.random() < 0.4 else self.element(depth - 1)
            return self.decorated(Schema(Type.MAP, key_schema=self.decorated(random.choice(keys)), value_schema=value))
        return self.element(depth)

    def element(self, depth: int) -> Schema:
        random = self.random
        what = random.random()
        if depth and what < 0.2:
            return self.decorated(self.struct(depth - 1))
        if what < 0.27:
            return self.decorated(self.enum())
        if what < 0.33:
            name = random.choice(tuple(TYPE_NAMES))
            kind = Type.INT32 if name in ("sint32", "sfixed32") else Type.INT64
            return Schema(kind, random.random() < 0.3, parameters=((PROTOBUF_TYPE, name),))
        found = self.decorated(random.choice(LEAVES)[0])
        if found.name == data.DECIMAL and random.random() < 0.3:
            found = replace(found, parameters=(*found.parameters, ("connect.decimal.precision", "30")))
        return found

    def enum(self) -> Schema:
        self.number += 1
        name = f"E{self.number}"
        return Schema(
            Type.STRING, name=name, parameters=((self.prefix, name), (f"{self.prefix}.A{name}", "0"), (f"{self.prefix}.B{name}", "1"))
        )

    def struct(self, depth: int) -> Schema:
        found = super().struct(depth)
        if self.has_oneofs and self.random.random() < 0.15:
            members = tuple(
                Field(f"m{place}", self.tagged(self.element(max(depth - 1, 0)), 100 + place))
                for place in range(self.random.randrange(1, 4))
            )
            union = Schema(Type.STRUCT, True, f"{UNION}.choice", fields=members)
            found = replace(found, fields=(*found.fields, Field("choice_0", union)))
        return found

    def tagged(self, schema: Schema, number: int) -> Schema:
        return replace(schema, optional=True, default=None, parameters=(*schema.parameters, (TAG, str(number))))

    def decorated(self, schema: Schema) -> Schema:
        found = super().decorated(schema)
        is_named = found.type is Type.STRUCT or schema.name is not None
        if found.type is Type.MAP and self.random.random() < 0.5:
            self.number += 1
            return replace(found, name=self.random.choice((f"some_map{self.number}", f"n.map{self.number}")))
        found = found if is_named else replace(found, name=None, version=None)
        return replace(found, default=None)

    def value(self, schema: Schema, *, may_be_null: bool = True) -> Any:
        if schema.name == f"{UNION}.choice":
            if self.random.random() < 0.3:
                return None
            chosen = self.random.choice(schema.fields)
            return Struct(schema, {chosen.name: self.value(chosen.schema, may_be_null=False)})
        symbols = [key.rpartition(".")[2] for key, _ in schema.parameters if key.startswith(f"{self.prefix}.")]
        if symbols and not (may_be_null and schema.optional and self.random.random() < 0.4):
            return self.random.choice(symbols)
        if schema.type is Type.MAP:
            assert schema.key_schema is not None and schema.value_schema is not None
            if may_be_null and schema.optional and self.random.random() < 0.4:
                return None
            key = self.value(schema.key_schema, may_be_null=False)
            return {key: self.value(schema.value_schema)} if self.random.random() < 0.6 else {}
        marked = schema.parameter(PROTOBUF_TYPE)
        if marked is not None:
            negative = (-1, -300) if schema.type is Type.INT64 and marked.endswith("64") else ()
            return self.random.choice((0, 1, 300, 2**31 - 1, *negative))
        return super().value(schema, may_be_null=may_be_null)


# ------------------------------------------------------------ random messages of Protobuf

_F: Final = FieldDescriptorProto
MESSAGES: Final = (
    "google.protobuf.Timestamp", "google.type.Date", "google.type.TimeOfDay", "confluent.type.Decimal", "google.protobuf.Duration",
    *(f"google.protobuf.{name}" for name in types.WRAPPED),
)  # fmt: skip
SCALARS: Final[dict[int, tuple[Any, ...]]] = {
    _F.TYPE_INT32: (0, -1, 2**31 - 1), _F.TYPE_SINT32: (0, -(2**31)), _F.TYPE_SFIXED32: (0, -5), _F.TYPE_UINT32: (0, 2**32 - 1),
    _F.TYPE_FIXED32: (0, 2**31), _F.TYPE_INT64: (0, -(2**63)), _F.TYPE_SINT64: (0, -7), _F.TYPE_SFIXED64: (0, 2**62),
    _F.TYPE_UINT64: (0, 2**64 - 1), _F.TYPE_FIXED64: (0, 2**63), _F.TYPE_FLOAT: (0.0, 1.5), _F.TYPE_DOUBLE: (0.0, 1e300),
    _F.TYPE_BOOL: (False, True), _F.TYPE_STRING: ("", "ü"), _F.TYPE_BYTES: (b"", b"\x00\xff"),
}  # fmt: skip
KEYS: Final = (_F.TYPE_STRING, _F.TYPE_STRING, _F.TYPE_INT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_SINT32, _F.TYPE_FIXED64)


class RandomFile:
    def __init__(self, random: Random, *, has_oneofs: bool) -> None:
        self.random = random
        self.has_oneofs = has_oneofs
        self.number = 0
        self.file = FileDescriptorProto(name="random.proto", syntax=random.choice(("proto3", "proto3", "proto2")))
        self.file.package = random.choice(("", "a", "a.b"))

    def case(self) -> tuple[FileDescriptorProto, bytes]:
        prefix = f".{self.file.package}." if self.file.package else "."
        self.file.message_type.append(self.message(prefix, 3))
        pool = types.pool_of({"random.proto": self.file})
        kind = pool.FindMessageTypeByName(f"{prefix}{self.file.message_type[0].name}"[1:])
        return self.file, self.filled(message_factory.GetMessageClass(kind)()).SerializeToString(deterministic=True)

    @property
    def is_proto2(self) -> bool:
        return bool(self.file.syntax == "proto2")

    def message(self, within: str, depth: int) -> DescriptorProto:
        random = self.random
        self.number += 1
        made = DescriptorProto(name=f"M{self.number}")
        full = f"{within}{made.name}"
        numbers = iter(sorted(random.sample(range(1, 30), 8)))
        for place in range(random.randrange(1, 5)):
            one = made.field.add(name=random.choice(("f", "some_f", "aB")) + str(place), number=next(numbers), label=_F.LABEL_OPTIONAL)
            what = random.random()
            if depth and what < 0.2:
                one.label = _F.LABEL_REPEATED
                one.type, one.type_name = _F.TYPE_MESSAGE, self.entry(made, full, one.name, depth - 1)
                continue
            if what < 0.4:
                one.label = _F.LABEL_REPEATED
            elif self.is_proto2 and what < 0.5:
                one.label = _F.LABEL_REQUIRED
            self.kind(one, made, full, depth)
            if what > 0.9 and not self.is_proto2:
                one.proto3_optional = True
        if self.has_oneofs and random.random() < 0.3:
            made.oneof_decl.add(name="choice")
            for place in range(random.randrange(1, 4)):
                one = made.field.add(name=f"c{place}", number=next(numbers), label=_F.LABEL_OPTIONAL, oneof_index=0)
                self.kind(one, made, full, depth)
        for one in made.field:
            if one.proto3_optional:
                one.oneof_index = len(made.oneof_decl)
                made.oneof_decl.add(name=f"_{one.name}")
        return made

    def kind(self, one: FieldDescriptorProto, made: DescriptorProto, full: str, depth: int) -> None:
        random = self.random
        what = random.random()
        if depth and what < 0.25:
            inner = self.message(f"{full}.", depth - 1)
            made.nested_type.append(inner)
            one.type, one.type_name = _F.TYPE_MESSAGE, f"{full}.{inner.name}"
        elif what < 0.35:
            self.number += 1
            enum = made.enum_type.add(name=f"E{self.number}")
            for number, symbol in enumerate("XYZ"):
                enum.value.add(name=f"{symbol}{self.number}", number=number)
            one.type, one.type_name = _F.TYPE_ENUM, f"{full}.{enum.name}"
        elif what < 0.55:
            name = random.choice(MESSAGES)
            one.type, one.type_name = _F.TYPE_MESSAGE, f".{name}"
            file = next(
                file for file, known in types.KNOWN.items() if name in (f"{known.package}.{each.name}" for each in known.message_type)
            )
            if file not in self.file.dependency:
                self.file.dependency.append(file)
        else:
            one.type = random.choice(tuple(SCALARS))

    def entry(self, made: DescriptorProto, full: str, field: str, depth: int) -> str:
        name = "".join(part[:1].upper() + part[1:] for part in field.split("_")) + "Entry"
        inner = DescriptorProto(name=name)
        key = inner.field.add(name="key", number=1, label=_F.LABEL_OPTIONAL)
        key.type = self.random.choice(KEYS)
        self.kind(inner.field.add(name="value", number=2, label=_F.LABEL_OPTIONAL), made, full, depth)
        inner.options.map_entry = True
        made.nested_type.append(inner)
        return f"{full}.{name}"

    def filled(self, message: Any) -> Any:
        random = self.random
        kind = message.DESCRIPTOR.full_name
        if kind in MESSAGES and not kind.endswith("Value"):
            self.fill_known(message, kind)
            return message
        for field in message.DESCRIPTOR.fields:
            if (
                field.containing_oneof is not None
                and len(field.containing_oneof.fields) > 1
                and message.WhichOneof(field.containing_oneof.name)
            ):
                continue
            if not field.is_required and random.random() < 0.35:
                continue
            found = getattr(message, field.name)
            if field.is_repeated and field.message_type is not None and field.message_type.GetOptions().map_entry:
                key, value = field.message_type.fields
                chosen = self.scalar(key)
                if value.message_type is None:
                    found[chosen] = self.scalar(value)
                else:
                    self.filled(found[chosen])
            elif field.is_repeated:
                for _ in range(random.randrange(3)):
                    if field.message_type is None:
                        found.append(self.scalar(field))
                    else:
                        self.filled(found.add())
            elif field.message_type is None:
                setattr(message, field.name, self.scalar(field))
            else:
                found.SetInParent()
                self.filled(found)
        return message

    def scalar(self, field: Any) -> Any:
        return self.random.choice((0, 1, 2 if self.is_proto2 else 7) if field.enum_type is not None else SCALARS[field.type])

    def fill_known(self, message: Any, name: str) -> None:
        given: dict[str, tuple[dict[str, Any], ...]] = {
            "google.protobuf.Timestamp": ({}, {"seconds": 1709208000, "nanos": 123000000}, {"seconds": -2, "nanos": 500000000}),
            "google.type.Date": ({"year": 2024, "month": 2, "day": 29},), "google.protobuf.Duration": ({"seconds": 5},),
            "google.type.TimeOfDay": ({}, {"hours": 1, "minutes": 2, "seconds": 3, "nanos": 4000000}),
            "confluent.type.Decimal": ({"value": b"\x05"}, {"value": b"\x00", "precision": 1}),
        }  # fmt: skip
        for key, one in self.random.choice(given[name]).items():
            setattr(message, key, one)
