"""● One task's life: started, paused, resumed, stopped, failed.  Its work in between is in `source_task` and `sink_task`.

A task that fails says so in the status topic, with a trace, and stays failed until somebody restarts it, as in Kafka.
"""

import asyncio
import logging
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from moldau.clients.cluster import Cluster
from moldau.connect.converters.catalogue import converter_of
from moldau.connect.converters.converter import Converter
from moldau.connect.data import Record
from moldau.connect.declare.definition import Config
from moldau.connect.errors import Absent, RetriableError
from moldau.connect.store.configs import Target, TaskId
from moldau.connect.store.log import Log
from moldau.connect.store.offsets import OffsetState
from moldau.connect.store.statuses import State
from moldau.connect.transforms.chain import chain_of
from moldau.connect.worker.failures import Failed, Stage, Tolerance, trace_of
from moldau.connect.worker.options import WorkerOptions
from moldau.connect.worker.retries import Retries

LOG: Final = logging.getLogger(__name__)
RETRY_S: Final = 1.0
START_WITHIN_S: Final = 60.0
"""How long a task that starts waits for a server that is away.  Then it fails, so that a wrong address is seen."""
T = TypeVar("T")
Tell = Callable[[TaskId, State, str | None], None]
"""Tells that a task is in another state, with a trace when the task failed."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of a worker that a task needs."""

    cluster: Cluster
    options: WorkerOptions
    offsets: OffsetState
    offset_log: Log
    tell: Tell
    uses_topic: Callable[[TaskId, str], None]


class TaskRun(ABC):
    """`connector`: the configuration that the task's own was made of.  It holds the options of converters, transforms and errors.

    `given`: both as they are stored.  A running task has the values of their variables.
    """

    def __init__(self, task: TaskId, connector: Config, config: Config, around: Surroundings) -> None:
        self.task: Final = task
        self.given: Final = connector, config
        self.connector = connector
        self.config = config
        self.around: Final = around
        self.has_failed = False
        self._is_last_try = False
        self._unpaused = asyncio.Event()
        self._stopping = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def start(self, target: Target) -> None:
        if target is Target.STARTED:
            self._unpaused.set()
        self._running = asyncio.get_running_loop().create_task(self._run(), name=f"task {self.task}")

    def follow(self, target: Target) -> None:
        """Pauses or resumes."""
        if self.has_failed or self._stopping.is_set():
            return
        if target is Target.STARTED and not self._unpaused.is_set():
            self._unpaused.set()
            self._tell(State.RUNNING)
        elif target is Target.PAUSED and self._unpaused.is_set():
            self._unpaused.clear()
            self._tell(State.PAUSED)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def is_paused(self) -> bool:
        return not self._unpaused.is_set()

    async def stop(self, *, is_told: bool = True) -> None:
        """End with the work committed, if that is done within task.shutdown.graceful.timeout.ms; else be cut off, and work is repeated."""
        self._stopping.set()
        running = self._running
        if running is not None and not running.done():
            await asyncio.wait([running], timeout=self.around.options["task.shutdown.graceful.timeout.ms"] / 1000)
            if not running.done():
                LOG.warning("task %s does not end by itself: it is cut off", self.task)
                running.cancel()
                await asyncio.wait([running])
        if is_told and not self.has_failed:
            self._tell(State.UNASSIGNED)

    async def _run(self) -> None:
        try:
            providers = self.around.options.providers
            self.connector, self.config = providers.resolved(self.connector), providers.resolved(self.config)
            self.tolerance = Tolerance.of(self.connector)
            self.retries = Retries.of(self.connector)
            given = self.around.options.converters
            self.keys, self.values, self.headers = (converter_of(kind, self.connector, given) for kind in ("key", "value", "header"))
            self.chain = chain_of(self.connector)
            await self.work()
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.has_failed = True
            LOG.warning("task %s failed", self.task, exc_info=error)
            self._tell(State.FAILED, trace_of(error))

    @abstractmethod
    async def work(self) -> None:
        """Work until `is_stopping`.  The implementation calls `is_up` when it begins to run."""

    def is_up(self) -> None:
        self._tell(State.PAUSED if self.is_paused else State.RUNNING)

    def _tell(self, state: State, trace: str | None = None) -> None:
        self.around.tell(self.task, state, trace)

    async def wait(self, seconds: float) -> None:
        """Wait so long, or until the task is to stop."""
        if self._stopping.is_set() or seconds <= 0:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def patiently(self, work: Callable[[], Awaitable[T]], within_s: float = math.inf) -> T:
        """The result of `work`, which is called again after each RetriableError.

        Errors: those of `work`; RetriableError after `within_s`; CancelledError when the task is to stop meanwhile.
        """
        begin = asyncio.get_running_loop().time()
        while True:
            try:
                return await work()
            except RetriableError as error:
                if asyncio.get_running_loop().time() - begin >= within_s:
                    raise
                LOG.warning("task %s: %s; it is tried again", self.task, error)
                await self.wait(RETRY_S)
                if self.is_stopping:
                    raise asyncio.CancelledError from error

    # ------------------------------------------------------------ records

    async def tried(self, work: Callable[[], T]) -> T:
        """The result of transforms and converters for one record, tried again as errors.retry.timeout says.

        `work` raises RetriableError where another try may help; on the last try it treats such an error as any other.  It raises Absent
        where something has to be fetched first, in a thread.
        Errors: those of `work`; CancelledError when the task is to stop meanwhile: the record comes again.
        """
        self._is_last_try = self.retries.timeout_ms == 0
        begin: float | None = None
        attempt = 0
        while True:
            try:
                return work()
            except Absent as error:
                await asyncio.to_thread(error.fetch)
            except RetriableError as error:
                if self._is_last_try:
                    raise
                now = asyncio.get_running_loop().time()
                begin = now if begin is None else begin
                attempt += 1
                delay = self.retries.delay_ms(attempt, (now - begin) * 1000, random.random)
                if delay is None:
                    self._is_last_try = True
                    continue
                LOG.info("task %s: %s; the record is tried again", self.task, error)
                await self.wait(delay / 1000)
                if self.is_stopping:
                    raise asyncio.CancelledError from error

    def is_for_later(self, error: Exception) -> bool:
        return isinstance(error, Absent) or (isinstance(error, RetriableError) and not self._is_last_try)

    def transformed(self, record: Record) -> Record | Failed | None:
        """None: a transform dropped the record."""
        current: Record | None = record
        for step in self.chain:
            assert current is not None
            try:
                current = step.apply(current)
            except Exception as error:
                if self.is_for_later(error):
                    raise
                return Failed(Stage.TRANSFORMATION, step.class_name, error)
            if current is None:
                return None
        return current

    def converting(self, stage: Stage, converter: Converter, error: Exception) -> Failed:
        kind = stage.value.partition("_")[0].lower()
        name = (
            self.connector.get(f"{kind}.converter") or self.around.options.converters.get(f"{kind}.converter") or type(converter).__name__
        )
        return Failed(stage, name, error)

    def passed_over(self, failed: Failed, record: Record | None) -> None:
        """Errors: ConnectError, when nothing is tolerated."""
        if self.tolerance.logs:
            LOG.error("%s", self.tolerance.line(self.task, failed, record))
        self.tolerance.raise_for(failed)
