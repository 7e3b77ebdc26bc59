"""◇ Transforms of times: TimestampConverter, TimestampRouter.  Source: TimestampConverter.java, TimestampRouter.java."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from moldau.connect import data
from moldau.connect.data import DATE, DAY_MS, TIME, TIMESTAMP, Record, Schema, Struct, Type, from_millis, to_millis
from moldau.connect.errors import ConfigError, DataError
from moldau.connect.transforms.date_format import DateFormat
from moldau.connect.transforms.parts import Part, class_name, fields_of, required_map, required_struct, with_fields

STRING, UNIX = "string", "unix"
TARGETS: Final = (STRING, UNIX, "Date", "Time", "Timestamp")
PRECISIONS: Final = ("nanoseconds", "microseconds", "milliseconds", "seconds")
_LOGICAL: Final = {DATE: "Date", TIME: "Time", TIMESTAMP: "Timestamp"}
_KINDS: Final[Mapping[str, Schema]] = {
    STRING: data.STRING, UNIX: data.INT64, "Date": data.date(), "Time": data.time_of_day(), "Timestamp": data.timestamp()
}  # fmt: skip


class TimestampConverter:
    """A time in a field, or as the whole key or value, in another form.  Numbers are times since 1970 in `unix.precision`."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._part = part
        self._field = options["field"]
        self._target = options["target.type"]
        self._precision = options["unix.precision"]
        if self._target == STRING and not options["format"]:
            raise ConfigError("TimestampConverter requires format option to be specified when using string timestamps")
        self._format = DateFormat(options["format"]) if options["format"] else None
        self._fills_in = options["replace.null.with.default"]

    def apply(self, record: Record) -> Record | None:
        value, schema = self._part.value_of(record), self._part.schema_of(record)
        if schema is None:
            return record if value is None else self._part.replaced(record, None, self._without_schema(value))
        if not self._field:
            kind = _KINDS[self._target]
            _require_time(schema)
            return self._part.replaced(record, replace(kind, optional=schema.optional), self._converted(schema, value))
        if schema.type is not Type.STRUCT:
            raise DataError("Cannot list fields on non-struct type")
        kinds = fields_of(schema)
        if self._field in kinds:
            kinds[self._field] = replace(_KINDS[self._target], optional=kinds[self._field].optional)
        if (declared := schema.field(self._field)) is not None:
            _require_time(declared)
        if value is None:
            return self._part.replaced(record, replace(with_fields(schema, kinds), optional=schema.optional), None)
        old = required_struct(value, "converting timestamp formats")
        values = {one.name: old.get(one.name, with_default=self._fills_in) for one in schema.fields}
        if self._field in values:
            values[self._field] = self._converted(schema.field(self._field), values[self._field])
        other = replace(with_fields(schema, kinds), optional=schema.optional)
        return self._part.replaced(record, other, Struct(other, values))

    def _without_schema(self, value: Any) -> Any:
        if not self._field:
            return self._converted(None, value)
        found = dict(required_map(value, "converting timestamp formats"))
        found[self._field] = self._converted(None, found.get(self._field))
        return found

    def _converted(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        moment = self._moment(schema, value)
        if self._target == STRING:
            assert self._format is not None
            return self._format.format(moment)
        if self._target == UNIX:
            return _from_millis_to(to_millis(moment), self._precision)
        if self._target == "Date":
            return from_millis(to_millis(moment) // DAY_MS * DAY_MS)
        if self._target == "Time":
            return from_millis(to_millis(moment) % DAY_MS)
        return moment

    def _moment(self, schema: Schema | None, value: Any) -> datetime:
        if schema is not None:
            _require_time(schema)
        if isinstance(value, datetime):
            return value
        if isinstance(value, str):
            if self._format is None:
                raise DataError("Could not parse timestamp: a text needs the option format")
            return self._format.parse(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return from_millis(_to_millis_from(value, self._precision))
        raise DataError(f"TimestampConverter does not support {class_name(value)} objects as timestamps")


def _require_time(schema: Schema) -> None:
    if schema.name not in _LOGICAL and schema.type not in (Type.STRING, Type.INT64):
        raise DataError(f"Schema {schema.name or schema.type} does not correspond to a known timestamp type format")


def _to_millis_from(value: int, precision: str) -> int:
    factor = {"nanoseconds": -1_000_000, "microseconds": -1000, "milliseconds": 1, "seconds": 1000}[precision]
    return value * factor if factor > 0 else _toward_zero(value, -factor)


def _from_millis_to(value: int, precision: str) -> int:
    factor = {"nanoseconds": 1_000_000, "microseconds": 1000, "milliseconds": 1, "seconds": -1000}[precision]
    return value * factor if factor > 0 else _toward_zero(value, -factor)


def _toward_zero(value: int, by: int) -> int:
    return abs(value) // by * (1 if value >= 0 else -1)


class TimestampRouter:
    """The record's time becomes a part of the topic's name: `topic.format` with ${topic} and ${timestamp}."""

    def __init__(self, part: Part, options: dict[str, Any]) -> None:
        self._topic = options["topic.format"]
        self._format = DateFormat(options["timestamp.format"])

    def apply(self, record: Record) -> Record | None:
        if record.timestamp is None:
            raise DataError(f"Timestamp missing on record: {record}")
        moment = self._format.format(from_millis(record.timestamp))
        return replace(record, topic=self._topic.replace("${topic}", record.topic).replace("${timestamp}", moment))
