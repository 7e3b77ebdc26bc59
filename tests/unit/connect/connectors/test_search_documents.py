"""Records become documents of a search index."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from moldau.connect import data
from moldau.connect.connectors.search import documents
from moldau.connect.data import Record, Struct
from moldau.connect.errors import ConnectError, DataError

SCHEMA = data.struct(
    {
        "id": data.INT32,
        "name": data.OPTIONAL_STRING,
        "price": data.decimal(2),
        "at": data.timestamp(),
        "raw": data.BYTES,
        "tags": data.array(data.STRING),
        "inner": data.struct({"x": data.FLOAT64}),
    }
)
AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
VALUE = Struct(
    SCHEMA,
    {
        "id": 7,
        "price": Decimal("1.25"),
        "at": AT,
        "raw": b"\x00\x01",
        "tags": ["a"],
        "inner": Struct(data.struct({"x": data.FLOAT64}), {"x": 0.5}),
    },
)


def record(key: Any, value: Any, topic: str = "Orders") -> Record:
    """A record that transforms have moved: only the position where it was consumed counts."""
    return Record(topic, 0, key=key, value=value, offset=41, position=("given", 3, 41))


def lines(action: documents.Action) -> list[Any]:
    return [json.loads(line) for line in action.lines.splitlines()]


def test_a_document_has_its_key_as_id_and_its_offset_as_version() -> None:
    about, document = lines(documents.index_action(record("k", VALUE), "orders", "k", is_versioned=True))
    assert about == {"index": {"_index": "orders", "_id": "k", "version": 41, "version_type": "external"}}
    assert document == {
        "id": 7, "name": None, "price": 1.25, "at": data.to_millis(AT), "raw": "AAE=", "tags": ["a"], "inner": {"x": 0.5},
    }  # fmt: skip


def test_a_deletion_has_a_version_too() -> None:
    assert lines(documents.delete_action(record("k", None), "orders", "k", is_versioned=True)) == [
        {"delete": {"_index": "orders", "_id": "k", "version": 41, "version_type": "external"}}
    ]


def test_an_upsert_gives_fields_and_no_version() -> None:
    assert lines(documents.upsert_action(record("k", {"a": 1}), "orders", "k")) == [
        {"update": {"_index": "orders", "_id": "k", "retry_on_conflict": 5}},
        {"doc": {"a": 1}, "doc_as_upsert": True},
    ]


def test_ids() -> None:
    assert documents.id_of(record(12, {})) == "12"
    assert documents.position_id(record(None, {})) == "given+3+41"
    for key in (None, True, {"a": 1}, "", "x" * 513, "ä" * 257):
        with pytest.raises(DataError):
            documents.id_of(record(key, {}))


@pytest.mark.parametrize("value", ["text", [1], 5, {"n": float("nan")}, {"s": "\ud800"}])
def test_what_is_no_document_is_refused(value: Any) -> None:
    with pytest.raises(DataError):
        documents.index_action(record("k", value), "orders", "k", is_versioned=True)


def test_a_map_with_keys_that_are_no_texts_is_a_list_of_entries() -> None:
    assert documents.plain({1: "a"}) == [{"key": 1, "value": "a"}]


def test_names_of_indices() -> None:
    assert documents.index_of("-_Orders:EU") == "orders_eu"
    for topic in ("..", "_"):
        with pytest.raises(ConnectError, match=r"topic\.index\.map"):
            documents.index_of(topic)


def test_a_schema_asks_for_a_mapping() -> None:
    assert documents.mapping_of(SCHEMA) == {
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}},
            "price": {"type": "double"},
            "at": {"type": "date"},
            "raw": {"type": "binary"},
            "tags": {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}},
            "inner": {"properties": {"x": {"type": "double"}}},
        }
    }
