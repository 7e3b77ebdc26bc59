"""Avro and JSON Schema: what is written is read again; the registry is asked once; its refusals are errors with its words."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.connect import data
from moldau.connect.converters.catalogue import converter_of
from moldau.connect.converters.converter import Converter
from moldau.connect.data import Field, Schema, Struct, Type
from moldau.connect.errors import Absent, ConfigError, DataError, RetriableError
from proof.connect.registry import SchemaRegistry

T = TypeVar("T")
AVRO, JSON = "io.confluent.connect.avro.AvroConverter", "io.confluent.connect.json.JsonSchemaConverter"
BOTH = pytest.mark.parametrize("name", [AVRO, JSON])


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as one:
        yield one


def converter(name: str, registry: SchemaRegistry, kind: str = "value", **options: str) -> Converter:
    given = {f"{kind}.converter.{key}": value for key, value in options.items()}
    return converter_of(kind, {f"{kind}.converter": name, f"{kind}.converter.schema.registry.url": registry.url, **given}, {})


def settled(work: Callable[[], T]) -> T:
    """The result, with whatever has to be fetched for it: a task does this in a thread."""
    while True:
        try:
            return work()
        except Absent as error:
            error.fetch()


def again(one: Converter, schema: Schema | None, value: Any) -> tuple[Schema | None, Any]:
    written = settled(lambda: one.to_bytes("t", schema, value))
    return settled(lambda: one.to_data("t", written))


ROW = data.struct(
    {
        "id": data.INT64, "small": data.INT8, "ratio": data.FLOAT64, "yes": data.BOOLEAN, "name": data.OPTIONAL_STRING, "raw": data.BYTES,
        "price": data.decimal(2), "at": data.timestamp(optional=True), "day": data.date(), "clock": data.time_of_day(),
        "tags": data.array(data.OPTIONAL_STRING), "inner": data.struct({"x": data.INT32}, name="t.Inner", optional=True),
        "counts": Schema(Type.MAP, key_schema=data.STRING, value_schema=data.INT32),
        "pairs": Schema(Type.MAP, key_schema=data.INT32, value_schema=data.STRING),
        "level": Schema(Type.STRING, default="low"),
    },
    name="t.Row",
)  # fmt: skip
NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)
VALUES = {
    "id": 7, "small": -3, "ratio": 0.5, "yes": True, "name": None, "raw": b"\x00\xff", "price": Decimal("-1.50"), "at": NOON,
    "day": datetime(2024, 2, 29, tzinfo=UTC), "clock": datetime(1970, 1, 1, 1, 2, 3, tzinfo=UTC), "tags": ["a", None],
    "inner": Struct(data.struct({"x": data.INT32}, name="t.Inner", optional=True), {"x": 1}), "counts": {"a": 1}, "pairs": {5: "five"},
    "level": "high",
}  # fmt: skip


@BOTH
def test_a_row_of_all_types_comes_back_with_its_schema(registry: SchemaRegistry, name: str) -> None:
    schema, value = again(converter(name, registry), ROW, Struct(ROW, VALUES))
    assert value.values == VALUES
    assert schema == ROW


def plain(found: Any) -> Any:
    return {name: plain(one) for name, one in found.values.items()} if isinstance(found, Struct) else found


LEAVES = st.sampled_from(
    [
        (data.INT16, st.integers(-(2**15), 2**15 - 1)),
        (data.INT64, st.integers(-(2**63), 2**63 - 1)),
        (data.FLOAT64, st.floats(allow_nan=False, allow_infinity=False)),
        (data.BOOLEAN, st.booleans()),
        (data.STRING, st.text()),
        (data.BYTES, st.binary()),
        (data.decimal(3), st.integers(-(10**12), 10**12).map(lambda unscaled: Decimal(unscaled).scaleb(-3))),
        (data.timestamp(), st.integers(0, 2**41).map(data.from_millis)),
    ]
)


@st.composite
def structs(draw: st.DrawFn, depth: int = 2) -> tuple[Schema, Struct]:
    """A struct of random fields, with a value."""
    fields, values = [], {}
    for number in range(draw(st.integers(1, 4))):
        name = f"f{number}"
        if depth and draw(st.booleans()):
            schema, value = draw(structs(depth - 1))
        else:
            schema, strategy = draw(LEAVES)
            value = draw(strategy)
            if draw(st.booleans()):
                schema, value = data.array(schema), [value, draw(strategy)]
        if draw(st.booleans()):
            schema = schema.as_optional()
            value = None if draw(st.booleans()) else Struct(schema, value.values) if isinstance(value, Struct) else value
        fields.append(Field(name, schema))
        values[name] = value
    found = Schema(Type.STRUCT, fields=tuple(fields))
    return found, Struct(found, values)


@BOTH
def test_any_struct_comes_back(registry: SchemaRegistry, name: str) -> None:
    one = converter(name, registry)

    @given(row=structs())
    def check(row: tuple[Schema, Struct]) -> None:
        schema, value = again(one, *row)
        assert plain(value) == plain(row[1])
        assert schema == row[0]

    check()


def test_avros_bytes_are_read_by_fastavro_alone(registry: SchemaRegistry) -> None:
    one = converter(AVRO, registry)
    written = settled(lambda: one.to_bytes("t", ROW, Struct(ROW, VALUES)))
    assert written is not None and written[0] == 0
    avro = json.loads(registry.schemas[int.from_bytes(written[1:5], "big") - 1]["schema"])
    import io

    found: Any = fastavro.schemaless_reader(io.BytesIO(written[5:]), avro, None)
    assert (found["price"], found["at"], found["counts"]) == (Decimal("-1.50"), NOON, {"a": 1})
    assert (avro["name"], avro["namespace"]) == ("Row", "t")


def test_debeziums_envelope_names_its_row_once(registry: SchemaRegistry) -> None:
    row = data.struct({"id": data.INT32}, name="db.t.Value", optional=True)
    envelope = data.struct({"before": row, "after": row, "op": data.STRING}, name="db.t.Envelope")
    value = Struct(envelope, {"before": None, "after": Struct(row, {"id": 1}), "op": "c"})
    schema, found = again(converter(AVRO, registry), envelope, value)
    assert plain(found) == {"before": None, "after": {"id": 1}, "op": "c"}
    assert schema == envelope


def test_a_schema_that_others_wrote_is_read(registry: SchemaRegistry) -> None:
    avro = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "sum", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}], "default": None},
        {"name": "note", "type": ["null", "string", "long"], "default": None},
    ]}  # fmt: skip
    registry.schemas.append({"schemaType": "AVRO", "schema": json.dumps(avro)})
    import io

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(avro), {"state": "PAID", "sum": Decimal("1.50"), "note": 5})
    framed = b"\0" + len(registry.schemas).to_bytes(4, "big") + out.getvalue()
    one = converter(AVRO, registry)
    schema, value = settled(lambda: one.to_data("t", framed))
    assert schema is not None and schema.name == "shop.Order"
    assert plain(value) == {"state": "PAID", "sum": Decimal("1.50"), "note": {"long": 5}}
    assert again(one, schema, value) == (schema, value)


LETTERS = {"type": "enum", "name": "E", "symbols": ["A"]}
ONE_BYTE = {"type": "fixed", "name": "F", "size": 1}


@pytest.mark.parametrize("kinds", [["int", "long"], ["float", "double"], ["null", "bytes", ONE_BYTE]])
def test_a_union_keeps_the_type_that_a_value_was_written_with(registry: SchemaRegistry, kinds: list[Any]) -> None:
    avro = {"type": "record", "name": "U", "fields": [{"name": "u", "type": kinds}]}
    registry.schemas.append({"schemaType": "AVRO", "schema": json.dumps(avro)})
    body = bytes([2 * (len(kinds) - 1)]) + (b"\0" * 8 if "double" in kinds else b"\0")
    raw = b"\0" + len(registry.schemas).to_bytes(4, "big") + body
    one = converter(AVRO, registry)
    schema, value = settled(lambda: one.to_data("t", raw))
    assert schema is not None
    last = schema.fields[0].schema.fields[-1].name
    assert list(value.values["u"].values) == [last]
    written = settled(lambda: one.to_bytes("t", schema, value))
    assert written is not None and written[5:] == body


def test_a_union_of_two_strings_is_refused_as_avro_refuses_it(registry: SchemaRegistry) -> None:
    avro = {"type": "record", "name": "U", "fields": [{"name": "u", "type": ["string", LETTERS]}]}
    registry.schemas.append({"schemaType": "AVRO", "schema": json.dumps(avro)})
    one = converter(AVRO, registry)
    schema, value = settled(lambda: one.to_data("t", b"\0" + len(registry.schemas).to_bytes(4, "big") + b"\x02\0"))
    assert plain(value) == {"u": {"E": "A"}}
    with pytest.raises(DataError, match="two types string"):
        settled(lambda: one.to_bytes("t", schema, value))


def test_a_name_without_a_namespace_stays_one_within_a_namespace(registry: SchemaRegistry) -> None:
    bare = data.struct({"x": data.INT32}, name="Bare")
    row = data.struct({"one": bare, "two": data.array(bare)}, name="shop.Row")
    value = Struct(row, {"one": Struct(bare, {"x": 1}), "two": [Struct(bare, {"x": 2})]})
    assert again(converter(AVRO, registry), row, value) == (row, value)
    assert json.loads(registry.schemas[-1]["schema"])["fields"][0]["type"]["namespace"] == ""


def test_documentation_in_an_avro_schema_is_kept_in_parameters(registry: SchemaRegistry) -> None:
    avro = {"type": "record", "name": "Row", "doc": "a row", "fields": [{"name": "n", "type": "int", "doc": "a number", "default": 3}]}
    registry.schemas.append({"schemaType": "AVRO", "schema": json.dumps(avro)})
    one = converter(AVRO, registry)
    schema, value = settled(lambda: one.to_data("t", b"\0" + len(registry.schemas).to_bytes(4, "big") + b"\x02"))
    assert schema is not None and dict(schema.parameters) == {
        "io.confluent.connect.avro.record.doc": "a row", "io.confluent.connect.avro.field.doc.n": "a number",
    }  # fmt: skip
    settled(lambda: one.to_bytes("t", schema, value))
    written = json.loads(registry.schemas[-1]["schema"])
    assert (written["doc"], written["fields"]) == ("a row", avro["fields"])


def test_a_json_schema_that_others_wrote_is_read(registry: SchemaRegistry) -> None:
    text = {"type": "object", "properties": {"id": {"type": "integer"}, "kind": {"$ref": "#/definitions/kind"}}, "required": ["id"],
            "definitions": {"kind": {"type": ["string", "null"]}}}  # fmt: skip
    registry.schemas.append({"schemaType": "JSON", "schema": json.dumps(text)})
    framed = b"\0" + len(registry.schemas).to_bytes(4, "big") + b'{"id": 3}'
    one = converter(JSON, registry)
    schema, value = settled(lambda: one.to_data("t", framed))
    assert schema is not None and [(one.name, one.schema.type, one.schema.optional) for one in schema.fields] == [
        ("id", Type.INT64, False), ("kind", Type.STRING, True),
    ]  # fmt: skip
    assert plain(value) == {"id": 3, "kind": None}


def test_the_registry_is_asked_once_for_a_schema() -> None:
    with SchemaRegistry(user="u", password="p:x") as registry:
        options = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "u:p:x"}
        one = converter(AVRO, registry, "key", **options)
        for number in range(5):
            again(one, data.INT64, number)
        assert registry.asked == {"POST /subjects/t-key/versions": 1, "GET /schemas/ids/1": 1}
        with pytest.raises(DataError, match="401 Unauthorized"):
            again(converter(AVRO, registry), data.INT64, 1)


@BOTH
def test_without_auto_registration_a_schema_has_to_be_there(name: str) -> None:
    with SchemaRegistry() as registry:
        strict = converter(name, registry, **{"auto.register.schemas": "false"})
        with pytest.raises(DataError, match="404 Schema not found"):
            again(strict, data.INT64, 1)
        again(converter(name, registry), data.INT64, 1)
        assert again(strict, data.INT64, 2) == (data.INT64, 2)


def test_the_latest_schema_of_the_subject_is_written_with() -> None:
    wide = data.struct({"id": data.INT64, "note": data.OPTIONAL_STRING}, name="t.R")
    narrow = data.struct({"id": data.INT64}, name="t.R")
    with SchemaRegistry() as registry:
        again(converter(AVRO, registry), wide, Struct(wide, {"id": 1}))
        schema, value = again(converter(AVRO, registry, **{"use.latest.version": "true"}), narrow, Struct(narrow, {"id": 2}))
    assert schema == wide
    assert plain(value) == {"id": 2, "note": None}


def test_a_registry_that_is_away_is_worth_another_try() -> None:
    with SchemaRegistry() as registry:
        registry.down = True
        one = converter(AVRO, registry)
        with pytest.raises(RetriableError, match="does not answer"):
            again(one, data.INT64, 1)
        registry.down = False
        assert again(one, data.INT64, 1) == (data.INT64, 1)


def test_subjects_follow_their_strategy() -> None:
    row = data.struct({"id": data.INT64}, name="t.R")
    with SchemaRegistry() as registry:
        for strategy in ("RecordNameStrategy", "TopicRecordNameStrategy"):
            name = f"io.confluent.kafka.serializers.subject.{strategy}"
            again(converter(AVRO, registry, **{"value.subject.name.strategy": name}), row, Struct(row, {"id": 1}))
        assert sorted(registry.subjects) == ["t-t.R", "t.R"]


@BOTH
@pytest.mark.parametrize("bad", [b"", b"\x01abcdef", b"\0\0\0\0"])
def test_bytes_of_another_form_are_an_error(registry: SchemaRegistry, name: str, bad: bytes) -> None:
    with pytest.raises(DataError, match="magic"):
        converter(name, registry).to_data("t", bad)


@BOTH
def test_a_tombstone_stays_one(registry: SchemaRegistry, name: str) -> None:
    one = converter(name, registry)
    assert one.to_bytes("t", ROW, None) is None
    assert one.to_data("t", None) == (None, None)


@BOTH
def test_options_are_checked(name: str) -> None:
    with pytest.raises(ConfigError, match=r'Missing required configuration "schema.registry.url"'):
        converter_of("value", {"value.converter": name}, {})
    with pytest.raises(ConfigError, match="begins with http"):
        converter_of("value", {"value.converter": name, "value.converter.schema.registry.url": "localhost:8081"}, {})


def test_the_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'pip install "moldau\[registry\]"'):
        converter_of("value", {"value.converter": AVRO, "value.converter.schema.registry.url": "http://localhost"}, {})
