"""◇ What two tellings of one story differ in.

DIFFERENCES that are left out of the comparison
- when a connector saw a change: `ts_ms`, `ts_us` and `ts_ns` of the envelope
- `source.version`
- in a snapshot: its time, its transaction and its place in the log, as each connector takes its own snapshot
- `source.sequence` in one transaction for each restart of ours: the offset of a record names the commit before the record's own
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

from proof.connect.debezium.records import Shown

OF_THE_READER: Final = ("ts_ms", "ts_us", "ts_ns")
OF_THE_SNAPSHOT: Final = (*OF_THE_READER, "sequence", "txId", "lsn")
SEQUENCE: Final = ".value.payload.source.sequence:"
MOST: Final = 30
OF_A_FLOAT: Final = 1e-7


class Comparison:
    """Compares records, and collects the paths that differ, each with the number of the first record that has it."""

    def __init__(self, restarts: int) -> None:
        self._restarts = restarts
        self._found: dict[str, int] = {}
        self._resumed: set[Any] = set()
        self._known: dict[tuple[int, int], list[str]] = {}
        """By the identities of two schemas: records share theirs, so each pair is compared once."""

    def compare(self, theirs: Iterable[Shown], own: Iterable[Shown], what: str = "") -> None:
        """The schemas of all records must live as long as this object."""
        ours, number = iter(own), -1
        for number, their in enumerate(theirs):
            our = next(ours, None)
            if our is None or _place(their) != _place(our):
                self._found[f"{what} Debezium {_place(their)}, ours {our and _place(our)}"] = number
                return
            self._compare_one(their, our, number)
        if (more := next(ours, None)) is not None:
            self._found[f"{what} Debezium has ended, ours {_place(more)}"] = number + 1

    def _compare_one(self, their: Shown, our: Shown, number: int) -> None:
        for path in (*self._of_schemas(their, our), *differing(comparable(their), comparable(our))):
            if path.startswith(SEQUENCE):
                self._resumed.add(our["value"]["payload"]["source"]["txId"])
            else:
                self._found.setdefault(f"{their['topic']}{path}", number)

    def _of_schemas(self, their: Shown, our: Shown) -> Iterator[str]:
        for name, a, b in ((one, their[one], our[one]) for one in ("key", "value")):
            if a is None or b is None:
                continue
            pair = id(a["schema"]), id(b["schema"])
            if pair not in self._known:
                self._known[pair] = list(differing(a["schema"], b["schema"], f".{name}.schema"))
            yield from self._known[pair]

    def differences(self) -> list[str]:
        listed = [f"record {number} {path}" for path, number in self._found.items()]
        if len(self._resumed) > self._restarts:
            listed.append(f"source.sequence differs in {len(self._resumed)} transactions behind {self._restarts} restarts")
        return listed[:MOST]


def comparable(record: Shown) -> Shown:
    """A record without the points under DIFFERENCES, and without the schemas of its key and its value."""
    record = {**record, "key": record["key"] and {**record["key"], "schema": None}}
    if record["value"] is None:
        return record
    value = dict(record["value"]["payload"])
    source = {**value["source"], "version": ""}
    for name in OF_THE_READER:
        value[name] = 0
    if value["op"] == "r":
        source |= dict.fromkeys(OF_THE_SNAPSHOT, 0)
    return {**record, "value": {"schema": None, "payload": {**value, "source": source}}}


def _place(record: Shown) -> tuple[Any, ...]:
    """What tells a record from others."""
    value = record["value"] and record["value"]["payload"]
    key = record["key"] and record["key"]["payload"]
    return record["topic"], str(key), value and value["op"], value and value["op"] != "r" and value["source"]["lsn"]


def differing(their: Any, our: Any, path: str = "") -> Iterator[str]:
    """The paths at which two trees differ, with both values."""
    if their == our:
        return
    if isinstance(their, dict) and isinstance(our, dict):
        for name in sorted({*their, *our}):
            yield from differing(their.get(name, "(none)"), our.get(name, "(none)"), f"{path}.{name}")
    elif isinstance(their, list) and isinstance(our, list) and len(their) == len(our):
        for number, (a, b) in enumerate(zip(their, our, strict=True)):
            label = a.get("field", number) if isinstance(a, dict) else number
            yield from differing(a, b, f"{path}[{label}]")
    elif isinstance(their, float) and isinstance(our, float | int) and math.isclose(their, our, rel_tol=OF_A_FLOAT):
        return  # Java 17 prints more digits of a float than it has (JDK-4511638)
    else:
        yield f"{path}: Debezium {str(their)[:200]}, ours {str(our)[:200]}"
