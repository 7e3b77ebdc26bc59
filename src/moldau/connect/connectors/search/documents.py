"""◇ Turns a record into an action of a search index's bulk API, and a schema into a mapping.

The document's id is the record's key and its version the record's offset (`version_type=external`): the index itself refuses a record that
comes again or too late.

Source: the bulk API of OpenSearch 2.19; the sinks of Aiven (OpenSearch) and Confluent (Elasticsearch).
"""

import base64
import json
import math
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from moldau.connect import data
from moldau.connect.data import Record, Schema, Struct, Type
from moldau.connect.errors import ConnectError, DataError

MAX_ID_BYTES: Final = 512
MAX_NAME: Final = 255
_TYPES: Final = {
    Type.INT8: "byte",
    Type.INT16: "short",
    Type.INT32: "integer",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.BYTES: "binary",
}
_LOGICAL: Final = {data.DECIMAL: "double", data.DATE: "date", data.TIME: "date", data.TIMESTAMP: "date"}
_TEXT: Final = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}


@dataclass(frozen=True, slots=True)
class Action:
    """One action of a bulk request.  `lines`: the action's lines in the request, each with its end."""

    record: Record
    kind: str
    index: str
    id: str | None
    lines: bytes


def index_of(topic: str) -> str:
    """The index of a topic for which the options name none.  Errors: ConnectError."""
    name = topic.lower().replace(":", "_").lstrip("-_")[:MAX_NAME]
    if name.strip(".") == "":
        raise ConnectError(f"topic {topic} gives an index no name: name one in topic.index.map, or by the transform RegexRouter")
    return name


def id_of(record: Record) -> str:
    """Errors: DataError."""
    key = record.key
    if key is None:
        raise DataError("a record without a key has no document id; key.ignore=true takes topic, partition and offset instead")
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise DataError(f"a key of type {type(key).__name__} is no document id: ExtractField$Key takes a text or number out of it")
    text = str(key)
    if not 0 < len(text.encode(errors="replace")) <= MAX_ID_BYTES:
        raise DataError(f"a document id has 1 to {MAX_ID_BYTES} bytes, this key has {len(text.encode(errors='replace'))}")
    return text


def position_id(record: Record) -> str:
    topic, partition, offset = position_of(record)
    return f"{topic}+{partition}+{offset}"


def position_of(record: Record) -> tuple[str, int, int]:
    """The topic, partition and offset of the record as it was consumed, whatever transforms have done."""
    return record.position or (record.topic, record.partition or 0, record.offset or 0)


def index_action(record: Record, index: str, document_id: str | None, *, is_versioned: bool) -> Action:
    """Stores the whole document.  Errors: DataError."""
    about: dict[str, Any] = {"_index": index}
    if document_id is not None:
        about["_id"] = document_id
    if is_versioned:
        about |= {"version": position_of(record)[2], "version_type": "external"}
    return Action(record, "index", index, document_id, _line({"index": about}) + _line(document_of(record)))


def upsert_action(record: Record, index: str, document_id: str) -> Action:
    """Sets the record's fields; other fields of the document stay.  Errors: DataError."""
    about = {"_index": index, "_id": document_id, "retry_on_conflict": 5}
    body = {"doc": document_of(record), "doc_as_upsert": True}
    return Action(record, "update", index, document_id, _line({"update": about}) + _line(body))


def delete_action(record: Record, index: str, document_id: str, *, is_versioned: bool) -> Action:
    about: dict[str, Any] = {"_index": index, "_id": document_id}
    if is_versioned:
        about |= {"version": position_of(record)[2], "version_type": "external"}
    return Action(record, "delete", index, document_id, _line({"delete": about}))


def document_of(record: Record) -> dict[str, Any]:
    """Errors: DataError."""
    found = plain(record.value)
    if not isinstance(found, dict):
        raise DataError(f"a value of type {type(record.value).__name__} is no document: JsonConverter reads objects")
    return found


def plain(value: Any) -> Any:
    """The value as JSON: times are milliseconds since 1970, decimals are numbers, bytes base64.  Errors: DataError."""
    if isinstance(value, Struct):
        return {one.name: plain(value.get(one.name)) for one in value.schema.fields}
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: plain(one) for key, one in value.items()}
        return [{"key": plain(key), "value": plain(one)} for key, one in value.items()]
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return data.to_millis(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{value} is no number that JSON has")
    return value


def mapping_of(schema: Schema) -> dict[str, Any]:
    """The mapping of a field; for a struct, the mapping has the `properties` of its fields."""
    if schema.name in _LOGICAL:
        return {"type": _LOGICAL[schema.name]}
    if schema.type is Type.STRUCT:
        return {"properties": {one.name: mapping_of(one.schema) for one in schema.fields}}
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return mapping_of(schema.value_schema)
    if schema.type is Type.MAP:
        return {"type": "object"}
    return _TEXT if schema.type is Type.STRING else {"type": _TYPES[schema.type]}


def _line(found: Any) -> bytes:
    try:
        return json.dumps(found, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError, RecursionError, UnicodeEncodeError) as error:
        raise DataError(f"a value is no JSON: {error}") from error
