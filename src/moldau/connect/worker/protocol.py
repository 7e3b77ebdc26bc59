"""◇ The messages between workers and their leader through the group: Kafka's protocol `sessioned`, byte for byte.

    metadata     version i16 | url string | config offset i64 | what the worker has: nullable bytes, an assignment
    assignment   version i16 | error i16 | leader string | leader's url string | config offset i64
                 | given: array of (connector string, tasks array of i32; -1 is the connector itself) | revoked: the same | delay i32, ms

Source: ConnectProtocol, IncrementalCooperativeConnectProtocol (KIP-415, KIP-507).
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from moldau.connect.errors import DataError
from moldau.connect.store.configs import TaskId

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = "sessioned"
VERSION: Final = 2
CONNECTOR_ITSELF: Final = -1
CONFIG_MISMATCH: Final = 1


@dataclass(frozen=True, slots=True)
class Assignment:
    """Units: tasks, and connectors as the task number -1."""

    leader: str
    leader_url: str
    config_offset: int
    given: tuple[TaskId, ...]
    revoked: tuple[TaskId, ...] = ()
    error: int = 0


@dataclass(frozen=True, slots=True)
class Metadata:
    url: str
    config_offset: int
    owned: tuple[TaskId, ...]


def encode_metadata(one: Metadata) -> bytes:
    owned = encode_assignment(Assignment("", "", one.config_offset, one.owned))
    return struct.pack(">h", VERSION) + _string(one.url) + struct.pack(">q", one.config_offset) + struct.pack(">i", len(owned)) + owned


def decode_metadata(data: bytes | memoryview) -> Metadata:
    """Errors: DataError."""
    reader = _Reader(data)
    version, url, offset = reader.number(">h"), reader.string(), reader.number(">q")
    owned: tuple[TaskId, ...] = ()
    if version >= 1:
        size = reader.number(">i")
        if size > 0:
            owned = decode_assignment(reader.take(size)).given
    return Metadata(url, offset, owned)


def encode_assignment(one: Assignment) -> bytes:
    head = struct.pack(">hh", VERSION, one.error) + _string(one.leader) + _string(one.leader_url) + struct.pack(">q", one.config_offset)
    return head + _units(one.given) + _units(one.revoked) + struct.pack(">i", 0)


def decode_assignment(data: bytes | memoryview) -> Assignment:
    """Errors: DataError."""
    reader = _Reader(data)
    version, error = reader.number(">h"), reader.number(">h")
    leader, url, offset = reader.string(), reader.string(), reader.number(">q")
    given = reader.units()
    return Assignment(leader, url, offset, given, reader.units() if version >= 1 else (), error)


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _units(units: Iterable[TaskId]) -> bytes:
    by_connector: dict[str, list[int]] = {}
    for unit in units:
        by_connector.setdefault(unit.connector, []).append(unit.task)
    parts = [struct.pack(">i", len(by_connector))]
    for connector, tasks in by_connector.items():
        parts += [_string(connector), struct.pack(f">i{len(tasks)}i", len(tasks), *tasks)]
    return b"".join(parts)


class _Reader:
    def __init__(self, data: bytes | memoryview) -> None:
        self._data = bytes(data)
        self._at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or self._at + size > len(self._data):
            raise DataError(f"a message of the group ends at byte {len(self._data)}, {size} more were announced at {self._at}")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, layout: str) -> int:
        return int(struct.unpack(layout, self.take(struct.calcsize(layout)))[0])

    def string(self) -> str:
        return self.take(self.number(">h")).decode("utf-8", "replace")

    def units(self) -> tuple[TaskId, ...]:
        found: list[TaskId] = []
        for _ in range(max(0, self.number(">i"))):
            connector = self.string()
            found += [TaskId(connector, self.number(">i")) for _ in range(max(0, self.number(">i")))]
        return tuple(found)


def connectors_of(units: Sequence[TaskId]) -> set[str]:
    return {unit.connector for unit in units if unit.task == CONNECTOR_ITSELF}


def tasks_of(units: Sequence[TaskId]) -> set[TaskId]:
    return {unit for unit in units if unit.task != CONNECTOR_ITSELF}
