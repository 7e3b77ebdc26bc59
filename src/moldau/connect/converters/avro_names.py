"""◇ Names of Avro's records, enums and fixed types, made whole: a name without a dot belongs to the namespace around it.

Source: the Avro specification, "Names".
"""

from typing import Any, Final

PRIMITIVE: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = ("record", "error", "enum", "fixed")


def with_full_names(avro: Any, known: set[str], *, prefix: str = "", space: str = "") -> Any:
    """The schema with full names and without namespaces.

    `known`: full names that were defined before; those of the schema are added.  `prefix` goes before each name.
    """
    if isinstance(avro, list):
        return [with_full_names(one, known, prefix=prefix, space=space) for one in avro]
    if isinstance(avro, str):
        return avro if avro in PRIMITIVE else prefix + _referenced(avro, known, space)
    if not isinstance(avro, dict):
        return avro
    found = {name: value for name, value in avro.items() if name != "namespace"}
    if avro.get("type") in NAMED:
        name = str(avro["name"])
        if "." not in name:
            around = str(avro.get("namespace", space) or "")
            name = f"{around}.{name}" if around else name
        known.add(name)
        found["name"], space = prefix + name, name.rpartition(".")[0]
        if "fields" in avro:
            inner = [{**one, "type": with_full_names(one["type"], known, prefix=prefix, space=space)} for one in avro["fields"]]
            found["fields"] = inner
        return found
    for part in ("type", "items", "values"):
        if part in avro and avro[part] not in ("array", "map"):
            found[part] = with_full_names(avro[part], known, prefix=prefix, space=space)
    return found


def _referenced(name: str, known: set[str], space: str) -> str:
    full = f"{space}.{name}" if space and "." not in name else name
    return full if full in known else name
