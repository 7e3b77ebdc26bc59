"""● Random schemas and values through our Avro converter and through AvroData, the class behind Confluent's AvroConverter.

    python -m proof.connect.avro_data --cases 2000 --seed 1

Confluent's jars are in no public repository of Maven.  Apicurio publishes a copy of the class (`oracle/AvroSchemas.java` runs it).
Connect's schemas and values must give the same Avro schema and the same bytes, and be read again alike; values of random Avro schemas
must be read alike.

DIFFERENCES that are left out of the comparison
- the order of properties in a schema, and whether a name has its namespace within
- a map with several entries, whose order Java's hashes decide: maps have at most one
- maps with keys other than strings that are within each other, or that differ: AvroData gives all of them one name, and fails
"""

import argparse
import base64
import io
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final

import fastavro

from moldau.connect import data
from moldau.connect.converters.avro_converter import AvroConverter
from moldau.connect.converters.avro_names import with_full_names
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.data import Field, Schema, Struct, Type
from moldau.connect.errors import DataError
from moldau.connect.registry.client import Registered
from moldau.connect.registry.framing import framed, unframed
from proof.kafka.jars import jar_set
from proof.metadata.oracle import Oracle

SOURCE: Final = Path(__file__).parent / "oracle" / "AvroSchemas.java"
JARS: Final = "apicurio-2.6.8"
MOST: Final = 20
OF_A_FLOAT: Final = 1e-7
WITH_SCHEMA: Final = JsonConverter(replace_null_with_default=False)
Case = tuple[Schema, Any]


class Registry:
    """Stands in for the registry: each schema has the number of its place."""

    def __init__(self) -> None:
        self.known: list[Registered] = []

    def id_of(self, subject: str, schema: Registered) -> tuple[int, Registered]:
        if schema not in self.known:
            self.known.append(schema)
        return self.known.index(schema), schema

    def schema(self, schema_id: int) -> Registered:
        return self.known[schema_id]


def asker() -> Oracle:
    return Oracle(SOURCE, "AvroSchemas", jar_set(JARS))


def shown(schema: Schema | None, value: Any) -> Any:
    raw = WITH_SCHEMA.to_bytes("", schema, value)
    return None if raw is None else json.loads(raw)


def ours(schema: Schema, value: Any) -> dict[str, Any]:
    """Our answer in the oracle's form."""
    registry = Registry()
    converter = AvroConverter(registry, lambda topic, name: "s")  # type: ignore[arg-type]
    try:
        raw = converter.to_bytes("t", schema, value)
        assert raw is not None
        number, body = unframed(raw)
        avro = json.loads(registry.known[number].text)
        return {"schema": avro, "bytes": base64.b64encode(body).decode(), "read": shown(*converter.to_data("t", raw))}
    except DataError as error:
        return {"error": str(error)}


def ours_of_avro(avro: Any, body: bytes) -> dict[str, Any]:
    registry = Registry()
    number, _ = registry.id_of("s", Registered("AVRO", json.dumps(avro)))
    converter = AvroConverter(registry, lambda topic, name: "s")  # type: ignore[arg-type]
    try:
        return {"read": shown(*converter.to_data("t", framed(number, body)))}
    except DataError as error:
        return {"error": str(error)}


def is_beyond_names(theirs: dict[str, Any], own: dict[str, Any]) -> bool:
    """Whether AvroData cannot cope with its names of maps."""
    return "StackOverflowError" in theirs.get("error", "") or "MapEntry2" in json.dumps(own.get("schema"))


