"""The files of one replica of the metadata log: a crash may come at any moment of what replaces one by the other.

Only a lone voter takes a batch that contradicts the epochs for damage.  Whether it is one, the newest voters in the log say.
"""

import itertools
import random
from uuid import UUID

import pytest

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.raft.config import QuorumConfig
from moldau.raft.events import Entry, VotersChange
from moldau.raft.log_bytes import encoded
from moldau.raft.replica_log import ReplicaLog
from moldau.raft.snapshots import build_snapshot
from moldau.raft.voters import Voter, VoterSet
from moldau.storage.log import AppendResult
from moldau.storage.producers.state import AppendOrigin
from moldau.storage.recovery import LogDamaged
from moldau.testing.files import Fault, MemoryFiles
from moldau.types import OffsetAndEpoch

HOME = "/data/__cluster_metadata-0"
ME, OTHER = UUID(int=77), UUID(int=78)
VOTERS = VoterSet([Voter(1, ME, ()), Voter(2, OTHER, ())])
ALONE = VoterSet([Voter(1, ME, ())])
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


def change_voters(replica: ReplicaLog, voters: VoterSet, epoch: int) -> None:
    batch = encoded(Entry(replica.log.log_end_offset, epoch, VotersChange(voters)), 1000)
    done = replica.log.append_as_leader(batch, leader_epoch=epoch, now_ms=1000, origin=AppendOrigin.RAFT_LEADER)
    assert isinstance(done, AppendResult)


def formatted(files: MemoryFiles, voters: VoterSet) -> ReplicaLog:
    """A replica as `storage format` leaves it: the only snapshot has these voters."""
    files.mkdir(HOME)
    replica = a_replica(files)
    parts = build_snapshot([], epoch=0, now_ms=0, last_contained_log_timestamp=0, kraft_version=1, voters=voters)
    replica.snapshots.write(OffsetAndEpoch(0, 0), parts)
    replica.open()
    return replica


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


def test_a_controller_that_was_alone_once_cuts_off_what_a_leader_has_replaced() -> None:
    """Another voter was added.  As its follower the first one truncates records, and a power cut brings them back behind the new epoch."""
    ends = set()
    for seed in range(40):
        files = MemoryFiles(seed=seed)
        replica = formatted(files, ALONE)
        append(replica, 2, epoch=1)
        change_voters(replica, VOTERS, epoch=1)
        committed = replica.log.log_end_offset
        append(replica, 2, epoch=1)
        replica.log.flush()
        files.sync_everything()
        replica.log.truncate_to(committed)
        append(replica, 1, epoch=2)
        files.crash(random.Random(seed))
        again = a_replica(files)
        history = again.history(again.open())
        assert history.voters == VOTERS and history.voters_offset == committed - 1
        ends.add(again.log.log_end_offset - committed)
    assert ends == {0, 1}


def test_the_last_of_several_voters_lets_nothing_go_when_its_epochs_are_damaged() -> None:
    files = MemoryFiles()
    replica = formatted(files, VOTERS)
    append(replica, 2, epoch=1)
    change_voters(replica, ALONE, epoch=1)
    append(replica, 2, epoch=1)
    replica.log.flush()
    files.sync_everything()
    log = files.read(f"{HOME}/{0:020d}.log")
    files.write_atomically(f"{HOME}/leader-epoch-checkpoint", b"0\n1\n0 0\n")
    with pytest.raises(LogDamaged, match="leader-epoch-checkpoint contradict each other at byte 0, offset 0: leader epoch 1"):
        a_replica(files).open()
    assert files.read(f"{HOME}/{0:020d}.log") == log
