"""◇ Options that decide how values are told, under Debezium's names."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import Definition, Key, Kind


@dataclass(frozen=True, slots=True)
class Modes:
    decimal: str = "precise"
    time: str = "adaptive"
    binary: str = "bytes"
    interval: str = "numeric"
    hstore: str = "json"
    placeholder: str = "__debezium_unavailable_value"
    unknown: bool = False


def _choice(name: str, doc: str, *allowed: str) -> Key:
    return Key(name, Kind.STRING, allowed[0], "MEDIUM", doc, check.one_of(*allowed))


OPTIONS: Final = Definition(
    _choice("decimal.handling.mode", "How numeric and money are told: as Decimal, as float64, or as text.", "precise", "double", "string"),
    _choice(
        "time.precision.mode",
        "How times are told: in milliseconds or microseconds as the column has places, or as Connect's own types, in milliseconds.",
        "adaptive",
        "adaptive_time_microseconds",
        "connect",
    ),
    _choice("binary.handling.mode", "How bytea is told.", "bytes", "base64", "base64-url-safe", "hex"),
    _choice("interval.handling.mode", "How intervals are told: in microseconds, or as text of ISO 8601.", "numeric", "string"),
    _choice("hstore.handling.mode", "How hstore is told: as text of JSON, or as a map.", "json", "map"),
    Key(
        "unavailable.value.placeholder", Kind.STRING, "__debezium_unavailable_value", "MEDIUM",
        "The text in place of a large value that an update left as it was.",
    ),
    Key("include.unknown.datatypes", Kind.BOOLEAN, False, "LOW", "Whether columns of unknown types are told as bytes, or left out."),
)  # fmt: skip


def modes_of(options: Mapping[str, Any]) -> Modes:
    return Modes(
        options["decimal.handling.mode"], options["time.precision.mode"], options["binary.handling.mode"],
        options["interval.handling.mode"], options["hstore.handling.mode"], options["unavailable.value.placeholder"],
        options["include.unknown.datatypes"],
    )  # fmt: skip
