import asyncio
import itertools
from uuid import UUID

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.server.node.log_mover import LogMover
from moldau.storage.config import LogConfig
from moldau.storage.log import Log
from moldau.storage.manager import LogManager
from moldau.storage.producers.state import AppendOrigin
from moldau.testing.clock import SimClock
from moldau.testing.files import MemoryFiles
from moldau.testing.loop import Machine, SimLoop
from moldau.types import TopicPartition

LOGS = 2
SIZE = 3_000_000
RATE = 500_000


def test_logs_that_move_at_a_time_share_one_rate() -> None:
    loop, files, ids = SimLoop(), MemoryFiles(slow_ms=1), itertools.count(1)
    for path in ("/one", "/two"):
        files.mkdir(path)
    clock, all_moved = SimClock(loop), asyncio.Event()
    moved_at_ms: list[int] = []
    logs = LogManager(files, ["/one", "/two"], LogConfig(), unique=lambda: UUID(int=next(ids)))
    logs.open(0)
    for index in range(LOGS):
        log = logs.get_or_create(TopicPartition("t", index), LogConfig(), now_ms=0, topic_id=UUID(int=5))
        for _ in range(SIZE // 100_000):
            log.append_as_leader(
                build_batch([NewRecord(0, None, b"x" * 100_000)]),
                leader_epoch=0,
                now_ms=0,
                origin=AppendOrigin.COORDINATOR,
                transaction_version=0,
            )

    def moved(log: Log) -> None:
        moved_at_ms.append(clock.monotonic_ms())
        if len(moved_at_ms) == LOGS:
            all_moved.set()

    async def move() -> int:
        mover = LogMover(files, clock, logs, at_once=LOGS, on_moved=moved)
        began_ms = clock.monotonic_ms()
        mover.pace.set_rate(RATE, began_ms)
        for where in list(logs.logs):
            mover.move(where, next(each for each in logs.directories if where not in each.logs))
        await all_moved.wait()
        return moved_at_ms[-1] - began_ms

    took_ms: int = loop.run_until_complete(loop.start(Machine("here"), move()))
    wanted_ms = LOGS * SIZE * 1000 // RATE
    assert wanted_ms - 1100 <= took_ms <= wanted_ms + 1500, "a second's worth may go at once"
    assert not loop.failures
