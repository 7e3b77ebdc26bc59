"""● Random inputs for each operator: out of order, late, tombstones, equal timestamps, records without a key."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

Piped = tuple[str, str | None, str | None, int, str]
"""Topic, key, value, timestamp, header."""

KEYS: Final = ("k1", "k2", "k3")
"""The keys of records.  They are few, so that rows meet."""
GROUPS: Final = "pqrn"
"""The first letters of values: the group, or the foreign key, of a row.  "n" names no foreign row."""
RECORDS: Final = 60
FOREIGN: Final = ("foreign key", "versioned foreign key", "global")
"""Operators whose left values name rows of the right table."""
COGROUPED: Final = ("cogrouped windowed", "cogrouped sliding", "cogrouped sessions")
AGGREGATES: Final = frozenset({"grouped", "regrouped", "cogrouped", *COGROUPED, "windowed", "sliding", "sessions", "time limit"})
"""Operators that aggregate streams."""
NULLS: Final = 0.15
LACKING_KEYS: Final = 0.04
ENDING_WITH_X: Final = 0.08
"""The share of values that take the aggregate away."""


@dataclass(frozen=True)
class Case:
    """One operator with its options, and its input records."""

    options: dict[str, Any]
    records: list[Piped]

    def question(self) -> dict[str, Any]:
        return {**self.options, "records": self.records}


# Each operator with its options that are not numbers, and the number of topics that it reads.
OPERATORS: Final[tuple[tuple[dict[str, Any], int], ...]] = (
    *(({"operator": name, "by": by}, 1) for name in ("grouped", "regrouped") for by in ("count", "reduce", "aggregate")),
    *(
        ({"operator": name, "by": by, "final": final}, 1)
        for name in ("windowed", "sliding", "sessions")
        for by in ("count", "reduce", "aggregate")
        for final in ("", "suppress", "emit")
    ),
    *(({"operator": name, "by": "reduce", "final": "bounded"}, 1) for name in ("windowed", "sliding", "sessions")),
    *(({"operator": "time limit", "by": "aggregate", "stops": stops}, 1) for stops in (False, True)),
    *(({"operator": "streams", "kind": kind}, 2) for kind in ("inner", "left", "outer")),
    *(({"operator": name, "kind": kind}, 2) for name in ("stream table", "global", "foreign key") for kind in ("inner", "left")),
    *(({"operator": "tables", "kind": kind}, 2) for kind in ("inner", "left", "outer")),
    *(({"operator": "versioned", "kind": kind}, 2) for kind in ("inner", "left")),
    ({"operator": "versioned filtered"}, 2),
    *(({"operator": "versioned tables", "kind": kind}, 2) for kind in ("inner", "left", "outer")),
    *(({"operator": "versioned foreign key", "kind": kind}, 2) for kind in ("inner", "left")),
    ({"operator": "versioned grouped", "by": "aggregate"}, 1),
    *(({"operator": "tables grouped", "kind": kind, "by": by}, 2) for kind in ("inner", "outer") for by in ("count", "reduce")),
    *(({"operator": "table grouped", "by": by}, 1) for by in ("count", "reduce", "aggregate")),
    ({"operator": "count grouped", "by": "aggregate"}, 1),
    ({"operator": "table filtered"}, 1),
    ({"operator": "stateless"}, 1),
    ({"operator": "cogrouped"}, 2),
    *(({"operator": name, "final": final}, 2) for name in COGROUPED for final in ("", "suppress")),
)


def cases(number: int, count: int, seed: int = 0) -> Iterator[Case]:
    """`count` cases of one of the `OPERATORS`."""
    fixed, topics = OPERATORS[number]
    for turn in range(count):
        random = Random(f"{number} {turn} {seed}")
        # Applications use RocksDB, but it takes a third of a second to open.
        store = "rocksdb" if turn % (4 if fixed["operator"] == "streams" else 20) == 0 else "memory"
        options = {**fixed, "topics": topics, "store": store, **random_options(random)}
        # Null values make the time of Kafka's window store in memory go on, and not that of RocksDB.
        nulls = 0.0 if fixed["operator"] == "streams" and store == "memory" else NULLS
        yield Case(options, list(random_records(random, fixed["operator"], topics, nulls)))


def random_options(random: Random) -> dict[str, Any]:
    """The sizes of windows, graces and buffers, for all operators; times in ms."""
    size = random.choice((1, 5, 10, 20))
    return {
        "size": size,
        "advance": random.randint(1, size) if random.random() < 0.6 else size,
        "gap": random.choice((1, 3, 8)),
        "grace": random.choice((0, 0, 2, 7, 30)),
        "before": random.choice((0, 1, 5, 10)),
        "after": random.choice((0, 1, 5, 10)),
        "wait": random.choice((0, 1, 5, 20)),
        "most": random.choice((1, 2, 3, 1000)),
        "history": (history := random.choice((0, 3, 10, 40, 400))),
        "segment": random.choice((1, 3, 20, 1000)),
        "join_grace": min(history, random.choice((0, 2, 7, 30))) if random.random() < 0.7 else None,
        "both": random.random() < 0.5,
    }


def random_records(random: Random, operator: str, topics: int, nulls: float = NULLS, most: int = RECORDS) -> Iterator[Piped]:
    """1 to `most` records; `nulls` is the share of tombstones."""
    now, step, spread = random.choice((0, 40)), random.choice((0, 1, 3, 6)), random.choice((0, 2, 10, 40))
    for number in range(random.randint(1, most)):
        now += random.randint(0, step)
        topic = "a" if topics == 1 or random.random() < 0.5 else "b"
        # The keys of the right table's rows are the names in the left table's values.
        keys = GROUPS[:3] if operator in FOREIGN and topic == "b" else KEYS
        # A left join with a grace ends Kafka Streams at a record without a key.
        key = None if random.random() < LACKING_KEYS and operator != "versioned" else random.choice(keys)
        value = None if random.random() < nulls else _value(random, operator, number)
        yield topic, key, value, max(0, now - random.randint(0, spread)), f"h{number}"


def _value(random: Random, operator: str, number: int) -> str:
    if random.random() < ENDING_WITH_X and operator in AGGREGATES:
        return f"x{number}"
    return f"{random.choice(GROUPS)}{random.choice((number, 1))}"
