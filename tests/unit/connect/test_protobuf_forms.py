"""Protobuf as Confluent's ProtobufData writes and reads it.  `python -m proof.connect.confluent_data` compares with the class itself."""

import base64
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from moldau.connect import data
from moldau.connect.converters.protobuf_names import camel_case, scrubbed, snake_case
from moldau.connect.converters.protobuf_schema import ENUM, GENERAL_ENUM, GENERAL_UNION, PROTOBUF_TYPE, TAG, UNION
from moldau.connect.data import Field, Schema, Struct, Type
from proof.connect.protobuf_data import ours, ours_of_file

F = FieldDescriptorProto


def a_map(value: Schema, name: str | None = None, key: Schema = data.STRING) -> Schema:
    return Schema(Type.MAP, name=name, key_schema=key, value_schema=value)


def message_of(schema: Schema, value: dict[str, Any], **options: str) -> tuple[DescriptorProto, dict[str, Any]]:
    """The message that is written for a struct, and the whole answer."""
    answer = ours(schema, Struct(schema, value), {name.replace("_", "."): one for name, one in options.items()})
    assert "error" not in answer, answer
    return FileDescriptorProto.FromString(base64.b64decode(answer["file"])).message_type[0], answer


def field(name: str, number: int, kind: int, type_name: str = "", label: int = F.LABEL_OPTIONAL, **more: Any) -> F:
    return F(name=name, number=number, type=kind, type_name=type_name or None, label=label, **more)  # type: ignore[arg-type]


def read(message: DescriptorProto, raw: bytes, syntax: str = "proto3", **options: str) -> tuple[dict[str, Any], Any]:
    """The schemas of the fields by name, and the values."""
    file = FileDescriptorProto(name="of.proto", syntax=syntax, message_type=[message])
    answer = ours_of_file(
        base64.b64encode(file.SerializeToString()).decode(), raw, {name.replace("_", "."): one for name, one in options.items()}
    )
    assert "error" not in answer, answer
    return {one["field"]: one for one in answer["read"]["schema"]["fields"]}, answer["read"]["payload"]


def entry(name: str, *parts: F, is_map: bool = False) -> DescriptorProto:
    made = DescriptorProto(name=name, field=parts)
    if is_map:
        made.options.map_entry = True
    return made


KEY, VALUE = field("key", 1, F.TYPE_STRING), field("value", 2, F.TYPE_INT32)
ONE_ENTRY = b"\x0a\x05\x0a\x01a\x10\x01"
"""Field 1 with the entry a: 1."""


@pytest.mark.parametrize("is_map", [False, True])
def test_a_map_and_the_entries_of_confluents_converter_are_read_alike(is_map: bool) -> None:
    many = field("some_counts", 1, F.TYPE_MESSAGE, ".R.SomeCountsEntry", F.LABEL_REPEATED)
    schemas, value = read(
        DescriptorProto(name="R", field=[many], nested_type=[entry("SomeCountsEntry", KEY, VALUE, is_map=is_map)]), ONE_ENTRY
    )
    assert value == {"some_counts": {"a": 1}}
    found = schemas["some_counts"]
    assert (found["type"], found["name"], found["parameters"]) == ("map", "some_counts", {TAG: "1"})
    assert (found["keys"]["parameters"], found["values"]["parameters"]) == ({TAG: "1"}, {TAG: "2"})


@pytest.mark.parametrize(
    "made",
    [
        entry("Pair", KEY, VALUE),
        entry("ThreeEntry", KEY, VALUE, field("more", 3, F.TYPE_STRING)),
        entry("TurnedEntry", VALUE, KEY),
        entry("ManyEntry", KEY, field("value", 2, F.TYPE_INT32, label=F.LABEL_REPEATED)),
    ],
)
def test_a_message_that_is_no_entry_is_read_as_a_list(made: DescriptorProto) -> None:
    many = field("some", 1, F.TYPE_MESSAGE, f".R.{made.name}", F.LABEL_REPEATED)
    schemas, _ = read(DescriptorProto(name="R", field=[many], nested_type=[made]), ONE_ENTRY)
    assert schemas["some"]["type"] == "array"