def differences(their: Any, own: Any, path: str = "") -> Iterator[str]:
    """`error` in both is equal, whatever its words."""
    if isinstance(their, dict) and isinstance(own, dict):
        if path == "" and "error" in their and "error" in own:
            return
        for name in sorted({*their, *own}):
            yield from differences(their.get(name, "(none)"), own.get(name, "(none)"), f"{path}.{name}")
    elif isinstance(their, list) and isinstance(own, list) and len(their) == len(own):
        for number, (a, b) in enumerate(zip(their, own, strict=True)):
            yield from differences(a, b, f"{path}[{number}]")
    elif isinstance(their, float) and isinstance(own, float) and math.isclose(their, own, rel_tol=OF_A_FLOAT):
        return  # Java 17 prints more digits of a float than it has (JDK-4511638)
    elif their != own:
        yield f"{path}: Java {str(their)[:300]}, ours {str(own)[:300]}"


# ------------------------------------------------------------ random schemas of Connect

LEAVES: Final[tuple[tuple[Schema, tuple[Any, ...]], ...]] = (
    (data.INT8, (0, -128, 127)), (data.INT16, (0, -32768, 300)), (data.INT32, (0, -1, 2**31 - 1)), (data.INT64, (0, -(2**63), 64)),
    (data.FLOAT32, (0.0, 1.5, -0.25)), (data.FLOAT64, (0.0, 1e300, -2.5)), (data.BOOLEAN, (True, False)),
    (data.STRING, ("", "ü\n", "x" * 70)),
    (data.BYTES, (b"", b"\x00\xff")), (data.decimal(2), tuple(map(Decimal, ("0.00", "-1.50", "12345678901234567890.99")))),
    (data.date(), (data.EPOCH, data.from_millis(19782 * data.DAY_MS))), (data.time_of_day(), (data.EPOCH, data.from_millis(3_723_004))),
    (data.timestamp(), (data.EPOCH, data.from_millis(1_709_208_000_123))),
)  # fmt: skip
PARAMETERS: Final = (("colour", "red"), ("unit", "ms"))


