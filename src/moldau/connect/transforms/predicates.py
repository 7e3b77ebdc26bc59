"""◇ Predicates.  Source: TopicNameMatches, HasHeaderKey, RecordIsTombstone (KIP-585)."""

import re
from typing import Any, Protocol

from moldau.connect.data import Record


class Predicate(Protocol):
    def holds(self, record: Record) -> bool: ...


class TopicNameMatches:
    def __init__(self, options: dict[str, Any]) -> None:
        self._pattern = re.compile(options["pattern"])

    def holds(self, record: Record) -> bool:
        return self._pattern.fullmatch(record.topic) is not None


class HasHeaderKey:
    def __init__(self, options: dict[str, Any]) -> None:
        self._name = options["name"]

    def holds(self, record: Record) -> bool:
        return any(header.key == self._name for header in record.headers)


class RecordIsTombstone:
    def __init__(self, options: dict[str, Any]) -> None:
        pass

    def holds(self, record: Record) -> bool:
        return record.value is None
