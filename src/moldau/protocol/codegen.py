"""◇ Generated source code, line by line.  Each line knows the field that it is about.

A path costs nothing until something fails.  Then the failing line's number leads to its field, and loop variables still in the frame
fill in the indexes.
"""

import linecache
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import TracebackType
from typing import Any, Final

from moldau.protocol.declared import REQUIRED, Field, Struct

SCALARS: Final = {"int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "uint32": "I", "float64": "d", "boolean": "?"}
SIZES: Final = {kind: struct.calcsize(">" + code) for kind, code in SCALARS.items()} | {"uuid": 16}
MAX_STRING: Final = 0x7FFF
"""Bytes of UTF-8, in both forms of a length: Kafka refuses longer ones."""


class Refused(ValueError):
    """An error in generated code or in a function that it calls; `explain` adds the path."""


UNWRITABLE: Final = (Refused, struct.error, AttributeError, TypeError, UnicodeError, OverflowError)


class Source:
    """Lines of one generated module, each with the path of the field it is about."""

    def __init__(self, name: str, declared: type[Struct], version: int, flexible: bool) -> None:
        self.name = name
        self.declared = declared
        self.version = version
        self.flexible = flexible
        self.lines: list[str] = []
        self.paths: list[list[tuple[str, str]]] = []
        """For each line its fields.  A line with several fields also has an expression for each, which fails if that field does."""
        self.depth = 0
        self.names: dict[str, Any] = {"new": object.__new__, "join": b"".join, "Refused": Refused, "version": version}
        self.path: list[str] = []
        self.functions: list[Callable[[], None]] = []
        self.serial = 0

    def line(self, text: str, about: list[tuple[str, str]] | None = None) -> None:
        self.lines.append("    " * self.depth + text)
        self.paths.append(about or [(self.here, "")])

    @property
    def here(self) -> str:
        return "".join(self.path)

    @contextmanager
    def block(self, text: str) -> Iterator[None]:
        self.line(text)
        self.depth += 1
        yield
        self.depth -= 1

    @contextmanager
    def within(self, path: str) -> Iterator[None]:
        self.path.append(path)
        yield
        self.path.pop()

    def fresh(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    def bind(self, prefix: str, value: Any) -> str:
        """A name for `value` in the generated module, the same one for the same value."""
        for name, bound in self.names.items():
            if bound is value and name.startswith(prefix):
                return name
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    def bind_struct(self, codes: str, method: str) -> str:
        packer = _struct(">" + codes)
        name = "s_" + codes.replace("?", "t") + ("_u" if method == "unpack_from" else "_p")
        self.names[name] = getattr(packer, method)
        return name

    def make(self) -> Any:
        while self.functions:
            self.functions.pop(0)()
        text = "\n".join(self.lines) + "\n"
        linecache.cache[self.name] = (len(text), None, text.splitlines(keepends=True), self.name)
        exec(compile(text, self.name, "exec"), self.names)
        return self.names["run"]


@cache
def _struct(layout: str) -> struct.Struct:
    return struct.Struct(layout)


def explain(error: BaseException, source: Source) -> tuple[str, str]:
    """The field at which the generated code stopped, and the reason."""
    path = source.declared.__name__
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == source.name:
            values = dict(trace.tb_frame.f_locals)
            path += _indexed(_culprit(source.paths[trace.tb_lineno - 1], source.names, values), values)
        trace = trace.tb_next
    reason = str(error) or type(error).__name__
    if isinstance(error, IndexError) or (isinstance(error, struct.error) and "unpack" in reason):
        reason = "the bytes end inside it"
    return path, reason


def _culprit(about: list[tuple[str, str]], names: dict[str, Any], values: dict[str, Any]) -> str:
    """The field of a line that failed: the first field whose own part of the work fails again."""
    for path, attempt in about[:-1]:
        try:
            eval(attempt, names, values)
        except Exception:
            return path
    return about[-1][0]


def _indexed(path: str, values: dict[str, Any]) -> str:
    """Fills a path's `[i3]` with the loop's counter, and `[x4 of a4]` with where the item is in its list."""
    pieces = path.split("[")
    for number, piece in enumerate(pieces[1:], 1):
        name, rest = piece.split("]", 1)
        item, of, items = name.partition(" of ")
        index = values.get(item)
        if of:
            index = next((at for at, one in enumerate(values.get(items) or ()) if one is index), "?")
        pieces[number] = f"{'?' if index is None else index}]{rest}"
    return "[".join(pieces)


def default_of(field: Field, source: Source) -> str:
    """The expression for the default of a field that this version lacks."""
    assert field.default is not REQUIRED, f"{source.declared.__name__} v{source.version}: {field.name} is not in it and has no default"
    if isinstance(field.default, list):
        return "[]"
    if field.default is None or isinstance(field.default, int | float | str | bytes):
        return repr(field.default)
    return source.bind("d", field.default)


def length_code(kind: str, flexible: bool) -> str:
    """The form of a length on the wire: one byte of a varint (more may follow), or a fixed size."""
    return "B" if flexible else "h" if kind == "string" else "i"