class RandomConnect:
    """Makes schemas and values."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.number = 0

    def case(self) -> Case:
        schema = self.struct(3)
        return schema, self.value(schema, may_be_null=False)

    def schema(self, depth: int) -> Schema:
        random = self.random
        what = random.random()
        if depth and what < 0.12:
            found = data.array(self.schema(depth - 1))
        elif depth and what < 0.2:
            found = Schema(Type.MAP, key_schema=data.STRING, value_schema=self.schema(depth - 1))
        elif depth and what < 0.27:
            key = random.choice(LEAVES[:4])[0]
            found = Schema(Type.MAP, key_schema=key, value_schema=self.schema(depth - 1))
        elif depth and what < 0.42:
            found = self.struct(depth - 1)
        else:
            found = random.choice(LEAVES)[0]
        return self.decorated(found)

    def decorated(self, schema: Schema) -> Schema:
        random = self.random
        changes: dict[str, Any] = {}
        if random.random() < 0.35:
            changes["optional"] = True
        is_plain = schema.name is None and schema.type is not Type.STRUCT
        if is_plain and random.random() < 0.12:
            changes["name"] = random.choice(("my.Type", "Plain"))
        if is_plain and random.random() < 0.1:
            changes["version"] = random.randrange(1, 4)
        if random.random() < 0.12:
            changes["doc"] = "what it is"
        if is_plain and random.random() < 0.1:
            changes["parameters"] = (random.choice(PARAMETERS),)
        found = replace(schema, **changes)
        if random.random() < 0.15 and found.type not in (Type.STRUCT, Type.MAP, Type.ARRAY):
            found = replace(found, default=self.value(replace(found, optional=False), may_be_null=False))
        return found

    def struct(self, depth: int) -> Schema:
        random = self.random
        self.number += 1
        name = random.choice((f"t.R{self.number}", f"R{self.number}", f"db.public.one.R{self.number}", None))
        fields = tuple(Field(f"f{number}", self.schema(depth)) for number in range(random.randrange(1, 5)))
        version = random.randrange(1, 3) if name and random.random() < 0.3 else None
        doc = "of a row" if random.random() < 0.1 else None
        return Schema(Type.STRUCT, name=name, version=version, doc=doc, fields=fields)

    def value(self, schema: Schema, *, may_be_null: bool = True) -> Any:
        random = self.random
        if may_be_null and schema.optional and random.random() < 0.4:
            return None
        if schema.type is Type.STRUCT:
            return Struct(schema, {one.name: self.value(one.schema) for one in schema.fields})
        if schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            return [self.value(schema.value_schema) for _ in range(random.randrange(3))]
        if schema.type is Type.MAP:
            assert schema.key_schema is not None and schema.value_schema is not None
            return {self.value(schema.key_schema): self.value(schema.value_schema) for _ in range(random.randrange(2))}
        logical = (data.DECIMAL, data.DATE, data.TIME, data.TIMESTAMP)
        return random.choice(
            next(values for leaf, values in LEAVES if leaf.type is schema.type and (leaf.name == schema.name or schema.name not in logical))
        )


# ------------------------------------------------------------ random schemas of Avro

AVRO: Final[tuple[tuple[Any, tuple[Any, ...]], ...]] = (
    ("int", (0, -5)), ("long", (0, 2**62)), ("float", (0.0, 1.5)), ("double", (0.0, -1e300)), ("boolean", (True, False)),
    ("string", ("", "ü")), ("bytes", (b"", b"\xff")), ({"type": "string", "avro.java.string": "String"}, ("s",)),
    ({"type": "int", "logicalType": "date"}, (0, 19782)), ({"type": "int", "logicalType": "time-millis"}, (0, 3_723_004)),
    ({"type": "long", "logicalType": "timestamp-millis"}, (0, 1_709_208_000_123)),
    ({"type": "long", "logicalType": "timestamp-micros"}, (0, 1_709_208_000_123_456)),
    ({"type": "long", "logicalType": "time-micros"}, (0, 3_723_004_005)),
    ({"type": "string", "logicalType": "uuid"}, ("41f22760-75fa-4601-880a-8ef5206d056f",)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, (b"\x00", b"\xff\x6a")),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9}, (b"\x05",)),
    ({"type": "int", "connect.type": "int16"}, (7,)), ({"type": "string", "connect.name": "n.N", "connect.version": 3}, ("named",)),
)  # fmt: skip


class RandomAvro:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.number = 0
        self.named: list[tuple[str, Any]] = []

    def case(self) -> tuple[Any, Any]:
        return self.record(3) if self.random.random() < 0.8 else self.any(2)

    def any(self, depth: int) -> tuple[Any, Any]:
        """A schema, and a value of it."""
        random = self.random
        what = random.random()
        if depth and what < 0.12:
            items, value = self.any(depth - 1)
            return {"type": "array", "items": items}, [value] * random.randrange(3)
        if depth and what < 0.22:
            values, value = self.any(depth - 1)
            return {"type": "map", "values": values}, {"k": value} if random.random() < 0.7 else {}
        if depth and what < 0.36:
            return self.record(depth - 1)
        if what < 0.43:
            name = self.name("E")
            return self.known({"type": "enum", **name, "symbols": ["A", "B", "C"], **self.documented()}, random.choice("ABC"))
        if what < 0.5:
            return self.known({"type": "fixed", **self.name("F"), "size": 3}, b"\x00a\xff")
        if what < 0.53 and self.named:
            return random.choice(self.named)
        return random.choice([(kind, random.choice(values)) for kind, values in AVRO])

    def name(self, letter: str) -> dict[str, str]:
        self.number += 1
        return {"name": f"{letter}{self.number}", **({"namespace": f"n{self.number}"} if self.random.random() < 0.5 else {})}

    def known(self, schema: dict[str, Any], value: Any) -> tuple[Any, Any]:
        if "namespace" in schema:
            self.named.append((f"{schema['namespace']}.{schema['name']}", value))
        return schema, value

    def documented(self) -> dict[str, str]:
        return {"doc": "a doc"} if self.random.random() < 0.2 else {}

    def record(self, depth: int) -> tuple[Any, Any]:
        name = self.name("R")
        fields, values = [], {}
        for number in range(self.random.randrange(1, 5)):
            schema, value, more = self.field(depth)
            fields.append({"name": f"f{number}", "type": schema, **more, **self.documented()})
            values[f"f{number}"] = value
        return self.known({"type": "record", **name, "fields": fields, **self.documented()}, values)

    def field(self, depth: int) -> tuple[Any, Any, dict[str, Any]]:
        """The schema, a value, and what else stands in the field."""
        random = self.random
        what = random.random()
        before = len(self.named)
        schema, value = self.any(depth)
        if what < 0.3:
            return ["null", schema], random.choice((None, value)), random.choice(({"default": None}, {}))
        if what < 0.35:
            return [schema, "null"], random.choice((None, value)), {}
        if what < 0.45:
            del self.named[before:]
            kinds = random.sample(("int", "long", "string", "boolean", "float", "double"), random.randrange(2, 4))
            values: dict[str, Any] = {"int": 5, "long": 2**40, "string": "s", "boolean": True, "float": 0.5, "double": 0.5}
            value = values[random.choice(kinds)]
            return (["null", *kinds], random.choice((None, value)), {}) if random.random() < 0.5 else (kinds, value, {})
        if what < 0.55 and schema in ("int", "string", "boolean", "double"):
            return schema, value, {"default": {"int": 3, "string": "d", "boolean": True, "double": 1.5}[schema]}
        return schema, value, {}


def bytes_of(avro: Any, value: Any) -> bytes:
    """Without logical types, whose values are given in their base types."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(_plain(avro)), value)
    return out.getvalue()


