"""PostgreSQL's texts as values.  The expected values are Debezium 3.3's own."""

from decimal import Decimal
from typing import Any

import pytest

from moldau.connect.connectors.postgres import literals
from moldau.connect.connectors.postgres.defaults import default_of
from moldau.connect.connectors.postgres.modes import Modes
from moldau.connect.connectors.postgres.types import PostgresType, column_type

NUMERIC_8_3 = (8 << 16) + 3 + 4


@pytest.mark.parametrize(
    ("kind", "modifier", "text", "value"),
    [
        ("date", -1, "2024-02-29", 19782),
        ("date", -1, "4714-11-24 BC", -2440588),
        ("time", -1, "01:02:03.456789", 3723456789),
        ("time", 3, "01:02:03.456", 3723456),
        ("timetz", -1, "01:02:03.5+02", "23:02:03.5Z"),
        ("timestamp", -1, "2024-02-29 01:02:03.456789", 1709168523456789),
        ("timestamp", 3, "2024-02-29 01:02:03.4", 1709168523400),
        ("timestamp", -1, "0044-03-15 01:02:03 BC", -63517820277000000),
        ("timestamp", -1, "20000-01-01 00:00:00", 568971820800000000),
        ("timestamp", -1, "infinity", 9223372036825200000),
        ("timestamp", -1, "-infinity", -9223372036832400000),
        ("timestamptz", -1, "2024-02-29 01:02:03.456789+00", "2024-02-29T01:02:03.456789Z"),
        ("timestamptz", -1, "10000-01-01 00:00:00+00", "+10000-01-01T00:00:00.000000Z"),
        ("timestamptz", -1, "infinity", "infinity"),
        ("interval", -1, "1 mon 2 days 03:04:05.6", 2813645600000),
        ("numeric", NUMERIC_8_3, "1.500", Decimal("1.500")),
        ("money", -1, "-$12.34", Decimal("-12.34")),
        ("bit", 1, "1", True),
        ("bit", 3, "101", b"\x05"),
        ("bit", 11, "10000000001", b"\x01\x04"),
        ("oid", -1, "4294967295", 4294967295),
        ("bytea", -1, "\\x00ff", b"\x00\xff"),
        ("hstore", -1, '"a"=>"1", "b"=>NULL', '{"a":"1","b":null}'),
    ],
)
def test_a_text_has_debeziums_value(kind: str, modifier: int, text: str, value: Any) -> None:
    column = column_type(PostgresType(kind), modifier, Modes())
    assert column is not None
    assert column.value(text) == value


def test_a_number_without_a_scale_loses_the_zeros_at_its_end() -> None:
    column = column_type(PostgresType("numeric"), -1, Modes())
    assert column is not None
    assert {text: tuple(column.value(text).values.values()) for text in ("1.500", "0.000", "-1200", "0.00001")} == {
        "1.500": (1, b"\x0f"), "0.000": (0, b"\x00"), "-1200": (0, b"\xfb\x50"), "0.00001": (5, b"\x01"),
    }  # fmt: skip


def test_elements_of_an_array_are_those_that_postgresql_has_written() -> None:
    assert literals.array('{a,"b \\"c\\", {}",NULL,"NULL",""}') == ["a", 'b "c", {}', None, "NULL", ""]
    assert literals.array("[0:1]={1,2}") == ["1", "2"]
    assert literals.array("{}") == []


@pytest.mark.parametrize(
    ("kind", "expression", "value"),
    [
        ("int4", "'-5'::integer", -5),
        ("int4", "5", 5),
        ("int4", "nextval('e_idt_seq'::regclass)", 0),
        ("int4", "(1 + 2)", None),
        ("text", "'a''b'::text", "a'b"),
        ("text", "upper('x'::text)", ""),
        ("text", "NULL::text", None),
        ("bool", "true", True),
        ("timestamp", "now()", 0),
        ("timestamptz", "CURRENT_TIMESTAMP", "1970-01-01T00:00:00.000000Z"),
        ("date", "CURRENT_DATE", 0),
        ("uuid", "gen_random_uuid()", "00000000-0000-0000-0000-000000000000"),
        ("numeric", "1.50", None),
        ("inet", "'10.0.0.1'::inet", None),
    ],
)
def test_a_default_is_the_literal_or_zero(kind: str, expression: str, value: Any) -> None:
    column = column_type(PostgresType(kind), -1, Modes())
    assert column is not None
    assert default_of(PostgresType(kind), column, expression) == value


def test_columns_of_unknown_types_are_left_out_or_told_as_bytes() -> None:
    assert column_type(PostgresType("circle"), -1, Modes()) is None
    column = column_type(PostgresType("circle"), -1, Modes(unknown=True))
    assert column is not None and column.value("<(0,0),1>") == b"<(0,0),1>"
