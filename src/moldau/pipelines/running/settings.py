"""◇ The settings of one pipeline: declared once with default and meaning, read from TOML, every mistake named by its field.

    read(text, fields)  →  values by the field's name, such as "rules.deadline_s"          example(name, fields)  →  a file to begin with

The tables `[kafka]` and `[spark]` are handed on: options of both ends without their prefix, and settings of the session.
"""

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from moldau.config import nearest

REQUIRED: Final = object()
KAFKA, SPARK = "kafka", "spark"
TABLES: Final = (KAFKA, SPARK)


class SettingsError(ValueError):
    """Errors in a file of settings, a line for each field."""

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("\n".join(mistakes))
        self.mistakes = list(mistakes)


class Field(NamedTuple):
    """One setting.  `parse` takes the value from TOML, and raises a ValueError that says what is expected."""

    name: str
    default: Any
    parse: Callable[[Any], Any]
    about: str


def words(found: Any) -> str:
    if not isinstance(found, str):
        raise ValueError(f"a text is expected, not {found!r}")
    return found


def filled(found: Any) -> str:
    if not words(found).strip():
        raise ValueError("a text that is not empty is expected")
    return str(found).strip()


def at_least(low: int) -> Callable[[Any], int]:
    def parse(found: Any) -> int:
        if type(found) is not int or found < low:
            raise ValueError(f"a whole number of at least {low} is expected, not {found!r}")
        return found

    return parse


def read(text: str, fields: Sequence[Field]) -> dict[str, Any]:
    """Errors: SettingsError, with all mistakes at once."""
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"not TOML: {error}"]) from None
    tables, mistakes = {name: given.pop(name, {}) for name in TABLES}, []
    values: dict[str, Any] = {}
    flat = dict(_flat(given))
    for field in fields:
        found = flat.pop(field.name, field.default)
        if found is REQUIRED:
            mistakes.append(f"{field.name}: it is needed ({field.about})")
            continue
        try:
            values[field.name] = field.parse(found)
        except ValueError as error:
            mistakes.append(f"{field.name}: {error}")
    mistakes += [_unknown(name, [field.name for field in fields]) for name in flat]
    for name, table in tables.items():
        values[name], wrong = _texts(name, table)
        mistakes += wrong
    mistakes += _wrong_options(values[KAFKA])
    if mistakes:
        raise SettingsError(mistakes)
    return values


def example(about: str, fields: Iterable[Field]) -> str:
    """A file with every field: those with a default are commented out."""
    lines, section = [f"# {about}"], ""
    for field in fields:
        table, _, name = field.name.rpartition(".")
        if table != section:
            section = table
            lines += ["", f"[{table}]"]
        lines += ["", f"# {field.about}"]
        lines.append(f'{name} = ""' if field.default is REQUIRED else f"# {name} = {_toml(field.default)}")
    lines += ["", "[kafka]", "# Options of both ends, such as:", '# "security.protocol" = "SASL_SSL"']
    lines += ["", "[spark]", "# Settings of the session, where spark-submit says nothing else, such as:"]
    lines += ['# "spark.sql.shuffle.partitions" = "4"']
    return "\n".join(lines) + "\n"


def _flat(given: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for name, found in given.items():
        if isinstance(found, dict):
            yield from _flat(found, f"{prefix}{name}.")
        else:
            yield prefix + name, found


def _unknown(name: str, known: list[str]) -> str:
    meant = nearest(name, known)
    return f"{name}: it is not known" + (f", did you mean {meant}?" if meant else "")


def _texts(name: str, table: Any) -> tuple[dict[str, str], list[str]]:
    """Keys may be quoted (`"spark.a.b" = 1`) or dotted (`spark.a.b = 1`, which TOML reads as tables)."""
    if not isinstance(table, dict):
        return {}, [f"{name}: a table is expected, [{name}]"]
    found = dict(_flat(table))
    wrong = [f"{name}.{key}: a text or a number is expected, not {value!r}" for key, value in found.items() if isinstance(value, list)]
    return {key: _text_of(value) for key, value in found.items()}, wrong


def _text_of(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _wrong_options(options: Mapping[str, str]) -> list[str]:
    from pyspark_moldau.options import (  # the package needs PySpark, and a pipeline's example does not
        KAFKA_PREFIX,
        OptionError,
        read_options,
    )

    wrong = []
    for name, value in options.items():
        try:
            read_options({"kafka.bootstrap.servers": "any:1", KAFKA_PREFIX + name: value})
        except OptionError as error:
            wrong.append(f"kafka.{name}: {str(error).partition(': ')[2]}")
    return wrong


def _toml(value: Any) -> str:
    return str(value) if isinstance(value, int) else f'"{value}"'
