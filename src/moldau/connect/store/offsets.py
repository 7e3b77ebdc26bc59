"""◇ The content of the offset topic: how far sources have read.

Source: KafkaOffsetBackingStore, OffsetStorageWriter.

key    ["connector", {"filename": "/var/log/x"}]        value    {"position": 1234}; a tombstone forgets
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moldau.connect.store.configs import KeyValue, dumped


@dataclass(slots=True)
class OffsetState:
    """Changed by `replay` alone."""

    _by_connector: dict[str, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = field(default_factory=dict)

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        try:
            connector, partition = json.loads(key or b"")
            offset = None if value is None else json.loads(value)
        except (ValueError, TypeError):
            return
        if not isinstance(connector, str) or not isinstance(partition, dict):
            return
        of_connector = self._by_connector.setdefault(connector, {})
        if isinstance(offset, dict):
            of_connector[canonical(partition)] = partition, offset
        else:
            of_connector.pop(canonical(partition), None)

    def offsets(self, connector: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """The connector's partitions, each with its offset."""
        return list(self._by_connector.get(connector, {}).values())

    def offset(self, connector: str, partition: Mapping[str, Any]) -> dict[str, Any] | None:
        found = self._by_connector.get(connector, {}).get(canonical(partition))
        return None if found is None else found[1]


def canonical(partition: Mapping[str, Any]) -> str:
    """One text for one partition, whatever the order of its entries."""
    return json.dumps(partition, sort_keys=True)


def offset_record(connector: str, partition: Mapping[str, Any], offset: Mapping[str, Any] | None) -> KeyValue:
    """The record of an offset.  Entries are sorted by name, so that compaction sees one key."""
    return dumped([connector, dict(sorted(partition.items()))]), None if offset is None else dumped(dict(offset))
