"""● One internal topic with its coordinator: a shard for each partition that this broker leads.

    the delta makes this broker leader ─▶ load: read the log to its end, replay ─▶ active ─▶ leader elsewhere: close
                                                                                  │ timers from the loop, replies as the log is acknowledged
                          an append that failed, while this broker leads on: closed, and loaded again a while later

Source: GroupCoordinatorService, TransactionStateManager, CoordinatorLoaderImpl.  Owned by `coordinators.py`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from moldau.background import in_background
from moldau.clock import Clock
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, ProducerIdAndEpoch, Token
from moldau.coordinator.runtime import Machine, Shard, ShardState
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.control import ControlType, parse_control_key
from moldau.protocol.records.corrupt import CorruptBatch
from moldau.protocol.wire import DecodeError
from moldau.replication.partition import Partition
from moldau.server.coordinators.log import PartitionLog, RecordFormat
from moldau.types import MIN_JAVA_INT, java_string_hash

LOG: Final = logging.getLogger(__name__)

LOAD_BYTES: Final = 5 * 1024 * 1024
"""The bytes read at once while loading, unless an option says otherwise."""
LOAD_RECORDS_A_TURN: Final = 200
"""The records that are replayed in one turn of the loop, by all loading shards together: some ten milliseconds' worth.

Between two turns the loop serves others.  A broker that is busy loading for longer than its own session is fenced, leads anew, and has
to load again.
"""

RELOAD_MS: Final = 5_000
"""The longest pause before a load after a failed append: the disk may be full for a while, and repeated loads of a long log would block
all else.
"""
LOOK_MS: Final = 100
"""The interval between two looks whether enough replicas are in sync again.  With enough of them the load begins at once."""
HOW_TO_GO_ON: Final = (
    "Its clients are told NOT_COORDINATOR and ask again.  If a newer release wrote the record, start that one again.  "
    "If it is damaged, restore the folder, or stop the broker and move the folder away: what it remembers is lost then."
)

M = TypeVar("M", bound=Machine)
T = TypeVar("T")
R = TypeVar("R")


class LoadFailed(Exception):
    """A coordinator cannot replay its log.  The text is the reason."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset: Final = offset


class LaterToken:
    """A request of a client that waits for its coordinator."""

    __slots__ = ("_later", "_refused", "_transform")

    def __init__(self, later: Later[Any], refused: Callable[[ErrorCode], Any], transform: Callable[[Any], Any]) -> None:
        self._later = later
        self._refused = refused
        self._transform = transform

    def reply(self, message: Any) -> None:
        self._later.attempt(lambda: self._later.complete(self._transform(message)))

    def refuse(self, code: ErrorCode) -> None:
        self._later.attempt(lambda: self._later.complete(self._refused(code)))


