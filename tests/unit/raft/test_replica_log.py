"""The files of one replica of the metadata log: a crash may come at any moment of what replaces one by the other."""

import itertools
import random
from uuid import UUID

import pytest

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.raft.config import QuorumConfig
from moldau.raft.replica_log import ReplicaLog
from moldau.raft.snapshots import build_snapshot
from moldau.raft.voters import Voter, VoterSet
from moldau.storage.log import AppendResult
from moldau.storage.recovery import LogDamaged
from moldau.testing.files import Fault, MemoryFiles
from moldau.types import OffsetAndEpoch

HOME = "/data/__cluster_metadata-0"
ME, OTHER = UUID(int=77), UUID(int=78)
VOTERS = VoterSet([Voter(1, ME, ()), Voter(2, OTHER, ())])
SNAPSHOT = OffsetAndEpoch(50, 2)
CHANGING = frozenset({"open", "mkdir", "pwrite", "truncate", "rename", "unlink", "sync", "sync_dir"})


class PowerCut(BaseException):
    """Nothing after this call happens."""


class StoppedClock:
    def now_ms(self) -> int:
        return 1000

    def monotonic_ms(self) -> int:
        return 1000


def a_replica(files: MemoryFiles) -> ReplicaLog:
    return ReplicaLog(
        files=files,
        clock=StoppedClock(),
        directory=HOME,
        node_id=1,
        directory_id=ME,
        config=QuorumConfig.load({}),
        static_voters=VOTERS,
    )


def append(replica: ReplicaLog, count: int, epoch: int) -> None:
    for _ in range(count):
        offset = replica.log.log_end_offset
        batch = build_batch([NewRecord(1000, None, b"x")], base_offset=offset, leader_epoch=epoch)
        assert isinstance(replica.log.append_as_follower(memoryview(batch), epoch), AppendResult)


def a_snapshot() -> bytes:
    return b"".join(build_snapshot([b"all"], epoch=SNAPSHOT.epoch, now_ms=1000, last_contained_log_timestamp=900))


def replace_by_fetched(replica: ReplicaLog) -> None:
    replica.snapshots.write_part(SNAPSHOT, 0, a_snapshot())
    replica.snapshots.finish(SNAPSHOT)
    replica.replace(SNAPSHOT)
    replica.log.flush()
    replica.snapshots.log_is_replaced()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("before", [0, 4])
def test_a_crash_while_a_fetched_snapshot_replaces_the_log_leaves_the_one_or_the_other(before: int, seed: int) -> None:
    seen = set()
    for stop_at in itertools.count():
        files, calls = MemoryFiles(seed=seed), itertools.count()
        replica = a_replica(files)
        replica.open()
        append(replica, before, epoch=1)
        replica.log.flush()
        files.sync_everything()

        def cut(call: str, path: str) -> Fault | None:
            if call in CHANGING and next(calls) == stop_at:  # noqa: B023
                raise PowerCut
            return None

        acknowledged = 0
        files.hook = cut
        try:
            replace_by_fetched(replica)
            append(replica, 1, epoch=2)
            replica.log.flush()
            acknowledged = SNAPSHOT.offset + 1
            files.hook = None
        except PowerCut:
            files.hook = None
        files.crash(random.Random(seed * 1000 + stop_at))
        again = a_replica(files)
        loaded = again.open()
        is_replaced = loaded is not None
        seen.add(is_replaced)
        end = again.log.log_end_offset
        assert end == before if not is_replaced else end in (SNAPSHOT.offset, SNAPSHOT.offset + 1), stop_at
        assert end >= acknowledged
        append(again, 1, epoch=2)
        again.log.flush()
        files.crash(random.Random(stop_at))
        last = a_replica(files)
        last.open()
        assert last.log.log_end_offset == end + 1, "what is acknowledged after the next start stays"
        if acknowledged:
            break
    assert seen == {True, False}


def test_a_log_that_has_lost_records_below_its_own_snapshot_is_refused() -> None:
    files = MemoryFiles()
    replica = a_replica(files)
    replica.open()
    append(replica, 60, epoch=2)
    replica.log.flush()
    replica.snapshots.write(SNAPSHOT, [bytearray(a_snapshot())])
    files.sync_everything()
    file = files.open(f"{HOME}/{0:020d}.log")
    file.truncate(0)
    file.sync()
    with pytest.raises(LogDamaged, match="ends at offset 0, but everything below 50 was on stable storage"):
        a_replica(files).open()
