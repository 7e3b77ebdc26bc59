"""◇ The messages of PostgreSQL's plug-in pgoutput, protocol version 1: bytes to events.

    Begin     B | final lsn i64 | time i64, µs since 2000 | xid i32
    Commit    C | flags i8 | lsn i64 | end lsn i64 | time i64
    Relation  R | id i32 | schema | name | identity i8 | columns i16 × (key i8, name, type oid i32, modifier i32)
    Insert    I | relation i32 | N tuple
    Update    U | relation i32 | [K or O tuple] | N tuple
    Delete    D | relation i32 | K or O tuple
    Truncate  T | count i32 | options i8 | relations i32 …
    tuple     columns i16 × (n null | u unchanged TOAST | t length i32, text)

Source: PostgreSQL's documentation, "Logical Replication Message Formats".
"""

import struct
from dataclasses import dataclass
from typing import Final

from moldau.connect.errors import DataError

POSTGRES_EPOCH_US: Final = 946_684_800_000_000


class Unchanged:
    """A large value that an update did not touch and the log does not repeat."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()
Cell = str | None | Unchanged


@dataclass(frozen=True, slots=True)
class Column:
    """`is_key`: whether it is one of the columns by which the log names a row; none is with REPLICA IDENTITY FULL."""

    name: str
    type_oid: int
    modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    id: int
    schema: str
    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """`time_us`: the time of the commit, in microseconds since 1970."""

    final_lsn: int
    time_us: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    end_lsn: int


@dataclass(frozen=True, slots=True)
class Change:
    """`op`: c, u or d.  `before`: the old key, or the whole old row with REPLICA IDENTITY FULL."""

    op: str
    relation: int
    before: tuple[Cell, ...] | None
    after: tuple[Cell, ...] | None
    has_whole_before: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    relations: tuple[int, ...]


Event = Begin | Commit | Relation | Change | Truncate


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 1

    def number(self, layout: str) -> int:
        size = struct.calcsize(layout)
        try:
            found = int(struct.unpack_from(layout, self._data, self._at)[0])
        except struct.error as error:
            raise DataError(f"a message of pgoutput ends at byte {len(self._data)}") from error
        self._at += size
        return found

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise DataError("a name in a message of pgoutput does not end")
        found = self._data[self._at : end].decode()
        self._at = end + 1
        return found

    def letter(self) -> str:
        return chr(self.number(">B"))

    def tuple(self) -> tuple[Cell, ...]:
        cells: list[Cell] = []
        for _ in range(self.number(">h")):
            kind = self.letter()
            if kind == "n":
                cells.append(None)
            elif kind == "u":
                cells.append(UNCHANGED)
            elif kind == "t":
                size = self.number(">i")
                cells.append(self._data[self._at : self._at + size].decode())
                self._at += size
            else:
                raise DataError(f"a cell of kind {kind!r} in a message of pgoutput: version 1 has n, u and t")
        return tuple(cells)


def parse(data: bytes) -> Event | None:
    """None: a message that changes no row (Origin, Type, Message).  Errors: DataError."""
    kind, reader = chr(data[0]), _Reader(data)
    if kind == "B":
        return Begin(reader.number(">q"), reader.number(">q") + POSTGRES_EPOCH_US, reader.number(">i"))
    if kind == "C":
        reader.number(">b")
        reader.number(">q")
        return Commit(reader.number(">q"))
    if kind == "R":
        relation, schema, name = reader.number(">I"), reader.text(), reader.text()
        is_whole = reader.letter() == "f"
        columns = []
        for _ in range(reader.number(">h")):
            flags, column = reader.number(">b"), reader.text()
            columns.append(Column(column, reader.number(">I"), reader.number(">i"), bool(flags & 1) and not is_whole))
        return Relation(relation, schema or "pg_catalog", name, tuple(columns))
    if kind == "I":
        relation = reader.number(">I")
        reader.letter()
        return Change("c", relation, None, reader.tuple())
    if kind in "UD":
        return _change(kind, reader)
    if kind == "T":
        count = reader.number(">i")
        reader.number(">b")
        return Truncate(tuple(reader.number(">I") for _ in range(count)))
    if kind in "OYM":
        return None
    raise DataError(f"pgoutput sent a message of kind {kind!r}, which version 1 does not have")


def _change(kind: str, reader: _Reader) -> Change:
    relation, part = reader.number(">I"), reader.letter()
    before: tuple[Cell, ...] | None = None
    is_whole = part == "O"
    if part in "KO":
        before = reader.tuple()
        part = reader.letter() if kind == "U" else ""
    return Change("u" if kind == "U" else "d", relation, before, reader.tuple() if part == "N" else None, is_whole)
