"""◇ What the records of a connector make of the tables: rows of the snapshot first, then change by change.

A record that does not fit the rows before it is a mistake: a row is made that is there, changed or deleted though it is not there, or was
something else before, in a table whose log tells whole rows.  So a change that is lost or told twice is found, where snapshot and log
meet, too.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, Final

from proof.connect.debezium.records import Shown

UNCHANGED: Final = "__debezium_unavailable_value"
MOST: Final = 10
OLD_KEY: Final = "__debezium.oldkey"
Row = dict[str, Any]


class History:
    """`rows`: by topic and key.  A table without a key has each row as its key, with the number of times that it is there."""

    def __init__(self, whole: Collection[str] = ()) -> None:
        """`whole`: the topics whose deletions tell the whole row."""
        self._whole = whole
        self.rows: dict[str, dict[str, Row]] = {}
        self.bare: dict[str, Counter[str]] = {}
        self.mistakes: list[str] = []
        self._gone: dict[tuple[str, str], Row] = {}

    def tell(self, records: Iterable[Shown]) -> "History":
        for number, record in enumerate(records):
            if record["value"] is not None:
                self._tell(number, record)
        return self

    def _tell(self, number: int, record: Shown) -> None:
        topic, value = record["topic"], record["value"]["payload"]
        if value["op"] == "t":
            self.rows.pop(topic, None)
            self.bare.pop(topic, None)
            return
        before, after = (value[one] and _bare(value[one]) for one in ("before", "after"))
        wrong = self._keyed(record, value["op"], before, after) if record["key"] else self._keyless(topic, value["op"], before, after)
        if wrong and len(self.mistakes) < MOST:
            self.mistakes.append(f"record {number} of {topic}, {value['op']} of {record['key'] and record['key']['payload']}: {wrong}")

    def _keyed(self, record: Shown, op: str, before: Row | None, after: Row | None) -> str:
        topic, key = record["topic"], _text(record["key"]["payload"])
        rows = self.rows.setdefault(topic, {})
        was = rows.pop(key, None)
        if (was is None) != (op in "cr"):
            return f"the row was {_text(was)}"
        if was is not None:
            self._gone[topic, key] = was
            if before and topic in self._whole and was != before:
                return f"before {_text(before)}, but was {_text(was)}"
        if after is not None:
            old = record["headers"].get(OLD_KEY)
            earlier = self._gone.get((topic, _text(old["payload"]))) if old else was
            rows[key] = {name: (earlier or {}).get(name) if one == UNCHANGED else one for name, one in after.items()}
        return ""

    def _keyless(self, topic: str, op: str, before: Row | None, after: Row | None) -> str:
        rows = self.bare.setdefault(topic, Counter())
        if (before is None) != (op in "cr"):
            return f"before {before}"
        if before is not None:
            text = _text(before)
            if not rows[text]:
                return f"there was no such row: {text}"
            rows[text] -= 1
        if after is not None:
            rows[_text({name: (before or {}).get(name) if one == UNCHANGED else one for name, one in after.items()})] += 1
        return ""

    def differences(self, other: "History", what: str, *, without: str) -> list[str]:
        """How the rows differ, but for the topic `without`."""
        found = []
        for topic in sorted({*self.rows, *other.rows} - {without}):
            mine, theirs = self.rows.get(topic, {}), other.rows.get(topic, {})
            found += [
                f"{what}: {topic} {key}: {_text(mine.get(key))}, or {_text(theirs.get(key))}"
                for key in sorted({*mine, *theirs})
                if mine.get(key) != theirs.get(key)
            ]
        for topic in sorted({*self.bare, *other.bare}):
            mine_, theirs_ = (+one.bare.get(topic, Counter()) for one in (self, other))
            found += [
                f"{what}: {topic}: {mine_[row]} or {theirs_[row]} times {row}"
                for row in sorted({*mine_, *theirs_})
                if mine_[row] != theirs_[row]
            ]
        return [*found[:MOST], *([f"{what}: {len(found)} rows differ"] if len(found) > MOST else [])]


def _bare(row: Row) -> Row:
    """The row without its nulls: a column that was added later is null in the rows before."""
    return {name: _rounded(one) for name, one in row.items() if one is not None}


def _rounded(tree: Any) -> Any:
    """Java prints more digits of a float than it has (JDK-4511638)."""
    if isinstance(tree, float):
        return float(f"{tree:.6g}")
    if isinstance(tree, list):
        return [_rounded(one) for one in tree]
    return {name: _rounded(one) for name, one in tree.items()} if isinstance(tree, dict) else tree


def _text(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True)
