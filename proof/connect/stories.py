"""● Random stories of tables: the statements that make the tables, and the steps that change them.

A story has rows of many types, changes of the primary key, large values that an update leaves as they were, truncations, savepoints that
are rolled back, columns that are added between changes, transactions that run side by side, and at times a large transaction.

What Debezium is known to tell in another way is left out: columns of the type name, which Debezium tells as null from the log; dates before
Christ in a snapshot; money with decimal.handling.mode=string, which has one place in Debezium's snapshot.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

Connection = Any
Step = Callable[[Connection, Connection], None]


@dataclass(frozen=True, slots=True)
class Story:
    """`options`: those of both connectors.  A step gets two connections."""

    before: list[str]
    steps: list[Step]
    options: dict[str, str]


INTEGERS: Final = ("0", "1", "-1", "32767", "-32768", "NULL")
TYPES: Final[dict[str, tuple[str, ...]]] = {
    "smallint": INTEGERS,
    "int": (*INTEGERS, "2147483647"),
    "bigint": (*INTEGERS, "-9223372036854775808"),
    "real": ("0", "1.1", "-2.5e10", "NULL"),
    "double precision": ("0", "2.2", "1e300", "NULL"),
    "boolean": ("true", "false", "NULL"),
    "text": ("''", "'ü ''x'' \\ \"'", "'line\nline'", "repeat('y', 4000)", "NULL"),
    "varchar(9)": ("'abc'", "NULL"),
    "char(4)": ("'ab'", "NULL"),
    '"char"': ("'z'", "NULL"),
    "numeric": ("0", "1.500", "-12345678901234567890.123456789", "1e10", "0.00001", "NULL"),
    "numeric(10,2)": ("0", "1.5", "-99999999.99", "NULL"),
    "numeric(6)": ("0", "-123456", "NULL"),
    "money": ("0", "-12.34", "1234567.89", "NULL"),
    "date": ("'2024-02-29'", "'1969-12-31'", "'0044-03-15 BC'", "'20000-01-01'", "NULL"),
    "time": ("'00:00:00'", "'23:59:59.999999'", "'01:02:03.5'", "NULL"),
    "time(3)": ("'01:02:03.456'", "NULL"),
    "timetz": ("'01:02:03+02'", "'01:02:03.123456-05:30'", "NULL"),
    "timestamp": ("'2024-02-29 12:00:00.123456'", "'1901-01-01'", "'infinity'", "'-infinity'", "'20000-01-01'", "NULL"),
    "timestamp(3)": ("'2024-02-29 12:00:00.123'", "'1969-12-31 23:59:59.999'", "NULL"),
    "timestamptz": ("'2024-02-29 12:00:00.25+02'", "'2024-02-29 12:00:00+00'", "'infinity'", "'20000-01-01'", "NULL"),
    "interval": ("'1 year 2 mons 3 days 04:05:06.7'", "'-1 day -00:00:01'", "'0'", "NULL"),
    "bit(1)": ("b'1'", "b'0'", "NULL"),
    "bit(11)": ("b'10000000001'", "b'00000000000'", "NULL"),
    "varbit(9)": ("b'101'", "NULL"),
    "bytea": ("''", "'\\x00ff'", "decode(repeat('ab', 4000), 'hex')", "NULL"),
    "uuid": ("'41f22760-75fa-4601-880a-8ef5206d056f'", "NULL"),
    "json": ("'{\"a\":  [1, null]}'", "NULL"),
    "jsonb": ("'{\"a\":  [1, null]}'", "NULL"),
    "xml": ("'<a>x</a>'", "NULL"),
    "inet": ("'10.0.0.1'", "'10.0.0.0/8'", "'::1'", "NULL"),
    "cidr": ("'10.0.0.0/8'", "NULL"),
    "macaddr": ("'08:00:2b:01:02:03'", "NULL"),
    "oid": ("7", "4294967295", "NULL"),
    "point": ("'(1,2)'", "'(-1.5,1e10)'", "NULL"),
    "int4range": ("'[1,5)'", "'empty'", "NULL"),
    "tsrange": ("'[2024-01-01,2024-01-02)'", "NULL"),
    "int[]": ("'{}'", "'{1,NULL,-3}'", "NULL"),
    "text[]": ("'{}'", '\'{a,"b \\"c\\", {}",NULL,"NULL",""}\'', "NULL"),
    "numeric(5,2)[]": ("'{1.5,NULL}'", "NULL"),
    "date[]": ("'{2024-02-29}'", "NULL"),
    "mood": ("'ok'", "'very sad'", "NULL"),
    "positive": ("5", "NULL"),
    "hstore": ("''", '\'a=>1, "b \\"c\\""=>NULL, d=>"x=>y"\'', "NULL"),
    "citext": ("'Ci'", "NULL"),
    "ltree": ("'a.b'", "NULL"),
    "tsvector": ("'a b'", "NULL"),
    "circle": ("'((0,0),1)'", "NULL"),
}
DEFAULTS: Final[dict[str, tuple[str, ...]]] = {
    "smallint": ("2",),
    "int": ("5", "-5"),
    "bigint": ("8",),
    "real": ("1.5",),
    "double precision": ("2.5",),
    "boolean": ("true",),
    "text": ("'t'", "''", "upper('x')"),
    "varchar(9)": ("'v'",),
    "char(4)": ("'c'",),
    "numeric(10,2)": ("1.5",),
    "date": ("'2024-02-29'", "CURRENT_DATE"),
    "time": ("'01:02:03'",),
    "timestamp": ("'2024-02-29 12:00:00'", "now()", "CURRENT_TIMESTAMP"),
    "timestamptz": ("now()", "CURRENT_TIMESTAMP", "'2024-02-29 12:00:00+00'"),
    "interval": ("'1 day'",),
    "bit(11)": ("b'10000000001'",),
    "uuid": ("gen_random_uuid()", "'41f22760-75fa-4601-880a-8ef5206d056f'"),
    "jsonb": ("'{}'",),
    "mood": ("'ok'",),
}
MODES: Final = {
    "decimal.handling.mode": ("precise", "double", "string"),
    "time.precision.mode": ("adaptive", "adaptive_time_microseconds", "connect"),
    "binary.handling.mode": ("bytes", "base64", "base64-url-safe", "hex"),
    "interval.handling.mode": ("numeric", "string"),
    "hstore.handling.mode": ("json", "map"),
    "tombstones.on.delete": ("true", "false"),
    "skipped.operations": ("t", "none", "u", "d"),
}
MAX_COLUMNS: Final = 12
_BEYOND: Final = re.compile("BC|infinity|20000-")
LARGE: Final = 20_000


def story(random: Random, *, steps: int = 60, large: int = LARGE, has_large: bool = False, fill: int = 0) -> Story:
    """`large`: the rows of the one large transaction, which three stories of ten have, or each with `has_large`.

    `fill`: the rows that each table has from the beginning.  Then a snapshot of Debezium can be taken at any moment: no table is truncated
    or written anew, for a snapshot that began before finds such a table empty, and no date is before Christ.
    """
    before = [
        "CREATE EXTENSION hstore", "CREATE EXTENSION citext", "CREATE EXTENSION ltree",
        "CREATE TYPE mood AS ENUM ('very sad', 'ok')", "CREATE DOMAIN positive AS int CHECK (value > 0)",
    ]  # fmt: skip
    options = {name: random.choice(values) for name, values in MODES.items() if random.random() < 0.3}
    types = [one for one in sorted(TYPES) if one != "money" or options.get("decimal.handling.mode") != "string"]
    if fill:
        types.remove("positive")  # PostgreSQL writes a table anew that gets a column of a type with a check
    within_calendar = options.get("time.precision.mode") == "connect"
    if fill:
        options["skipped.operations"] = "none"
    tables = [_Table(random, name, types, within_calendar, fill) for name in ("alpha", "Beta x", "gamma")]
    for table in tables:
        before += table.made()
        before += [table.inserted(before_christ=False) for _ in range(random.randrange(4))]
        before += table.filled()
    found = [_step(random, random.choice(tables)) for _ in range(steps)]
    if random.random() < 0.3 or has_large:
        found.insert(random.randrange(steps), _several([f"INSERT INTO gamma (a) SELECT n FROM generate_series(1, {large}) n"]))
    return Story(before, found, options)


class _Table:
    """A table, and random statements about it."""

    def __init__(self, random: Random, name: str, types: list[str], within_calendar: bool, fill: int) -> None:
        """`within_calendar`: only times that Python's calendar has."""
        self._random = random
        self._types = types
        self._within_calendar = within_calendar
        self.fill = fill
        self.name = f'"{name}"'
        self.columns = {f"c{number}": kind for number, kind in enumerate(random.sample(types, MAX_COLUMNS))}
        self.is_composite = name == "Beta x"
        self._next = 0

    @property
    def has_key(self) -> bool:
        return self.name != '"gamma"'

    def made(self) -> list[str]:
        random = self._random
        columns = ["a int", "b text DEFAULT 'k'"] if not self.has_key else ["a int NOT NULL", "b text NOT NULL DEFAULT 'k'"]
        for name, kind in self.columns.items():
            column = f"{name} {kind}"
            if kind in DEFAULTS and random.random() < 0.5:
                column += f" DEFAULT {random.choice(DEFAULTS[kind])}"
            elif self.has_key and random.random() < 0.3:
                column += " NOT NULL"
            columns.append(column)
        if self.has_key:
            columns.append("PRIMARY KEY (b, a)" if self.is_composite else "PRIMARY KEY (a)")
        made = [f"CREATE TABLE {self.name} ({', '.join(columns)})"]
        made += [f"ALTER TABLE {self.name} ALTER {name} SET STORAGE EXTERNAL" for name, kind in self.columns.items() if kind == "text"]
        if not self.has_key or random.random() < 0.3:
            made.append(f"ALTER TABLE {self.name} REPLICA IDENTITY FULL")
        self._required = {one.split()[0] for one in columns if one.endswith("NOT NULL")}
        return made

    def _value(self, name: str, *, before_christ: bool = True) -> str:
        kind = self.columns[name]
        values = [one for one in TYPES[kind] if one != "NULL" or name not in self._required]
        values = [one for one in values if (before_christ and not self.fill) or "BC" not in one]
        return self._random.choice([one for one in values if not (self._within_calendar and _BEYOND.search(one))])

    def filled(self) -> list[str]:
        if not self.fill:
            return []
        first, self._next = self._next + 1, self._next + self.fill
        given = [name for name in self.columns if name in self._required or self._random.random() < 0.8]
        values = ", ".join(["n", *(self._value(name, before_christ=False) for name in given)])
        rows = f"SELECT {values} FROM generate_series({first}, {self._next}) n"
        return [f"INSERT INTO {self.name} ({', '.join(['a', *given])}) {rows} ON CONFLICT DO NOTHING"]

    def inserted(self, *, before_christ: bool = True) -> str:
        self._next += 1
        given = [name for name in self.columns if name in self._required or self._random.random() < 0.8]
        values = [str(self._next), *(self._value(name, before_christ=before_christ) for name in given)]
        return f"INSERT INTO {self.name} ({', '.join(['a', *given])}) VALUES ({', '.join(values)}) ON CONFLICT DO NOTHING"

    def _some(self) -> str:
        return f"a % {self._random.randrange(1, 5)} = 0"

    def updated(self) -> str:
        given = self._random.sample(sorted(self.columns), self._random.randrange(1, 3))
        changes = ", ".join(f"{name} = {self._value(name)}" for name in given)
        return f"UPDATE {self.name} SET {changes} WHERE {self._some()}"

    def deleted(self) -> str:
        return f"DELETE FROM {self.name} WHERE a = {self._random.randrange(self._next + 2)}"

    def renamed(self) -> str:
        self._next += 1
        return f"UPDATE {self.name} SET a = {self._next + 1000} WHERE a = {self._random.randrange(self._next + 1)}"

    def widened(self) -> str:
        kind = self._random.choice(self._types)
        name = f"c{len(self.columns)}"
        self.columns[name] = kind
        return f"ALTER TABLE {self.name} ADD COLUMN {name} {kind}"

    def changed(self) -> str:
        ways = (self.inserted, self.inserted, self.inserted, self.updated, self.updated, self.deleted, self.renamed)
        return self._random.choice(ways)()


