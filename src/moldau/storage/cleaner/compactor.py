"""● The shell around `cleaner`: picks the dirtiest log, has it compacted in a process of its own, swaps the result in.

    compactor = Compactor(manager, clock, options, flush=flusher.flush, clean_elsewhere=clean_in_process)
    compactor.start()
    compactor.take_options(others)
    await compactor.stop()

The process (`python -m moldau.storage.cleaner.compactor`) gets the plan on its standard input and answers on its standard output.  It runs
at a lower priority and within log.cleaner.io.max.bytes.per.second.  Until its result is swapped in nothing has happened, so the log may be
truncated, moved or deleted meanwhile.  A log with a damaged batch is not compacted any more, which is said once; one for which there is no
room on the disk, or no process, comes round again.
"""

import asyncio
import logging
import os
import pickle
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final
from weakref import WeakKeyDictionary

from moldau.clock import Clock
from moldau.protocol.records.batch import CorruptBatch
from moldau.storage.cleaner.copying import clean
from moldau.storage.cleaner.plan import CleaningPlan, CleaningResult, dirtiness, plan_cleaning
from moldau.storage.cleaner.reading import Pace
from moldau.storage.cleaner.swap import discard, install
from moldau.storage.config import CleanerConfig
from moldau.storage.files import Files, SystemFiles, is_shortage
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)

CleanElsewhere = Callable[[CleaningPlan, CleanerConfig], Awaitable[CleaningResult]]
FlushLog = Callable[[Log], Awaitable[None]]
"""Returns once all of the log is durable, or cannot become so."""


class CleaningFailed(Exception):
    """The process ended without a result; the text is what it said last."""


class NotNow(Exception):
    """No process could be started, or it was killed."""


