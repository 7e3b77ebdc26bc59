"""◇ The content of the status topic: the states of connectors and tasks, and the topics that they used.

Source: KafkaStatusBackingStore.

| key | value |
|---|---|
| status-connector-NAME | `{"state": "RUNNING", "trace": null, "worker_id": "host:8083", "generation": 3, "version": "4.3.1"}` |
| status-task-NAME-NUMBER | the same |
| status-topic-TOPIC:connector-NAME | `{"topic": {"name": …, "connector": …, "task": 0, "discoverTimestamp": …}}` |
"""

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from moldau.connect.store.configs import KeyValue, TaskId, dumped

OF_CONNECTOR, OF_TASK, OF_TOPIC, SEPARATOR = "status-connector-", "status-task-", "status-topic-", ":connector-"


class State(StrEnum):
    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    STOPPED = "STOPPED"
    DESTROYED = "DESTROYED"


class Status(NamedTuple):
    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None

    def described(self) -> dict[str, Any]:
        trace = {} if self.trace is None else {"trace": self.trace}
        version = {} if self.version is None else {"version": self.version}
        return {"state": str(self.state), "worker_id": self.worker_id, **trace, **version}


@dataclass(slots=True)
class StatusState:
    """Changed by `replay` alone."""

    connectors: dict[str, Status] = field(default_factory=dict)
    tasks: dict[TaskId, Status] = field(default_factory=dict)
    topics: dict[str, dict[str, int]] = field(default_factory=dict)
    """The topics that each connector used, each topic with the task that used it."""

    def tasks_of(self, connector: str) -> dict[int, Status]:
        return {one.task: status for one, status in sorted(self.tasks.items()) if one.connector == connector}

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        name = (key or b"").decode("utf-8", "replace")
        try:
            found = None if value is None else json.loads(value)
            if name.startswith(OF_CONNECTOR):
                _set(self.connectors, name.removeprefix(OF_CONNECTOR), _status(found))
            elif name.startswith(OF_TASK):
                connector, _, number = name.removeprefix(OF_TASK).rpartition("-")
                _set(self.tasks, TaskId(connector, int(number)), _status(found))
            elif name.startswith(OF_TOPIC):
                topic, _, connector = name.removeprefix(OF_TOPIC).partition(SEPARATOR)
                _set(self.topics.setdefault(connector, {}), topic, None if found is None else int(found["topic"]["task"]))
        except (ValueError, KeyError, TypeError):
            return  # a newer worker wrote it, or no worker at all


def _set(where: dict[Any, Any], key: Any, value: Any) -> None:
    if value is None:
        where.pop(key, None)
    else:
        where[key] = value


def _status(found: Any) -> Status | None:
    if found is None or found["state"] == State.DESTROYED:
        return None
    return Status(State(found["state"]), found["worker_id"], int(found["generation"]), found.get("trace"), found.get("version"))


def _value(status: Status) -> bytes:
    return dumped(
        {
            "state": str(status.state),
            "trace": status.trace,
            "worker_id": status.worker_id,
            "generation": status.generation,
            "version": status.version,
        }
    )


def connector_status(name: str, status: Status | None) -> KeyValue:
    return f"{OF_CONNECTOR}{name}".encode(), None if status is None else _value(status)


def task_status(task: TaskId, status: Status | None) -> KeyValue:
    return f"{OF_TASK}{task}".encode(), None if status is None else _value(status)


def topic_status(connector: str, topic: str, task: int, now_ms: int | None) -> KeyValue:
    """`now_ms` None: the topic is forgotten."""
    key = f"{OF_TOPIC}{topic}{SEPARATOR}{connector}".encode()
    if now_ms is None:
        return key, None
    return key, dumped({"topic": {"name": topic, "connector": connector, "task": task, "discoverTimestamp": now_ms}})
