"""◇ Headers as text, and the values that text looks like.  Source: SimpleHeaderConverter, Values.parseString.

Strings are written as they are, everything else as Java prints it.  A text that looks like `true`, a number, or a list or map as in JSON is
read as that; any other text stays text.
"""

import json
import re
from datetime import datetime
from typing import Any, Final

from moldau.connect import data
from moldau.connect.converters.simple import java_text
from moldau.connect.data import DAY_MS, FLOAT64, INTEGERS, OPTIONAL_STRING, Schema, Struct, to_millis

_INTEGER: Final = re.compile(r"[+-]?\d+")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class SimpleHeaderConverter:
    def to_bytes(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        if isinstance(value, datetime):
            return moment_text(value).encode()
        if isinstance(value, list | dict | Struct):
            return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_json).encode()
        return java_text(value).encode()

    def to_data(self, topic: str, data_: bytes | None) -> tuple[Schema | None, Any]:
        if data_ is None:
            return None, None
        return parse_text(data_.decode("utf-8", "replace"))


def _json(value: Any) -> Any:
    if isinstance(value, Struct):
        return {one.name: value.get(one.name) for one in value.schema.fields}
    return moment_text(value) if isinstance(value, datetime) else java_text(value)


def moment_text(value: datetime) -> str:
    """Times up to the end of 1970's first day as a time of day, later midnights as a date, all others as both.

    Source: Values.dateFormatFor.
    """
    millis = to_millis(value)
    time = value.strftime("%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    if millis < DAY_MS:
        return time
    date = f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
    return date if millis % DAY_MS == 0 else f"{date}T{time}"


def parse_text(text: str) -> tuple[Schema | None, Any]:
    """The text as a value of the narrowest type that it fits."""
    if not text:
        return data.STRING, text
    if text == "null":
        return None, None
    if text in ("true", "false"):
        return data.BOOLEAN, text == "true"
    if _INTEGER.fullmatch(text):
        number = int(text)
        for kind, bits in INTEGERS.items():
            if -(1 << bits - 1) <= number < 1 << bits - 1:
                return Schema(kind), number
        return FLOAT64, float(text)
    if _NUMBER.fullmatch(text):
        return FLOAT64, float(text)
    if text[0] in "[{":
        try:
            found = json.loads(text)
        except ValueError:
            return data.STRING, text
        return (data.array(OPTIONAL_STRING), found) if _is_strings(found) else (None, found)
    return data.STRING, text


def _is_strings(found: Any) -> bool:
    return isinstance(found, list) and all(isinstance(one, str) for one in found)