def test_a_map_is_written_as_the_entries_of_confluents_converter() -> None:
    schema = data.struct(
        {"counts": a_map(data.INT32), "named": a_map(data.STRING, "n.some_map"), "plain": a_map(data.INT64, "mine")}, name="t.R"
    )
    message, answer = message_of(schema, {"counts": {"a": 1}, "named": {"b": "c"}, "plain": {}})
    assert [one.name for one in message.nested_type] == ["ConnectDefault1Entry", "SomeMapEntry", "mineEntry"]
    assert not any(one.options.map_entry for one in message.nested_type)
    assert base64.b64decode(answer["bytes"]) == ONE_ENTRY + b"\x12\x06\x0a\x01b\x12\x01c"
    assert answer["read"]["payload"] == {"counts": {"a": 1}, "named": {"b": "c"}, "plain": {}}


def test_maps_of_maps_and_of_lists_are_written() -> None:
    schema = data.struct(
        {"m": a_map(a_map(data.INT32)), "n": a_map(data.array(data.INT32)), "o": a_map(data.INT32, key=data.FLOAT64)}, name="R"
    )
    message, answer = message_of(schema, {"m": {"b": {"a": 1}}, "n": {"b": [1, 2]}, "o": {0.5: 1}})
    assert [one.name for one in message.nested_type[0].nested_type] == ["ConnectDefault2Entry"]
    assert answer["read"]["payload"] == {"m": [{"key": "b", "value": {"a": 1}}], "n": [{"key": "b", "value": [1, 2]}], "o": [[0.5, 1]]}


def test_structs_without_names_are_messages_of_their_own() -> None:
    inner = data.struct({"y": data.INT32})
    message, _ = message_of(data.struct({"x": inner, "z": inner}), {"x": None, "z": None})
    assert (message.name, [one.name for one in message.nested_type]) == ("ConnectDefault1", ["ConnectDefault2", "ConnectDefault3"])


def test_a_field_with_a_number_of_its_own_does_not_count() -> None:
    schema = data.struct({"a": data.INT32, "b": Schema(Type.INT32, parameters=((TAG, "7"),)), "c": data.INT32}, name="R")
    message, _ = message_of(schema, {"a": 1, "b": 2, "c": 3})
    assert [one.number for one in message.field] == [1, 7, 2]


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("sint32", Type.INT32, -1),
        ("fixed32", Type.INT64, 1 << 31),
        ("uint32", Type.INT64, 4_000_000_000),
        ("uint64", Type.INT64, -1),
        ("fixed64", Type.INT64, -2),
    ],
)
def test_integers_keep_the_types_of_protobuf(name: str, kind: Type, value: int) -> None:
    schema = data.struct({"n": Schema(kind, parameters=((PROTOBUF_TYPE, name),))}, name="R")
    message, answer = message_of(schema, {"n": value})
    assert message.field[0].type == F.Type.Value(f"TYPE_{name.upper()}")
    assert answer["read"]["schema"]["fields"][0]["parameters"] == {PROTOBUF_TYPE: name, TAG: "1"}
    assert answer["read"]["payload"] == {"n": value}


CHOICE = Schema(
    Type.STRUCT,
    True,
    f"{UNION}.choice",
    fields=tuple(
        Field(name, Schema(kind, True, parameters=((TAG, tag),))) for name, kind, tag in (("n", Type.INT64, "4"), ("s", Type.STRING, "5"))
    ),
)
COLOUR = Schema(Type.STRING, name="C", parameters=((ENUM, "C"), (f"{ENUM}.RED", "0"), (f"{ENUM}.GREEN", "1")))
SUMS = data.struct({"e": COLOUR, "choice_0": CHOICE}, name="R")
VALUES = {"e": "GREEN", "choice_0": Struct(CHOICE, {"s": "x"})}


def test_optional_unsigned_integers_are_wrapped_as_such() -> None:
    names = {"uint32": 1, "fixed32": 2, "uint64": -3, "fixed64": -4, "sint64": -5}
    schema = data.struct({name: Schema(Type.INT64, True, parameters=((PROTOBUF_TYPE, name),)) for name in names}, name="R")
    message, answer = message_of(schema, names, wrapper_for_nullables="true")
    wrappers = [one.type_name.rpartition(".")[2] for one in message.field]
    assert wrappers == ["UInt32Value", "UInt32Value", "UInt64Value", "UInt64Value", "Int64Value"]
    assert answer["read"]["payload"] == names


def test_keys_that_are_wrapped_are_keys_of_a_map() -> None:
    schema = data.struct({"m": a_map(data.INT8.as_optional(), key=data.OPTIONAL_STRING)}, name="R")
    assert message_of(schema, {"m": {"x": 1}}, wrapper_for_nullables="true")[1]["read"]["payload"] == {"m": {"x": 1}}