class CoordinatorTopic(Generic[M]):
    """One internal topic, and the shards of its partitions that this broker leads."""

    def __init__(
        self,
        topic: str,
        partition_count: int,
        record_format: RecordFormat,
        new_machine: Callable[[], M],
        clock: Clock,
        on_send: Callable[[Shard[M], Any], None],
        *,
        load_bytes: int = LOAD_BYTES,
    ) -> None:
        self.topic: Final = topic
        self.partition_count: Final = partition_count
        self._format: Final = record_format
        self._new_machine: Final = new_machine
        self._clock: Final = clock
        self._on_send: Final = on_send
        self._load_bytes: Final = load_bytes
        self._shards: dict[int, Shard[M]] = {}
        self._leader_epochs: dict[int, int] = {}
        self._partitions: dict[int, Partition] = {}
        self._to_reload: set[Shard[M]] = set()
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._turn: Final = asyncio.Lock()
        """The lock that one loading shard holds at a time: a piece in each turn of the loop."""
        self._alarms: dict[Shard[M], tuple[int, asyncio.TimerHandle]] = {}

    # -- used by handlers ----------------------------------------------------------------------------------------------------------

    def partition_for(self, key: str) -> int:
        """The partition of a group, a transactional id or a share partition.  Source: Utils.abs(hashCode) % partitions."""
        number = java_string_hash(key)
        return 0 if number == MIN_JAVA_INT else abs(number) % self.partition_count

    def shard_for(self, key: str) -> Shard[M] | ErrorCode:
        """The shard of a key.  Errors: NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS."""
        shard = self._shards.get(self.partition_for(key))
        if shard is None:
            return ErrorCode.NOT_COORDINATOR
        return shard if shard.state is ShardState.ACTIVE else shard.refusal

    def active_shards(self) -> list[Shard[M]]:
        return [shard for _, shard in sorted(self._shards.items()) if shard.state is ShardState.ACTIVE]

    def index_of(self, shard: Shard[M]) -> int | None:
        """The partition of a shard; None once it is not here any more."""
        return next((index for index, each in self._shards.items() if each is shard), None)

    def is_loading(self) -> bool:
        return bool(self._loading)

    def leader_epoch_of(self, key: str) -> int:
        """The coordinator epoch that markers carry."""
        return self._leader_epochs.get(self.partition_for(key), 0)

    def run(self, shard: Shard[M], operation: Callable[[int], Outcome]) -> None:
        """Let the shard decide, and set the loop's timer to its next one."""
        shard.run(operation, self._clock.now_ms(), self._clock.monotonic_ms())
        self._set_alarm(shard)

    def ask(
        self,
        key: str,
        operation: Callable[[M, Token, int], Outcome],
        *,
        refused: Callable[[ErrorCode], T],
        transform: Callable[[Any], T] | None = None,
    ) -> Later[T] | T:
        """The answer of the coordinator of `key`, or the refusal if that is not here."""
        shard = self.shard_for(key)
        if isinstance(shard, ErrorCode):
            return refused(shard)
        later: Later[T] = Later(_not_missed)
        self.run(shard, partial(operation, shard.machine, LaterToken(later, refused, transform or _unchanged)))
        return later

    def ask_all(self, operation: Callable[[M, Token, int], Outcome], *, refused: Callable[[ErrorCode], T]) -> list[Later[T] | T]:
        """The answers of all active shards here."""
        answers: list[Later[T] | T] = []
        for shard in self.active_shards():
            later: Later[T] = Later(_not_missed)
            token = LaterToken(later, refused, _unchanged)
            self.run(shard, partial(operation, shard.machine, token))
            answers.append(later)
        return answers

    # -- leadership -----------------------------------------------------------------------------------------------------------

    def elected(self, partition: Partition) -> None:
        """Note that this broker leads a partition of the topic, perhaps in a new epoch."""
        index = partition.topic_partition.partition
        if self._leader_epochs.get(index) == partition.leader_epoch:
            return
        self.resigned(index)
        log = PartitionLog(partition, self._format, on_acknowledged=lambda: self._acknowledged(shard), on_lost=lambda: self._lost(shard))
        shard: Shard[M] = Shard(self._new_machine(), log, lambda send: self._send(shard, send))
        self._shards[index] = shard
        self._leader_epochs[index] = partition.leader_epoch
        self._partitions[index] = partition
        self._loading[index] = in_background(self._load(index, shard, partition))

    def resigned(self, index: int) -> None:
        """Note that another broker leads, or that the partition is gone."""
        loading = self._loading.pop(index, None)
        if loading is not None:
            loading.cancel()
        shard = self._shards.pop(index, None)
        self._leader_epochs.pop(index, None)
        self._partitions.pop(index, None)
        if shard is not None:
            shard.close()
            self._set_alarm(shard)

    def _send(self, shard: Shard[M], send: Any) -> None:
        try:
            self._on_send(shard, send)
        except Exception:  # an error of one send: the answers behind it, and the flusher that brought the news, go on
            LOG.exception("%s-%s: %s could not be sent", self.topic, self.index_of(shard), type(send).__name__)

    @staticmethod
    def _acknowledged(shard: Shard[M]) -> None:
        if shard.state is ShardState.ACTIVE:
            shard.release()

    def _lost(self, shard: Shard[M]) -> None:
        shard.close()
        self._set_alarm(shard)

    def _reload_later(self, shard: Shard[M]) -> None:
        """Load a closed shard again: as soon as enough replicas are in sync if too few are now, else after the longest pause.

        A broker that has just begun to lead is alone in sync for a moment, and the first heartbeat of a member closes the shard.
        """
        loop = asyncio.get_running_loop()
        index = self.index_of(shard)
        partition = None if index is None else self._partitions[index]
        if partition is None or not partition.lacks_replicas:
            loop.call_later(RELOAD_MS / 1000, self._reload, shard)
            return

        def look(waited_ms: int) -> None:
            if partition.lacks_replicas and waited_ms < RELOAD_MS:
                loop.call_later(LOOK_MS / 1000, look, waited_ms + LOOK_MS)
            else:
                self._reload(shard)

        loop.call_later(LOOK_MS / 1000, look, LOOK_MS)

    def _reload(self, shard: Shard[M]) -> None:
        self._to_reload.discard(shard)
        index = self.index_of(shard)
        if index is not None:
            partition = self._partitions[index]
            self.resigned(index)
            if partition.is_leader:
                LOG.info("%s: its coordinator could not write, and is loaded again", partition.topic_partition)
                self.elected(partition)

    def marker_appended(self, index: int, producer: ProducerIdAndEpoch, *, is_commit: bool) -> None:
        """Note that a transaction's marker went into the partition's log."""
        shard = self._shards.get(index)
        if shard is not None and shard.state is ShardState.ACTIVE:
            shard.end_marker_appended(producer, is_commit=is_commit)

    def run_all(self, operation: Callable[[M, int], Outcome]) -> None:
        """Let every active shard decide something without a request."""
        for shard in self.active_shards():
            self.run(shard, partial(operation, shard.machine))

    def close(self) -> None:
        for index in list(self._shards):
            self.resigned(index)

    # -- loading --------------------------------------------------------------------------------------------------------------

    async def _load(self, index: int, shard: Shard[M], partition: Partition) -> None:
        started_ms = self._clock.monotonic_ms()
        count = 0
        try:
            pieces = self._replay(shard, partition)
            while True:
                async with self._turn:
                    replayed = next(pieces, None)
                    await asyncio.sleep(0)
                if replayed is None:
                    break
                count += replayed
        except LoadFailed as failed:
            LOG.error(
                "%s: its coordinator stays closed, since offset %d of %s cannot be loaded: %s.  %s",
                partition.topic_partition,
                failed.offset,
                partition.log.directory,
                failed,
                HOW_TO_GO_ON,
                exc_info=None if isinstance(failed.__cause__, CorruptBatch | DecodeError | OSError) else failed.__cause__,
            )
            shard.close()
            return
        finally:
            if self._shards.get(index) is shard:  # else the entry is that of a later load
                self._loading.pop(index, None)
        shard.activate(self._clock.now_ms(), self._clock.monotonic_ms())
        self._set_alarm(shard)
        elapsed_ms = self._clock.monotonic_ms() - started_ms
        level = logging.INFO if count else logging.DEBUG
        LOG.log(level, "%s: coordinator loaded %d records in %d ms", partition.topic_partition, count, elapsed_ms)

    def _replay(self, shard: Shard[M], partition: Partition) -> Iterator[int]:
        """Replay a partition's log, piece by piece; each piece gives the number of its records.  Errors: LoadFailed."""
        log = partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            data = log.read(offset, self._load_bytes, limit_offset=log.log_end_offset, min_one_batch=True)
            if isinstance(data, ErrorCode):
                raise LoadFailed(offset, data.name)
            if data.records is None:
                return  # compaction left no record up to the end
            try:
                view = memoryview(data.records.read())
                count = 0
                for position, header in batches(view):
                    count += self._replay_batch(shard, view[position : position + header.size], partition)
                    offset = max(offset, header.next_offset)
                    if count >= LOAD_RECORDS_A_TURN:
                        yield count
                        count = 0
            except (OSError, CorruptBatch) as error:
                raise LoadFailed(offset, str(error)) from error
            yield count

    def _replay_batch(self, shard: Shard[M], batch: memoryview, partition: Partition) -> int:
        """Replay one batch.  Returns the number of its records.  Errors: LoadFailed."""
        header = next(batches(batch))[1]
        producer = ProducerIdAndEpoch(header.producer_id, header.producer_epoch) if header.is_transactional else None
        count = 0
        offset = header.base_offset
        try:
            for record in records_of(batch):
                offset = record.offset
                if header.is_control:
                    kind = parse_control_key(record.key).type
                    if producer is not None and kind in (ControlType.ABORT, ControlType.COMMIT):
                        shard.load_end_marker(producer, is_commit=kind is ControlType.COMMIT)
                    continue
                read = self._format.records.decode(record.key or b"", record.value)
                if read is None:
                    LOG.warning(
                        "%s: the record at offset %d is of a type that is not known here, passed over", partition.topic_partition, offset
                    )
                    continue
                shard.load(offset, CoordinatorRecord(*read), producer)
                count += 1
        except Exception as error:  # the record is damaged or cannot be replayed: no request must wait for ever
            raise LoadFailed(offset, str(error) or type(error).__name__) from error
        return count

    # -- time -----------------------------------------------------------------------------------------------------------------

    def _set_alarm(self, shard: Shard[M]) -> None:
        """Set the loop's timer to the shard's next one.  A closed shard has none: it is loaded again, unless another broker leads."""
        if shard.state is ShardState.CLOSED and shard not in self._to_reload and self.index_of(shard) is not None:
            self._to_reload.add(shard)
            self._reload_later(shard)
        due_ms = shard.next_due_ms()
        alarm = self._alarms.get(shard)
        if alarm is not None:
            if due_ms is not None and alarm[0] <= due_ms:
                return  # the timer rings early, sees that nothing is due, and is set anew: cheaper than a new timer at every heartbeat
            alarm[1].cancel()
            del self._alarms[shard]
        if due_ms is not None:
            delay_s = max(due_ms - self._clock.monotonic_ms(), 0) / 1000
            handle = asyncio.get_running_loop().call_later(delay_s, self._ring, shard)
            self._alarms[shard] = (due_ms, handle)

    def _ring(self, shard: Shard[M]) -> None:
        self._alarms.pop(shard, None)
        if shard.state is ShardState.ACTIVE:
            try:
                shard.fire(self._clock.now_ms(), self._clock.monotonic_ms())
            except Exception:  # an error of one timer: sessions of other members must end all the same
                LOG.exception("%s-%s: a timer of its coordinator failed", self.topic, self.index_of(shard))
            self._set_alarm(shard)


def gather(parts: Sequence[Later[T] | T], combine: Callable[[list[T]], R]) -> Later[R] | R:
    """`combine` of all answers, in their order, once the last has come.  The first error is the error of all."""
    answers: list[Any] = list(parts)
    missing = [index for index, part in enumerate(parts) if isinstance(part, Later)]
    if not missing:
        return combine(answers)
    combined: Later[R] = Later(_not_missed)
    left = len(missing)

    def take(index: int, answer: T) -> None:
        nonlocal left
        answers[index] = answer
        left -= 1
        if left == 0:
            combined.complete(combine(answers))

    def fail(error: Exception) -> None:
        if not combined.is_settled:
            combined.fail(error)

    for index in missing:
        answers[index].then(partial(take, index), fail)
    return combined


async def answered(answer: Later[T] | T) -> T:
    """Wait for an answer.  Errors: the one with which it failed."""
    if not isinstance(answer, Later):
        return answer
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    answer.then(
        lambda value: None if future.done() else future.set_result(value),
        lambda error: None if future.done() else future.set_exception(error),
    )
    return await future


def _unchanged(message: Any) -> Any:
    return message


def _not_missed() -> None:
    """Do nothing: the client is gone, but its request is decided all the same."""
