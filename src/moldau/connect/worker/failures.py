"""◇ A task's handling of a failed record: end, skip, report.

Source: RetryWithToleranceOperator, DeadLetterQueueReporter.

| errors.tolerance | fate of a bad record |
|---|---|
| none | the task fails and stays where it is until it is restarted |
| all | the record is passed over; logged with errors.log.enable; a sink's record goes to the dead letter topic, when one is named |
"""

import traceback
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from moldau.connect.data import Record
from moldau.connect.declare.definition import Config
from moldau.connect.errors import ConnectError, java_class_of
from moldau.connect.store.configs import TaskId

PREFIX: Final = "__connect.errors."


class Stage(StrEnum):
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TASK_PUT = "TASK_PUT"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"


@dataclass(frozen=True, slots=True)
class Failed:
    """One record's failure.  `executing`: the class that failed."""

    stage: Stage
    executing: str
    error: Exception

    def headers(self, task: TaskId, topic: str, partition: int | None, offset: int | None) -> list[tuple[str, bytes | None]]:
        """The headers of a dead letter."""
        values: dict[str, Any] = {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "connector.name": task.connector,
            "task.id": task.task,
            "stage": str(self.stage),
            "class.name": self.executing,
            "exception.class.name": java_class_of(self.error),
            "exception.message": str(self.error),
            "exception.stacktrace": trace_of(self.error),
        }
        return [(PREFIX + name, None if value is None else str(value).encode()) for name, value in values.items()]


@dataclass(frozen=True, slots=True)
class Tolerance:
    tolerates: bool
    logs: bool
    logs_records: bool

    @classmethod
    def of(cls, config: Config) -> "Tolerance":
        def is_on(name: str) -> bool:
            return (config.get(name) or "").strip().lower() == "true"

        tolerates = (config.get("errors.tolerance") or "none").strip() == "all"
        return cls(tolerates, is_on("errors.log.enable"), is_on("errors.log.include.messages"))

    def raise_for(self, failed: Failed) -> None:
        """Errors: ConnectError, unless bad records are passed over."""
        if not self.tolerates:
            raise ConnectError(
                f"Tolerance exceeded in error handler: {failed.stage} ({failed.executing}): {failed.error}"
            ) from failed.error

    def line(self, task: TaskId, failed: Failed, record: Record | None) -> str:
        text = f"{task}: a record was passed over at {failed.stage} ({failed.executing}): {java_class_of(failed.error)}: {failed.error}"
        if self.logs_records and record is not None:
            text += f"; topic {record.topic}, partition {record.partition}, offset {record.offset}"
        return text


def trace_of(error: BaseException) -> str:
    """The beginning of a trace as in Java: the kind of the error and its text, then its place."""
    lines = "".join(traceback.format_exception(error)).rstrip()
    return f"{java_class_of(error)}: {error}\n{lines}"