def test_an_unknown_value_of_an_enum_has_its_number_in_its_name() -> None:
    message = DescriptorProto(name="R", field=[field("c", 1, F.TYPE_ENUM, ".R.C")])
    message.enum_type.add(name="C").value.add(name="A", number=0)
    assert read(message, b"\x08\x05")[1] == {"c": "UNKNOWN_ENUM_VALUE_C_5"}
    assert read(message, b"\x08\x05", int_for_enums="true")[1] == {"c": 5}


def test_oneofs_are_read_before_other_fields() -> None:
    _, answer = message_of(SUMS, VALUES)
    assert [one["field"] for one in answer["read"]["schema"]["fields"]] == ["choice_0", "e"]
    assert answer["read"]["payload"] == {"choice_0": {"n": None, "s": "x"}, "e": "GREEN"}


def test_the_members_of_a_oneof_are_fields_on_request() -> None:
    _, answer = message_of(SUMS, VALUES, flatten_unions="true")
    assert answer["read"]["payload"] == {"n": None, "s": "x", "e": "GREEN"}


def test_oneofs_and_enums_have_general_names_on_request() -> None:
    _, answer = message_of(SUMS, VALUES, generalized_sum_type_support="true")
    choice, colour = answer["read"]["schema"]["fields"]
    assert (choice["name"], choice["parameters"]) == ("choice", {GENERAL_UNION: "choice"})
    assert colour["parameters"] == {GENERAL_ENUM: "C", f"{GENERAL_ENUM}.RED": "0", f"{GENERAL_ENUM}.GREEN": "1", TAG: "1"}


def test_enums_keep_their_names_as_numbers() -> None:
    _, answer = message_of(SUMS, VALUES, int_for_enums="true")
    colour = answer["read"]["schema"]["fields"][1]
    assert (colour["type"], colour["name"], answer["read"]["payload"]["e"]) == ("int32", "C", 1)


def test_a_field_that_a_message_does_not_have_is_empty_on_request() -> None:
    inner = data.struct({"x": data.INT32}, name="In", optional=True)
    schema = data.struct({"in": inner, "at": data.timestamp(optional=True), "choice_0": CHOICE}, name="R")
    nothing = {"in": None, "at": None, "choice_0": None}
    assert message_of(schema, nothing)[1]["read"]["payload"] == nothing
    assert message_of(schema, nothing, generate_struct_for_nulls="true")[1]["read"]["payload"] == {
        "in": {"x": 0},
        "at": 0,
        "choice_0": None,
    }


def test_a_scalar_of_proto2_is_null_or_its_default() -> None:
    message = DescriptorProto(name="R", field=[field("s", 1, F.TYPE_STRING, default_value="x")])
    assert read(message, b"", "proto2")[1] == {"s": None}
    assert read(message, b"", "proto2", optional_for_proto2="false")[1] == {"s": "x"}


def test_only_scalars_with_the_word_optional_may_be_null_on_request() -> None:
    at = data.timestamp(optional=True)
    schema = data.struct({"a": data.OPTIONAL_STRING, "b": data.STRING, "at": at, "e": COLOUR}, name="R")
    message, answer = message_of(schema, {"a": None, "b": "", "at": None, "e": "RED"}, optional_for_nullables="true")
    assert [one.proto3_optional for one in message.field] == [True, False, True, False]
    assert [one["optional"] for one in answer["read"]["schema"]["fields"]] == [True, False, True, True]
    assert answer["read"]["payload"] == {"a": None, "b": "", "at": None, "e": "RED"}


def test_names_are_made_fit_on_request() -> None:
    schema = data.struct({"a-b": data.INT32, "9x": data.INT32, "é": data.INT32}, name="my-db.t-1.E$x")
    message, answer = message_of(schema, {"a-b": 1, "9x": 2, "é": 3}, scrub_invalid_names="true")
    assert (message.name, answer["read"]["payload"]) == ("E_24x", {"a_b": 1, "x9x": 2, "_C3_A9": 3})
    assert [scrubbed(one) for one in ("my-db.t-1", "a b", "c+d", "g~h", "_i", "%")] == ["my_db.t_1", "a_b", "c_2Bd", "g_7Eh", "x_i", "_25"]


@pytest.mark.parametrize(
    ("name", "of_entry", "back"),
    [("some_map", "SomeMap", "some_map"), ("mi", "mi", "mi"), ("foo_barBaz", "FooBarbaz", "foo_barbaz"), ("HTTP", "HTTP", "h_t_t_p")],
)
def test_a_maps_name_is_its_entrys(name: str, of_entry: str, back: str) -> None:
    assert (camel_case(name), snake_case(of_entry)) == (of_entry, back)
