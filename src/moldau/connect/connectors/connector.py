"""● The interface of a connector: its options, its tasks, and the methods that their loops call.

A connector splits its work into tasks; each task runs in one worker at a time, as a coroutine on the worker's loop.  Work that blocks
goes into a thread.

Source: org.apache.kafka.connect.connector.Connector, SourceTask, SinkTask.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

from moldau.connect.data import Record
from moldau.connect.declare.definition import Config, Definition, Validated
from moldau.connect.errors import ConnectError
from moldau.types import TopicPartition

Partition = Mapping[str, Any]
Offset = Mapping[str, Any]


class OffsetReader(Protocol):
    """A function that returns the committed offsets."""

    def offset(self, partition: Partition) -> Offset | None: ...


class SourceTask(ABC):
    """Reads from somewhere.  `poll` and `commit` are never called at the same time."""

    @abstractmethod
    async def start(self, config: Config, offsets: OffsetReader) -> None:
        """Errors: ConnectError."""

    @abstractmethod
    async def poll(self) -> Sequence[Record]:
        """The records at hand; none after a short wait, of a second at most.  Errors: ConnectError; RetriableError."""

    async def commit(self) -> None:
        """Called when all records that `poll` gave so far are in their topics and their offsets are committed."""
        return

    async def stop(self) -> None:
        """Stop; also called after a `start` that failed."""
        return


def _unreported(record: Record, error: Exception) -> None:
    raise ConnectError(f"Tolerance exceeded in error handler: {error}") from error


class SinkTask(ABC):
    """Writes to somewhere."""

    report: Callable[[Record, Exception], None] = staticmethod(_unreported)
    """Called in `put` for a record that cannot be written.  If errors.tolerance allows it, the record is passed over, with a dead letter.
    Errors: ConnectError where errors.tolerance does not allow it.  Source: ErrantRecordReporter.
    """

    @abstractmethod
    async def start(self, config: Config) -> None:
        """Errors: ConnectError."""

    async def open(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Take these partitions over.  Returns the offsets at which to begin, for partitions whose offsets the sink itself keeps."""
        return {}

    async def close(self, partitions: Collection[TopicPartition]) -> None:
        """Give these partitions up; every record of them has been flushed."""
        return

    @abstractmethod
    async def put(self, records: Sequence[Record]) -> None:
        """Errors: ConnectError; RetriableError: the same records come again."""

    async def flush(self) -> None:
        """Make the records that were put safe.  Their offsets are committed afterwards."""
        return

    async def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The offsets of these partitions at which reading may begin next time.  `offsets`: the offsets behind all records that were put.
        Source: SinkTask.preCommit.  Errors: ConnectError; RetriableError: nothing is committed, and this is called again.
        """
        await self.flush()
        return offsets

    async def stop(self) -> None:
        """Stop; also called after a `start` that failed."""
        return


class Connector(ABC):
    """One kind of connector.  An object is made anew for each question, so it holds no state."""

    names: ClassVar[tuple[str, ...]]
    """The class names by which configurations call the connector; the first one is shown."""
    kind: ClassVar[Literal["source", "sink"]]
    definition: ClassVar[Definition]
    prefixes: ClassVar[tuple[str, ...]] = ()
    """What options begin with that the connector passes on to a library."""
    task: ClassVar[type[SourceTask] | type[SinkTask]]
    task_class: ClassVar[str]
    """The class's name, as Kafka writes it into the configurations of tasks."""

    def task_configs(self, config: Config, max_tasks: int) -> list[dict[str, str | None]]:
        """The configuration of each task."""
        return [dict(config) for _ in range(1 if self.kind == "source" else max_tasks)]

    def check(self, validated: dict[str, Validated]) -> None:
        """Adds errors that concern several options."""
        return

    def check_offsets(self, config: Config, offsets: Sequence[tuple[Partition, Offset | None]]) -> None:
        """Whether these offsets can be this connector's.  Errors: ConnectError."""
        return


class OffsetsRefused(ConnectError):
    """Offsets that a connector cannot have."""
