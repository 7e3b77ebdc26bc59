"""Converters write what Kafka's converters write; for what they cannot write they raise an error that says why."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect import data
from moldau.connect.converters.catalogue import CONVERTERS, converter_of
from moldau.connect.converters.header_values import SimpleHeaderConverter, parse_text
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.data import Schema, Struct, Type
from moldau.connect.errors import ConfigError, DataError

ORDER = data.struct({"id": data.INT64, "note": data.OPTIONAL_STRING, "price": data.decimal(2), "at": data.timestamp()}, name="order")
VALUES = {"id": 7, "note": None, "price": Decimal("12.30"), "at": datetime(2024, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)}


def test_a_struct_carries_its_schema() -> None:
    written = JsonConverter().to_bytes("t", ORDER, Struct(ORDER, VALUES))
    assert written == (
        b'{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"id"},{"type":"string","optional":true,"field":"note"},'
        b'{"type":"bytes","optional":false,"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2"},"field":"price"},'
        b'{"type":"int64","optional":false,"name":"org.apache.kafka.connect.data.Timestamp","version":1,"field":"at"}],"optional":false,'
        b'"name":"order"},"payload":{"id":7,"note":null,"price":"BM4=","at":1704164645678}}'
    )
    assert JsonConverter().to_data("t", written) == (ORDER, Struct(ORDER, VALUES))


def test_without_schemas_only_the_data_is_written() -> None:
    plain = JsonConverter(schemas_enable=False)
    assert plain.to_bytes("t", ORDER, Struct(ORDER, VALUES)) == b'{"id":7,"note":null,"price":"BM4=","at":1704164645678}'
    assert plain.to_data("t", b'{"a":[1,2.5,null]}') == (None, {"a": [1, 2.5, None]})


@pytest.mark.parametrize(
    "bad", [b"{", b"NaN", b'{"schema":null}', b'{"schema":{"type":"int8"},"payload":300}', b'{"schema":{"type":"odd"},"payload":1}']
)
def test_json_that_is_not_what_it_should_be_is_an_error(bad: bytes) -> None:
    with pytest.raises(DataError):
        JsonConverter().to_data("t", bad)


@pytest.mark.parametrize(
    ("schema", "value"), [(data.INT8, 300), (data.INT32, "1"), (data.STRING, 1), (data.STRING, None), (data.BOOLEAN, 1)]
)
def test_a_value_that_its_schema_does_not_allow_is_an_error(schema: Schema, value: Any) -> None:
    with pytest.raises(DataError):
        JsonConverter().to_bytes("t", schema, value)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3))
def test_decimals_come_back_to_the_last_place(value: Decimal) -> None:
    schema = data.decimal(3)
    assert data.to_logical(schema, data.to_primitive(schema, value)) == value


@pytest.mark.parametrize(
    ("name", "schema", "value", "written"),
    [
        ("converters.LongConverter", data.INT64, -2, b"\xff\xff\xff\xff\xff\xff\xff\xfe"),
        ("converters.ShortConverter", data.INT16, 258, b"\x01\x02"),
        ("converters.BooleanConverter", data.BOOLEAN, True, b"\x01"),
        ("converters.DoubleConverter", data.FLOAT64, 1.5, b"\x3f\xf8\x00\x00\x00\x00\x00\x00"),
        ("converters.ByteArrayConverter", data.BYTES, b"\x00\xff", b"\x00\xff"),
        ("storage.StringConverter", data.STRING, "ü", b"\xc3\xbc"),
    ],
)
def test_values_of_one_type_are_written_as_kafkas_serializers_do(name: str, schema: Schema, value: Any, written: bytes) -> None:
    converter = converter_of("value", {"value.converter": f"org.apache.kafka.connect.{name}"}, {})
    assert converter.to_bytes("t", schema, value) == written
    assert converter.to_data("t", written)[1] == value
    assert converter.to_data("t", None)[1] is None


def test_a_number_of_the_wrong_length_is_an_error() -> None:
    with pytest.raises(DataError, match="3 bytes are not 8"):
        CONVERTERS["org.apache.kafka.connect.converters.LongConverter"].make({}).to_data("t", b"abc")


def test_a_converter_that_nobody_knows_is_an_error_of_its_option() -> None:
    with pytest.raises(ConfigError, match=r"value\.converter: Class x could not be found"):
        converter_of("value", {"value.converter": "x"}, {})


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("true", Type.BOOLEAN, True),
        ("7", Type.INT8, 7),
        ("70000", Type.INT32, 70000),
        ("1.5", Type.FLOAT64, 1.5),
        ("x y", Type.STRING, "x y"),
    ],
)
def test_headers_become_what_their_text_looks_like(text: str, kind: Type, value: Any) -> None:
    schema, found = parse_text(text)
    assert schema is not None and (schema.type, found) == (kind, value)
    assert SimpleHeaderConverter().to_bytes("t", schema, found) == text.encode()


def test_a_map_whose_keys_are_strings_is_an_object_also_when_they_may_be_null() -> None:
    schema = Schema(Type.MAP, key_schema=data.OPTIONAL_STRING, value_schema=data.INT32)
    one = JsonConverter(schemas_enable=False)
    assert one.to_bytes("t", schema, {"a": 1}) == b'{"a":1}'
    with pytest.raises(DataError, match="null as a name"):
        one.to_bytes("t", schema, {None: 1})
