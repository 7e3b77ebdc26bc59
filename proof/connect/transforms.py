"""● Applies Kafka's transforms and ours to the same random records, to compare the results.

`oracle/Transforms.java` runs the classes in Kafka's jars as a child process.
"""

import json
import re
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Self

from moldau.connect.converters.header_values import SimpleHeaderConverter
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.data import Record
from moldau.connect.errors import ConnectError
from moldau.connect.transforms.catalogue import NEW_RECORD_STATE, TRANSFORM_PLUGINS
from moldau.connect.transforms.new_record_state import HANDLING
from proof.kafka.jars import jar_set
from proof.metadata.oracle import compiled_command, talking

SOURCE: Final = Path(__file__).parent / "oracle" / "Transforms.java"
FLAGS: Final = ("-XX:+UseSerialGC", "-Xmx256m", "-XX:TieredStopAtLevel=1")
Case = dict[str, Any]


class Oracle:
    """The child process.  One question at a time."""

    def __enter__(self) -> Self:
        self._process = talking(compiled_command(SOURCE, "Transforms", flags=FLAGS, jars=jar_set("debezium-3.3.2")))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, case: Case) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def ours(case: Case) -> Any:
    """Our result in the oracle's form."""
    converter = JsonConverter(schemas_enable=case["schemas"])

    def read(name: str) -> tuple[Any, Any]:
        return converter.to_data(case["topic"], None if case[name] is None else json.dumps(case[name]).encode())

    try:
        plugin = TRANSFORM_PLUGINS[case["type"]]
        record = Record(case["topic"], case["partition"], *read("key"), *read("value"), case["timestamp"], offset=case["offset"])
        found = plugin.make(plugin.part, plugin.definition.parse(case["config"])).apply(record)
        if found is None:
            return {"dropped": True}

        def written(schema: Any, value: Any) -> Any:
            data = converter.to_bytes(case["topic"], schema, value)
            return None if data is None else json.loads(data)

        headers = [[one.key, _text(SimpleHeaderConverter().to_bytes("", one.schema, one.value))] for one in found.headers]
        key, value = written(found.key_schema, found.key), written(found.value_schema, found.value)
        return {"topic": found.topic, "key": key, "value": value, "headers": headers}
    except ConnectError as error:
        return {"error": str(error)}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def is_beyond_our_calendar(answer: Any) -> bool:
    """Python's calendar ends with the year 9999, Java's does not."""
    return "outside the years 1 to 9999" in answer.get("error", "")


def comparable(answer: Any) -> Any:
    """An answer without the words of its error, because each language words its errors in its own way."""
    if "error" in answer:
        return {"error": True}
    return _rounded({**answer, "headers": [[name, _parsed(text)] for name, text in answer.get("headers", [])]})


def _rounded(value: Any) -> Any:
    """A value with rounded floats: Java 17 prints more digits of a float than it has (JDK-4511638)."""
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def _parsed(text: str | None) -> Any:
    """A map in a header, parsed.  Java writes the entries in the order of their hashes, and times without quotes, which is not JSON."""
    if text is None or not text.startswith("{"):
        return text
    return json.loads(re.sub(r"([:\[,])((?:\d{4}-\d\d-\d\d)?T?\d\d:\d\d:\d\d\.\d{3}Z|\d{4}-\d\d-\d\d)(?=[,}\]])", r'\1"\2"', text))


# ------------------------------------------------------------ random cases

TEXTS: Final = ("", "x", "ü", "7", "-3", "true", "1.5", "99999999999", "2024-02-29 23:59:59", "orders")
NUMBERS: Final = (0, 1, -1, 127, 128, 255, 300, 40_000, 2**31, -(2**31) - 1, 1_709_251_199_123)
FLOATS: Final = (0.0, 1.5, -2.75, 1e10, 300.9)
FIELDS: Final = ("a", "b", "c", "d")
TYPES: Final = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")


def _value(random: Random, kind: str) -> Any:
    if kind == "string":
        return random.choice(TEXTS)
    if kind == "boolean":
        return random.random() < 0.5
    if kind == "double":
        return random.choice(FLOATS)
    bits = int(kind.removeprefix("int"))
    return random.choice([one for one in NUMBERS if -(1 << bits - 1) <= one < 1 << bits - 1])