def _several(statements: list[str]) -> Step:
    def step(db: Connection, other: Connection) -> None:
        with db.transaction():
            for one in statements:
                db.execute(one)

    return step


def _step(random: Random, table: _Table) -> Step:
    what = random.random()
    if what < 0.5:
        return _several([table.changed()])
    if what < 0.65:
        return _several([table.changed() for _ in range(random.randrange(2, 8))])
    if what < 0.75:
        return _rolled_back(table.changed(), table.changed(), table.changed(), whole=random.random() < 0.3)
    if what < 0.85:
        return _side_by_side(table.inserted(), table.inserted(), table.inserted())
    if what < 0.93:
        return _several([table.changed(), table.widened(), table.changed()])
    if what < 0.97 and not table.fill:
        return _several([f"TRUNCATE {table.name}"])
    return _several([f"UPDATE {table.name} SET a = a WHERE {table._some()}"])


def _rolled_back(first: str, undone: str, last: str, *, whole: bool) -> Step:
    def step(db: Connection, other: Connection) -> None:
        with db.transaction(force_rollback=whole):
            db.execute(first)
            with db.transaction(force_rollback=True):
                db.execute(undone)
            db.execute(last)

    return step


def _side_by_side(first: str, second: str, last: str) -> Step:
    """Two transactions: the one that began first commits last."""

    def step(db: Connection, other: Connection) -> None:
        with db.transaction():
            db.execute(first)
            with other.transaction():
                other.execute(second)
            db.execute(last)

    return step
