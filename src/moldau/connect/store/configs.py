"""◇ The content of the config topic: connectors, their tasks, and the target state of each.

Source: KafkaConfigBackingStore, ClusterConfigState.

The records are Kafka's, byte for byte, so that Kafka's worker and ours can each take over what the other one wrote:

| key | value |
|---|---|
| connector-NAME | `{"properties": {…}}`; a tombstone deletes |
| target-state-NAME | `{"state": "PAUSED", "state.v2": "STOPPED"}`: `state` for workers before 3.5, which know no STOPPED |
| task-NAME-NUMBER | `{"properties": {…}}`; counts once its commit comes |
| commit-NAME | `{"tasks": 2}` |
| session-key | `{"key": …, "algorithm": …, "creation-timestamp": …}`: signs what workers send each other |
| restart-connector-NAME | `{"include-tasks": true, "only-failed": false}` |
| logger-cluster-NAME | `{"level": "DEBUG"}` |
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

CONNECTOR, TARGET, TASK, COMMIT = "connector-", "target-state-", "task-", "commit-"
RESTART, LOGGER, SESSION_KEY = "restart-connector-", "logger-cluster-", "session-key"

KeyValue = tuple[bytes, bytes | None]
Config = Mapping[str, str | None]


class Target(StrEnum):
    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class TaskId(NamedTuple):
    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


class RestartRequest(NamedTuple):
    connector: str
    includes_tasks: bool
    only_failed: bool


class LoggerLevel(NamedTuple):
    name: str
    level: str


Event = RestartRequest | LoggerLevel
"""An event that is handled once, when it is read, and leaves no state."""


@dataclass(slots=True)
class ConfigState:
    """Changed by `replay` alone.  `offset`: the offset behind the last record replayed."""

    connectors: dict[str, dict[str, str | None]] = field(default_factory=dict)
    targets: dict[str, Target] = field(default_factory=dict)
    tasks: dict[str, list[dict[str, str | None]]] = field(default_factory=dict)
    """The configurations of committed tasks, by connector."""
    applied: dict[str, dict[str, str | None]] = field(default_factory=dict)
    """The configuration of each connector that its committed tasks were made of."""
    session_key: bytes | None = None
    offset: int = 0
    _deferred: dict[str, dict[int, dict[str, str | None]]] = field(default_factory=dict)

    def target(self, connector: str) -> Target:
        return self.targets.get(connector, Target.STARTED)

    def task_ids(self, connector: str) -> list[TaskId]:
        return [TaskId(connector, number) for number in range(len(self.tasks.get(connector, ())))]

    def replay(self, offset: int, key: bytes | None, value: bytes | None) -> Event | None:
        """Take in one record of the topic.  A record that is not understood is passed over: newer workers may write more kinds."""
        self.offset = offset + 1
        name = (key or b"").decode("utf-8", "replace")
        found = _object(value)
        if value is not None and found is None:
            return None
        if name == SESSION_KEY:
            self.session_key = _key(found)
        elif name.startswith(CONNECTOR):
            self._connector(name.removeprefix(CONNECTOR), found)
        elif name.startswith(TARGET):
            self._target(name.removeprefix(TARGET), found)
        elif name.startswith(TASK):
            connector, _, number = name.removeprefix(TASK).rpartition("-")
            properties = None if found is None else found.get("properties")
            if number.isdigit() and isinstance(properties, dict):
                self._deferred.setdefault(connector, {})[int(number)] = properties
        elif name.startswith(COMMIT) and found is not None:
            self._commit(name.removeprefix(COMMIT), found.get("tasks"))
        elif name.startswith(RESTART) and found is not None:
            only_failed, includes_tasks = bool(found.get("only-failed")), bool(found.get("include-tasks"))
            return RestartRequest(name.removeprefix(RESTART), includes_tasks, only_failed)
        elif name.startswith(LOGGER) and found is not None and isinstance(found.get("level"), str):
            return LoggerLevel(name.removeprefix(LOGGER), found["level"])
        return None

    def _connector(self, name: str, found: dict[str, Any] | None) -> None:
        if found is None:
            for of_connector in (self.connectors, self.targets, self.tasks, self.applied, self._deferred):
                of_connector.pop(name, None)
        elif isinstance(found.get("properties"), dict):
            self.connectors[name] = found["properties"]

    def _target(self, name: str, found: dict[str, Any] | None) -> None:
        if found is None:
            self.targets.pop(name, None)
            return
        wanted = found.get("state.v2", found.get("state"))
        if wanted in list(Target):
            self.targets[name] = Target(wanted)

    def _commit(self, name: str, count: Any) -> None:
        """Apply the commit if all of its tasks are there; else the earlier tasks stay.  A compacted topic may have lost some tasks."""
        if name not in self.connectors or not isinstance(count, int):
            return
        deferred = self._deferred.pop(name, {})
        old = dict(enumerate(self.tasks.get(name, [])))
        merged = {number: config for number, config in {**old, **deferred}.items() if number < count}
        if len(merged) == count:
            self.tasks[name] = [merged[number] for number in range(count)]
            self.applied[name] = self.connectors[name]


def _object(value: bytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _key(found: dict[str, Any] | None) -> bytes | None:
    try:
        return base64.b64decode(found["key"], validate=True) if found else None
    except (KeyError, TypeError, ValueError):
        return None


# ------------------------------------------------------------ records


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def connector_record(name: str, config: Config) -> KeyValue:
    return f"{CONNECTOR}{name}".encode(), dumped({"properties": dict(config)})


def deletion(name: str) -> list[KeyValue]:
    return [(f"{CONNECTOR}{name}".encode(), None), (f"{TARGET}{name}".encode(), None)]


def target_record(name: str, target: Target) -> KeyValue:
    old = Target.PAUSED if target is Target.STOPPED else target
    return f"{TARGET}{name}".encode(), dumped({"state": str(old), "state.v2": str(target)})


def task_records(name: str, configs: Sequence[Config]) -> list[KeyValue]:
    records = [(f"{TASK}{name}-{number}".encode(), dumped({"properties": dict(config)})) for number, config in enumerate(configs)]
    return [*records, (f"{COMMIT}{name}".encode(), dumped({"tasks": len(configs)}))]


def restart_record(request: RestartRequest) -> KeyValue:
    value = {"include-tasks": request.includes_tasks, "only-failed": request.only_failed}
    return f"{RESTART}{request.connector}".encode(), dumped(value)


def logger_record(name: str, level: str) -> KeyValue:
    return f"{LOGGER}{name}".encode(), dumped({"level": level})


ALGORITHM: Final = "HmacSHA256"


def session_key_record(key: bytes, now_ms: int) -> KeyValue:
    value = {"key": base64.b64encode(key).decode(), "algorithm": ALGORITHM, "creation-timestamp": now_ms}
    return SESSION_KEY.encode(), dumped(value)
