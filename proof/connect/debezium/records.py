"""● The records that a connector told: as JSON on the disk, with each schema once in memory.

A line is `{"topic": …, "key": …, "value": …, "headers": {…}}`.  A key, a value or a header is null, or
`{"schema": its number, "payload": …}`.
"""

import json
import tempfile
from collections.abc import Iterator
from typing import Any

Shown = dict[str, Any]


class Records:
    """`schemas`: by the numbers that stand in the lines."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 (it goes with this object)
        self._topics: list[str] = []
        self.schemas: dict[int, Any] = {}

    def add(self, topic: str, line: str) -> None:
        self._file.write(line.rstrip("\n") + "\n")
        self._topics.append(topic)

    def __len__(self) -> int:
        return len(self._topics)

    def topics(self) -> list[str]:
        return sorted(set(self._topics))

    def of(self, topic: str | None = None) -> Iterator[Shown]:
        """The records of one topic, or of all, in their order.  One reader at a time."""
        self._file.seek(0)
        for name, line in zip(self._topics, self._file, strict=True):
            if topic in (None, name):
                yield self._whole(json.loads(line))

    def _whole(self, record: Shown) -> Shown:
        for part in (record["key"], record["value"], *record["headers"].values()):
            if part is not None:
                part["schema"] = self.schemas[part["schema"]]
        return record
