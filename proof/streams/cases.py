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
        for final in (False, True)
    ),
    ({"operator": "time limit", "by": "aggregate"}, 1),
    *(({"operator": "streams", "kind": kind}, 2) for kind in ("inner", "left", "outer")),
    *(({"operator": name, "kind": kind}, 2) for name in ("stream table", "global", "foreign key") for kind in ("inner", "left")),
    *(({"operator": "tables", "kind": kind}, 2) for kind in ("inner", "left", "outer")),
    *(({"operator": "tables grouped", "kind": kind, "by": by}, 2) for kind in ("inner", "outer") for by in ("count", "reduce")),
    *(({"operator": "table grouped", "by": by}, 1) for by in ("count", "reduce", "aggregate")),
    ({"operator": "count grouped", "by": "aggregate"}, 1),
    ({"operator": "table filtered"}, 1),
    ({"operator": "stateless"}, 1),
)


def cases(number: int, count: int, seed: int = 0) -> Iterator[Case]:
    """`count` cases of one of the `OPERATORS`."""
    fixed, topics = OPERATORS[number]
    for turn in range(count):
        random = Random(f"{number} {turn} {seed}")
        size = random.choice((1, 5, 10, 20))
        options = {
            **fixed,
            "topics": topics,
            # Applications use RocksDB, but it takes a third of a second to open.
            "store": "rocksdb" if turn % (4 if fixed["operator"] == "streams" else 20) == 0 else "memory",
            "size": size,
            "advance": random.randint(1, size) if random.random() < 0.6 else size,
            "gap": random.choice((1, 3, 8)),
            "grace": random.choice((0, 0, 2, 7, 30)),
            "before": random.choice((0, 1, 5, 10)),
            "after": random.choice((0, 1, 5, 10)),
            "wait": random.choice((0, 1, 5, 20)),
            "most": random.choice((1, 2, 3, 1000)),
        }
        # Null values make the time of Kafka's window store in memory go on, and not that of RocksDB.
        nulls = 0.0 if fixed["operator"] == "streams" and options["store"] == "memory" else 0.15
        yield Case(options, list(_records(random, fixed["operator"], topics, nulls)))


def _records(random: Random, operator: str, topics: int, nulls: float) -> Iterator[Piped]:
    now, step, spread = random.choice((0, 40)), random.choice((0, 1, 3, 6)), random.choice((0, 2, 10, 40))
    for number in range(random.randint(1, RECORDS)):
        now += random.randint(0, step)
        topic = "a" if topics == 1 or random.random() < 0.5 else "b"
        # The keys of the right table's rows are the names in the left table's values.
        keys = GROUPS[:3] if operator in {"foreign key", "global"} and topic == "b" else KEYS
        key = None if random.random() < 0.04 and _may_lack_key(operator) else random.choice(keys)
        value = None if random.random() < nulls else _value(random, operator, number)
        yield topic, key, value, max(0, now - random.randint(0, spread)), f"h{number}"


def _may_lack_key(operator: str) -> bool:
    """Tells whether records may lack a key.  A stream without an aggregate passes such records on, and a comparison by key needs keys."""
    return operator != "stateless"


def _value(random: Random, operator: str, number: int) -> str:
    if random.random() < ENDING_WITH_X and operator in {"grouped", "regrouped", "windowed", "sliding", "sessions", "time limit"}:
        return f"x{number}"
    return f"{random.choice(GROUPS)}{random.choice((number, 1))}"