class Compactor:
    """The compactor of a node."""

    def __init__(
        self, manager: LogManager, clock: Clock, options: CleanerConfig, *, flush: FlushLog, clean_elsewhere: CleanElsewhere
    ) -> None:
        self.uncleanable: WeakKeyDictionary[Log, str] = WeakKeyDictionary()
        """The logs that cannot be compacted, with the reason.  The key is a log: the next one of that name is another."""
        self._manager = manager
        self._clock = clock
        self._options = options
        self._flush = flush
        self._clean_elsewhere = clean_elsewhere
        self._busy: set[TopicPartition] = set()
        self._not_now: set[TopicPartition] = set()
        self._workers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Run log.cleaner.threads compactions side by side, until `stop`."""
        if self._options.enable:
            self._employ()

    def take_options(self, options: CleanerConfig) -> None:
        """Take new options.  A compaction that has begun goes on with the old ones."""
        self._options = options
        if self._workers:
            self._employ()

    async def stop(self) -> None:
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    def _employ(self) -> None:
        loop = asyncio.get_running_loop()
        for number in range(len(self._workers), self._options.threads):
            self._workers.append(loop.create_task(self._work(number), name="compaction"))

    async def _work(self, number: int) -> None:
        while True:
            try:
                is_idle = number >= self._options.threads or await self.clean_dirtiest() is None
            except Exception:  # a programming error must not end all compaction
                LOG.exception("compaction failed, and goes on in %d ms", self._options.backoff_ms)
                is_idle = True
            if is_idle:
                await asyncio.sleep(self._options.backoff_ms / 1000)
                self._not_now.clear()

    async def clean_dirtiest(self) -> TopicPartition | None:
        """Compact one log; None when none is dirty enough."""
        log = self._dirtiest()
        if log is None:
            return None
        where = log.topic_partition
        self._busy.add(where)
        try:
            await self._clean(log)
        except (CorruptBatch, CleaningFailed) as error:
            LOG.error("%s is not compacted any more: %s", where, error)
            self.uncleanable[log] = str(error)
        except NotNow as error:
            LOG.warning("%s could not be compacted, and is tried again: %s", where, error)
            self._not_now.add(where)
        except OSError as error:
            log.fail(error)
        finally:
            self._busy.discard(where)
        return where

    def _dirtiest(self) -> Log | None:
        now_ms = self._clock.now_ms()
        candidates: list[tuple[bool, float, TopicPartition]] = []
        for where, log in self._manager.logs.items():
            if not log.config.is_compacted or log.failure is not None or log in self.uncleanable:
                continue
            if where in self._busy or where in self._not_now:
                continue
            dirt = dirtiness(log, self._checkpointed(where), now_ms, unflushed_too=True)
            if dirt.wants_cleaning(log.config):
                candidates.append((dirt.is_overdue, dirt.ratio, where))
        return self._manager.logs[max(candidates)[2]] if candidates else None

    def _checkpointed(self, where: TopicPartition) -> int | None:
        return self._manager.directory_of(where).cleaner_offsets.get(where)

    async def _clean(self, log: Log) -> None:
        where = log.topic_partition
        if log.recovery_point < log.active_segment.base_offset:
            await self._flush(log)
            if self._manager.get(where) is not log or log.failure is not None:
                return
        now_ms = self._clock.now_ms()
        dirt = dirtiness(log, self._checkpointed(where), now_ms)
        plan = plan_cleaning(log, dirt, now_ms, map_bytes=self._options.dedupe_buffer_size)
        if plan is None:
            return
        bases = [segment.base_offset for segment in plan.segments]
        try:
            result = await self._clean_elsewhere(plan, self._options)
        except (CorruptBatch, CleaningFailed, NotNow, OSError) as error:
            discard(self._manager.files, plan.directory, bases)
            if self._manager.get(where) is not log or log.truncations != plan.truncations:
                return  # the log's files were removed while they were read
            if isinstance(error, OSError) and is_shortage(error):
                raise NotNow(str(error)) from error
            raise
        if self._manager.get(where) is not log or log.failure is not None:
            discard(self._manager.files, plan.directory, bases)
            return
        if install(log, result, self._clock.now_ms()):
            self._manager.directory_of(where).cleaner_offsets[where] = result.clean_offset


def clean_elsewhere(files: Files) -> CleanElsewhere:
    """A function that cleans in another process if there is a disk, and here if there is only memory."""
    return clean_in_process if files.are_shared else clean_here(files)


def clean_here(files: Files) -> CleanElsewhere:
    """A function that cleans in this process, for simulation."""

    async def run(plan: CleaningPlan, _options: CleanerConfig) -> CleaningResult:
        return await files.run(clean, files, plan)

    return run


async def clean_in_process(plan: CleaningPlan, options: CleanerConfig) -> CleaningResult:
    """Clean in a process of its own.  Errors: CorruptBatch, OSError, CleaningFailed, NotNow."""
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            __spec__.name,
            str(options.io_max_bytes_per_second),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise NotNow(str(error)) from error
    try:
        answer, said = await process.communicate(pickle.dumps(plan))
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode is not None and process.returncode < 0:
        raise NotNow(f"the process was ended by signal {-process.returncode}")
    if process.returncode != 0:
        raise CleaningFailed(f"{plan.name}: {said.decode(errors='replace').strip()[-500:] or f'ended with {process.returncode}'}")
    result: CleaningResult | CorruptBatch | OSError = pickle.loads(answer)
    if isinstance(result, Exception):
        raise result
    return result


def pace_of(bytes_per_second: float) -> Pace:
    """A function that sleeps so that no more bytes than this go through a second."""
    began = time.monotonic()
    done = 0

    def pace(size: int) -> None:
        nonlocal done
        done += size
        ahead_s = done / bytes_per_second - (time.monotonic() - began)
        if ahead_s > 0.01:
            time.sleep(ahead_s)

    return pace


def main() -> int:
    os.nice(10)
    plan = pickle.load(sys.stdin.buffer)
    result: CleaningResult | CorruptBatch | OSError
    try:
        result = clean(SystemFiles(), plan, pace_of(float(sys.argv[1])))
    except CorruptBatch as error:
        result = CorruptBatch(str(error))  # the exceptions below it are made of other arguments than a text
    except OSError as error:
        result = error
    sys.stdout.buffer.write(pickle.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
