"""◇ A message as JSON in Kafka's own form: field names in camelCase, ids and bytes as base64, tagged fields only when they differ from
their default.

Source: the output of the JsonConverter classes that Kafka generates.
"""

import json
from base64 import b64encode
from typing import Any
from uuid import UUID

from moldau.protocol.wire import Field, Struct
from moldau.types import uuid_to_text


def to_json(message: Struct, version: int) -> dict[str, Any]:
    """The message with the fields of `version`, in their order."""
    return {
        camel_case(field.name): _value(field, getattr(message, field.name), version)
        for field in message.FIELDS
        if _is_shown(field, message, version)
    }


def compact(data: object) -> str:
    """The text as Jackson prints it."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return ("kRaft" if first == "kraft" else first) + "".join(part.capitalize() for part in rest)


def _is_shown(field: Field, message: Struct, version: int) -> bool:
    if not field.is_in(version):
        return False
    return field.tag is None or getattr(message, field.name) != field.default


def _value(field: Field, value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_value(field, one, version) for one in value]
    if isinstance(value, Struct):
        return to_json(value, version)
    if isinstance(value, UUID):
        return uuid_to_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    return value