def _plain(avro: Any) -> Any:
    if isinstance(avro, list):
        return [_plain(one) for one in avro]
    return {name: _plain(one) for name, one in avro.items() if name != "logicalType"} if isinstance(avro, dict) else avro


def compare(oracle: Oracle, seed: int) -> list[str]:
    """The differences of one seed, in a schema of Connect and in one of Avro."""
    schema, value = RandomConnect(Random(seed)).case()
    theirs, own = oracle.answer({"connect": shown(schema, value)}), ours(schema, value)
    for one in (theirs, own):
        if "schema" in one:
            one["schema"] = with_full_names(one["schema"], set())
    found = [] if is_beyond_names(theirs, own) else list(differences(theirs, own))
    avro, given = RandomAvro(Random(seed)).case()
    body = bytes_of(avro, given)
    theirs, own = oracle.answer({"avro": avro, "bytes": base64.b64encode(body).decode()}), ours_of_avro(avro, body)
    found += differences(theirs, own, "of Avro")
    if "read" in theirs and theirs["read"]["schema"]["type"] == "struct" and theirs == own:
        found += _written_again(oracle, theirs["read"])
    return found


def _written_again(oracle: Oracle, read: dict[str, Any]) -> Iterator[str]:
    """What was read of an Avro schema of others, written as Avro."""
    schema, value = WITH_SCHEMA.to_data("", json.dumps(read).encode())
    assert schema is not None
    theirs, own = oracle.answer({"connect": read}), ours(schema, value)
    for one in (theirs, own):
        if "schema" in one:
            one["schema"] = with_full_names(one["schema"], set())
    yield from differences(theirs, own, "again")


def run(cases: int, seed: int) -> int:
    """Returns the number of cases that differ."""
    wrong = 0
    with asker() as oracle:
        for number in range(seed, seed + cases):
            found = compare(oracle, number)
            wrong += bool(found)
            if found and wrong <= MOST:
                print(f"case {number}", *found[:8], sep="\n  ", flush=True)
    print(f"{cases} schemas of Connect and {cases} of Avro: {wrong} differ")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare our Avro converter with AvroData on random schemas and values.")
    parser.add_argument("--cases", type=int, default=500, help="how many (500)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    options = parser.parse_args()
    return 1 if run(options.cases, options.seed) else 0


if __name__ == "__main__":
    sys.exit(main())
