"""Avro and JSON Schema: Confluent's Python client reads what our converters write, and writes what they read."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.connect import data
from moldau.connect.data import Struct
from proof.connect.registry import SchemaRegistry
from tests.unit.connect.test_registry_converters import AVRO, JSON, converter, plain, settled

ROW = data.struct(
    {
        "id": data.INT64, "small": data.INT8, "ratio": data.FLOAT64, "yes": data.BOOLEAN, "name": data.OPTIONAL_STRING,
        "tags": data.array(data.STRING), "inner": data.struct({"x": data.INT32}, name="t.Inner", optional=True),
    },
    name="t.Row",
)  # fmt: skip
INNER = ROW.fields[-1].schema
TREE: dict[str, Any] = {"id": -7, "small": 3, "ratio": 0.5, "yes": True, "name": "ü", "tags": ["a", ""], "inner": {"x": 1}}
VALUE = Struct(ROW, {**TREE, "inner": Struct(INNER, {"x": 1})})


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as one:
        yield one


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [AVRO, JSON])
def test_both_read_what_the_other_writes(registry: SchemaRegistry, name: str) -> None:
    client = pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)
    avro = pytest.importorskip("confluent_kafka.schema_registry.avro", exc_type=ImportError)
    json_schema = pytest.importorskip("confluent_kafka.schema_registry.json_schema", exc_type=ImportError)
    from confluent_kafka.serialization import MessageField, SerializationContext

    topic = "avro" if name == AVRO else "json"
    one = converter(name, registry)
    raw = settled(lambda: one.to_bytes(topic, ROW, VALUE))
    assert raw is not None
    text = registry.schemas[int.from_bytes(raw[1:5], "big") - 1]["schema"]
    asked, context = client.SchemaRegistryClient({"url": registry.url}), SerializationContext(topic, MessageField.VALUE)
    options = {"auto.register.schemas": False, "use.latest.version": True}
    if name == AVRO:
        found = avro.AvroDeserializer(asked)(raw, context)
        theirs = avro.AvroSerializer(asked, text, conf=options)(TREE, context)
        assert theirs == raw
    else:
        found = json_schema.JSONDeserializer(text, schema_registry_client=asked)(raw, context)
        theirs = json_schema.JSONSerializer(text, asked, conf=options)(TREE, context)
        assert theirs[:5] == raw[:5] and json.loads(theirs[5:]) == json.loads(raw[5:])
    assert found == TREE
    schema, value = settled(lambda: one.to_data(topic, theirs))
    assert (schema, plain(value)) == (ROW, TREE)