def _field(random: Random, depth: int) -> tuple[dict[str, Any], Any]:
    """Schema and value."""
    kind = random.choice(("string", "boolean", "double", "int8", "int16", "int32", "int64", "struct", "timestamp", "date"))
    optional = random.random() < 0.5
    if kind == "struct" and depth:
        schema, value = _struct(random, depth - 1)
    elif kind == "timestamp":
        schema = {"type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "version": 1}
        value = random.choice(NUMBERS)
    elif kind == "date":
        schema, value = {"type": "int32", "name": "org.apache.kafka.connect.data.Date", "version": 1}, random.randrange(20_000)
    else:
        kind = "string" if kind == "struct" else kind
        schema, value = {"type": kind}, _value(random, kind)
        if random.random() < 0.2:
            schema["default"] = _value(random, kind)
    schema["optional"] = optional
    return schema, None if optional and random.random() < 0.25 else value


def _struct(random: Random, depth: int) -> tuple[dict[str, Any], Any]:
    fields, values = [], {}
    for name in random.sample(FIELDS, random.randrange(1, 5)):
        schema, values[name] = _field(random, depth)
        fields.append({**schema, "field": name})
    named = {"name": "n"} if random.random() < 0.3 else {}
    return {"type": "struct", "fields": fields, "optional": False, **named}, values


def _plain(random: Random, depth: int) -> Any:
    kind = random.choice(("map", "string", "int64", "double", "boolean", "null", "list"))
    if kind == "map" and depth:
        return {name: _plain(random, depth - 1) for name in random.sample(FIELDS, random.randrange(4))}
    if kind == "list":
        return [random.choice(NUMBERS)]
    return None if kind in ("null", "map") else _value(random, kind)


def _part(random: Random, *, schemas: bool) -> Any:
    if random.random() < 0.06:
        return None
    if not schemas:
        return (
            {name: _plain(random, 2) for name in random.sample(FIELDS, random.randrange(5))}
            if random.random() < 0.85
            else _plain(random, 0)
        )
    schema, value = _struct(random, 2) if random.random() < 0.85 else _field(random, 0)
    return {"schema": {**schema, "optional": random.random() < 0.3}, "payload": value}


def _event(random: Random) -> Any:
    """A change of a row in Debezium's envelope."""
    row, before = _struct(random, 1)
    other = {**row, "fields": row["fields"]}
    after = {one["field"]: _again(random, one, before[one["field"]]) for one in row["fields"]}
    op = random.choice("ccuudrt")
    source = {"type": "struct", "optional": False, "name": "Source", "fields": [
        {"type": "string", "optional": False, "field": "table"}, {"type": "int64", "optional": True, "field": "lsn"},
        {"type": "string", "optional": True, "default": "false", "field": "snapshot"},
    ]}  # fmt: skip
    fields = [
        {**row, "optional": True, "name": "t.Value", "field": "before"}, {**other, "optional": True, "name": "t.Value", "field": "after"},
        {**source, "field": "source"}, {"type": "string", "optional": False, "field": "op"},
        {"type": "int64", "optional": True, "field": "ts_ms"},
    ]  # fmt: skip
    payload = {
        "before": before if op in "ud" else None,
        "after": after if op in "cur" else None,
        "source": {"table": "t", "lsn": random.choice((None, 7)), "snapshot": None},
        "op": op,
        "ts_ms": random.choice((None, 5)),
    }
    return {"schema": {"type": "struct", "name": "t.Envelope", "optional": False, "fields": fields}, "payload": payload}


def _again(random: Random, schema: dict[str, Any], value: Any) -> Any:
    return None if schema["optional"] and random.random() < 0.2 else value


def _some(random: Random, *, least: int = 1) -> str:
    return ",".join(random.sample(FIELDS, random.randrange(least, 3)))


def _config(random: Random, name: str) -> dict[str, str]:
    one = random.choice
    configs: dict[str, dict[str, str]] = {
        "Cast": {"spec": one((one(TYPES), f"a:{one(TYPES)}", f"a:{one(TYPES)},b:{one(TYPES)}"))},
        "DropHeaders": {"headers": "a"},
        "ExtractField": {"field": one(("a", "b", "a.b", "zz")), "field.syntax.version": one(("V1", "V2"))},
        "ExtractNewRecordState": {
            "delete.tombstone.handling.mode": one(HANDLING),
            **one(({}, {"add.fields": one(("op", "table,lsn", "source.table,op:OP", "ts_ms,zz", "snapshot:s"))})),
            **one(({}, {"add.headers": one(("op", "table,op", "source.lsn:LSN")), "add.headers.prefix": one(("__", "x-"))})),
            **one(({}, {}, {"route.by.field": one(FIELDS)})),
            "replace.null.with.default": one(("true", "false")),
        },
        "Filter": {},
        "Flatten": {"delimiter": one((".", "_"))},
        "HeaderFrom": {"fields": one(FIELDS), "headers": "h", "operation": one(("move", "copy"))},
        "HoistField": {"field": "whole"},
        "InsertField": {f"{one(('topic', 'partition', 'offset', 'timestamp'))}.field": one(("n", "n!", "n?", "a"))},
        "InsertHeader": {"header": "h", "value.literal": one((*TEXTS, "[1,2]", "{}", "null"))},
        "MaskField": {"fields": _some(random), **one(({}, {"replacement": one(("5", "xx"))}))},
        "RegexRouter": {"regex": one(("(.*)", "or(.)ers", "x")), "replacement": one(("$1-x", "p-$1", "fixed", "a$1b"))},
        "ReplaceField": {"exclude": _some(random, least=0), "include": one(("", "", "a,b")), "renames": one(("", "a:z", "b:y,c:x"))},
        "SetSchemaMetadata": one(({"schema.name": "new"}, {"schema.version": "3"}, {"schema.name": "new", "schema.version": "3"})),
        "TimestampConverter": {
            "field": one(("", "a", "b")),
            "target.type": one(("string", "unix", "Date", "Time", "Timestamp")),
            "format": one(("yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss.SSSX", "EEE, d MMM yyyy hh:mm a")),
            "unix.precision": one(("milliseconds", "seconds", "microseconds", "nanoseconds")),
        },
        "TimestampRouter": {"topic.format": "${topic}-${timestamp}", "timestamp.format": one(("yyyyMMdd", "yyyy-MM", "HH'h'"))},
        "ValueToKey": {"fields": _some(random)},
    }
    if name == "RegexRouter" and configs[name]["regex"] == "x":
        configs[name]["replacement"] = "y"
    return configs[name]


def case(random: Random) -> Case:
    kind = random.choice(sorted(TRANSFORM_PLUGINS))
    schemas = random.random() < 0.6 or kind == NEW_RECORD_STATE
    value = _event(random) if kind == NEW_RECORD_STATE and random.random() < 0.8 else _part(random, schemas=schemas)
    return {
        "type": kind,
        "config": _config(random, kind.rpartition(".")[2].partition("$")[0]),
        "topic": "orders",
        "partition": 3,
        "timestamp": random.choice((1_709_251_199_123, 0)),
        "offset": random.choice((None, 42)),
        "schemas": schemas,
        "key": _part(random, schemas=schemas),
        "value": value,
    }
