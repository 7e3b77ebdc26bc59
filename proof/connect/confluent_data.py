"""● Random schemas and values through our JSON Schema and Protobuf converters and through Confluent's JsonSchemaData and ProtobufData.

    MOLDAU_CONFLUENT_JARS=/opt/confluent/share/java python -m proof.connect.confluent_data --kind JSON --cases 2000 --seed 1

Confluent's jars are in no public repository of Maven: the folders that MOLDAU_CONFLUENT_JARS names, divided by colons, hold them and the
jars that they need (`oracle/ConfluentSchemas.java` runs them).  Connect's schemas and values must give the same schema and the same data,
and be read again alike; values of random JSON Schemas must be read alike.

DIFFERENCES that are left out of the comparison (for Protobuf see `protobuf_data`)
- the order of properties in a JSON Schema, of parameters, and of an enum's symbols
- a value whose type is not its schema's: an error here, zero or null there
- a map with several entries, whose order Java's hashes decide: maps have at most one
"""

import argparse
import json
import os
import sys
from pathlib import Path
from random import Random
from typing import Any, Final

from moldau.connect.converters.json_schema_converter import SCHEMA_DRAFT, JsonSchemaConverter
from moldau.connect.errors import DataError
from moldau.connect.registry.client import Registered
from moldau.connect.registry.framing import framed, unframed
from proof.connect import protobuf_data
from proof.connect.avro_data import MOST, WITH_SCHEMA, RandomConnect, Registry, differences, shown
from proof.metadata.oracle import Oracle

SOURCE: Final = Path(__file__).parent / "oracle" / "ConfluentSchemas.java"
FOLDERS: Final = "MOLDAU_CONFLUENT_JARS"


def jars() -> list[Path]:
    """The jars, and the folders themselves, which may hold classes; none when the variable is not set."""
    folders = [Path(one) for one in os.environ.get(FOLDERS, "").split(os.pathsep) if one]
    return [path for folder in folders for path in (folder, *sorted(folder.rglob("*.jar")))]


def asker() -> Oracle:
    found = jars()
    assert found, f"{FOLDERS} names no folder with Confluent's jars"
    return Oracle(SOURCE, "ConfluentSchemas", found)


# ------------------------------------------------------------ JSON Schema


def ours_of_json(schema: Any, value: Any) -> dict[str, Any]:
    registry = Registry()
    converter = JsonSchemaConverter(registry, lambda topic, name: "s")  # type: ignore[arg-type]
    try:
        raw = converter.to_bytes("t", schema, value)
        assert raw is not None
        number, body = unframed(raw)
        found = json.loads(registry.known[number].text)
        del found["$schema"]
        return {"schema": found, "data": json.loads(body), "read": shown(*converter.to_data("t", raw))}
    except DataError as error:
        return {"error": str(error)}


def ours_of_json_schema(schema: Any, value: Any) -> dict[str, Any]:
    registry = Registry()
    number, _ = registry.id_of("s", Registered("JSON", json.dumps(schema)))
    converter = JsonSchemaConverter(registry, lambda topic, name: "s")  # type: ignore[arg-type]
    try:
        return {"read": shown(*converter.to_data("t", framed(number, json.dumps(value).encode())))}
    except DataError as error:
        return {"error": str(error)}


