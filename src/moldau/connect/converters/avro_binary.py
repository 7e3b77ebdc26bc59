"""◇ The form of an Avro schema in which fastavro reads and writes its bytes: the same bytes, and no doubt about names and branches.

- Logical types and defaults are left out: Connect's own logical types are made of the base types, and every field is given.
- Names are whole and in one namespace: fastavro does not find a type without a namespace from within one.
- A branch of a union of several types is a record with one field, named by its place: `v0`, `v1` ….  A record has the bytes of its
  fields, so the bytes are the branch's, and an int differs from a long.
"""

import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import fastavro

from moldau.connect.converters.avro_names import with_full_names

PREFIX: Final = "all."
LEFT_OUT: Final = ("logicalType", "default")


class Branch(dict[str, Any]):
    """A value of a union of several types: one key, the field of the branch."""


def branch(place: int, value: Any) -> Branch:
    return Branch({f"v{place}": value})


def place_of(value: Any) -> tuple[int, Any]:
    """The place of the branch, and its value.  A default stands for itself, and belongs to the first branch."""
    if isinstance(value, dict) and len(value) == 1:
        ((name, inner),) = value.items()
        if isinstance(name, str) and name[:1] == "v" and name[1:].isdigit():
            return int(name[1:]), inner
    return 0, value


def parsed(texts: Iterable[str]) -> Any:
    """The last schema for fastavro; it may name types of those before it.  Errors: SchemaParseException, ValueError."""
    numbers = itertools.count()
    named: dict[str, Any] = {}
    known: set[str] = set()
    found: Any = None
    for text in texts:
        avro = _plain(with_full_names(json.loads(text), known, prefix=PREFIX), numbers)
        found = fastavro.parse_schema(avro, named_schemas=named)
    return found


def _plain(avro: Any, numbers: Iterator[int]) -> Any:
    if isinstance(avro, list):
        several = len([one for one in avro if one != "null"]) > 1
        places = itertools.count()
        return [_branch(one, next(places), numbers) if several and one != "null" else _plain(one, numbers) for one in avro]
    if not isinstance(avro, dict):
        return avro
    found = {name: value for name, value in avro.items() if name not in LEFT_OUT}
    if isinstance(avro.get("fields"), list):
        found["fields"] = [{"name": one["name"], "type": _plain(one["type"], numbers)} for one in avro["fields"]]
    for part in ("type", "items", "values"):
        if part in avro:
            found[part] = _plain(avro[part], numbers)
    return found


def _branch(avro: Any, place: int, numbers: Iterator[int]) -> Any:
    fields = [{"name": f"v{place}", "type": _plain(avro, numbers)}]
    return {"type": "record", "name": f"branch{next(numbers)}", "fields": fields}