class RandomJsonSchema:
    """Makes schemas as people write them, and values of them."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def case(self) -> tuple[dict[str, Any], Any]:
        schema, value = self.object(3)
        return {"$schema": SCHEMA_DRAFT, **schema}, value

    def any(self, depth: int) -> tuple[dict[str, Any], Any]:
        random = self.random
        what = random.random()
        if depth and what < 0.15:
            return self.object(depth - 1)
        if depth and what < 0.27:
            items, value = self.any(depth - 1)
            return {"type": "array", "items": items}, [value] * random.randrange(3)
        if depth and what < 0.37:
            return self.choice(depth - 1)
        if depth and what < 0.42:
            return self.all_of(depth - 1)
        if what < 0.5:
            symbols = random.sample(("red", "green", "blue"), random.randrange(1, 4))
            return {**random.choice(({"type": "string"}, {})), "enum": symbols}, random.choice(symbols)
        if what < 0.54:
            return {"const": "fixed"}, "fixed"
        return random.choice(
            (
                ({"type": "integer"}, 7), ({"type": "integer", "connect.type": "int16"}, 300), ({"type": "number"}, 1.5),
                ({"type": "number", "connect.type": "float32"}, 0.25), ({"type": "boolean"}, True), ({"type": "string"}, "ü"),
                ({"type": "string", "format": "date-time"}, "2024-02-29T00:00:00Z"), ({"type": "integer", "minimum": 3}, 3),
                ({"type": "string", "connect.type": "bytes"}, "AP8="), ({"type": "string", "description": "a text"}, ""),
                ({"type": "string", "title": "named", "connect.version": 2}, "x"), ({"type": "integer", "default": 5}, 6),
            )
        )  # fmt: skip

    def object(self, depth: int, names: str = "abc") -> tuple[dict[str, Any], Any]:
        """`names`: letters for properties.  Java's hashes order them by the alphabet."""
        random = self.random
        properties, values = {}, {}
        for name in names[: random.randrange(1, 4)]:
            properties[name], values[name] = self.any(depth)
        if random.random() < 0.7:
            for place, one in enumerate(properties.values()):
                one["connect.index"] = place
        more: dict[str, Any] = {"required": sorted(properties)[:1]} if random.random() < 0.4 else {}
        if random.random() < 0.3:
            more["title"] = f"t.R{random.randrange(100)}"
        if random.random() < 0.1:
            more["additionalProperties"] = False
        return {"type": "object", "properties": properties, **more}, values

    def choice(self, depth: int) -> tuple[dict[str, Any], Any]:
        random = self.random
        members = [self.any(0) if random.random() < 0.6 else self.object(depth) for _ in range(random.randrange(1, 3))]
        value = random.choice(members)[1]
        listed: list[dict[str, Any]] = [schema for schema, _ in members]
        if random.random() < 0.6:
            listed.insert(random.randrange(len(listed) + 1), {"type": "null"})
            value = random.choice((None, value))
        return {random.choice(("oneOf", "anyOf")): listed}, value

    def all_of(self, depth: int) -> tuple[dict[str, Any], Any]:
        (one, a), (other, b) = self.object(depth), self.object(depth, "def")
        return {"allOf": [one, other]}, {**a, **b}


def _sorted(found: Any) -> Any:
    """The answer with the symbols of each enum in order."""
    if isinstance(found, list):
        return [_sorted(one) for one in found]
    if not isinstance(found, dict):
        return found
    return {name: sorted(one, key=str) if name == "enum" else _sorted(one) for name, one in found.items()}


def compare_json(oracle: Oracle, seed: int) -> list[str]:
    schema, value = RandomConnect(Random(seed)).case()
    theirs = oracle.answer({"kind": "JSON", "connect": shown(schema, value)})
    found = list(differences(theirs, ours_of_json(schema, value)))
    text, given = RandomJsonSchema(Random(seed)).case()
    theirs, own = oracle.answer({"kind": "JSON", "json": text, "data": given}), ours_of_json_schema(text, given)
    if not own.get("error", "").startswith("Invalid type"):
        found += [f"of JSON Schema {one}" for one in differences(theirs, own)]
    if "read" in theirs and theirs == own:
        read, value = WITH_SCHEMA.to_data("", json.dumps(theirs["read"]).encode())
        theirs = oracle.answer({"kind": "JSON", "connect": theirs["read"]})
        found += [f"again {one}" for one in differences(_sorted(theirs), _sorted(ours_of_json(read, value)))]
    return found


KINDS: Final = {"JSON": compare_json, "PROTOBUF": protobuf_data.compare}


def run(kind: str, cases: int, seed: int) -> int:
    """Returns the number of cases that differ."""
    wrong = 0
    with asker() as oracle:
        for number in range(seed, seed + cases):
            found = KINDS[kind](oracle, number)
            wrong += bool(found)
            if found and wrong <= MOST:
                print(f"case {number}", *found[:8], sep="\n  ", flush=True)
    print(f"{cases} schemas of Connect and {cases} of {kind}: {wrong} differ")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare our registry converters with Confluent's classes on random schemas and values.")
    parser.add_argument("--kind", choices=KINDS, default="JSON")
    parser.add_argument("--cases", type=int, default=500, help="how many (500)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    options = parser.parse_args()
    return 1 if run(options.kind, options.cases, options.seed) else 0


if __name__ == "__main__":
    sys.exit(main())
