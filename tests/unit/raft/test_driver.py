"""The driver on files in memory: elections on disk, commits, restarts, snapshots, a disk that fails."""

import asyncio
import json
from collections.abc import Callable, Sequence
from errno import EIO, ENOSPC
from functools import partial
from random import Random
from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from moldau.protocol.records.batch import patch_offsets
from moldau.raft.config import QuorumConfig
from moldau.raft.driver import RaftDriver
from moldau.raft.events import Entry, VotersChange
from moldau.raft.listener import CommittedBatch
from moldau.raft.log_bytes import encoded
from moldau.raft.replica_log import MAX_BATCH_BYTES
from moldau.raft.roles import CorruptQuorumState, ElectionState
from moldau.raft.snapshots import build_snapshot, snapshot_name
from moldau.raft.voters import Address, Voter, VoterSet
from moldau.storage.recovery import LogDamaged
from moldau.testing.clock import SimClock
from moldau.testing.files import Fault, MemoryFiles
from moldau.testing.loop import Machine, SimLoop
from moldau.testing.network import SimNetwork
from moldau.types import OffsetAndEpoch
from proof.raft.quorum import CLUSTER_ID, HOST, LISTENER, Member, Quorum

DIRECTORY = UUID(int=77)
ME = VoterSet([Voter(1, DIRECTORY, (Address("CONTROLLER", "localhost", 9093),))])
HOME = "/data/__cluster_metadata-0"


class StoppedClock:
    def now_ms(self) -> int:
        return 1_000_000

    def monotonic_ms(self) -> int:
        return 0


class Recorder:
    """A listener that notes what it is told."""

    def __init__(self) -> None:
        self.snapshot: tuple[OffsetAndEpoch, list[bytes]] | None = None
        self.records: list[bytes] = []
        self.next_offset = 0
        self.epochs: list[int] = []
        self.is_caught_up = False

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Sequence[bytes]) -> None:
        self.snapshot = snapshot_id, list(records)
        self.next_offset = snapshot_id.offset

    def committed(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            assert batch.base_offset == self.next_offset
            self.next_offset = batch.next_offset
            self.records += map(bytes, batch.records)

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        if leader_id == 1:
            self.epochs.append(epoch)

    def caught_up(self) -> None:
        self.is_caught_up = True


def a_driver(
    files: MemoryFiles,
    *,
    static: bool = True,
    config: QuorumConfig | None = None,
    addresses: tuple[Address, ...] = (),
    on_failure: Callable[[Exception], None] = lambda _: None,
) -> RaftDriver:
    return RaftDriver(
        files=files,
        clock=StoppedClock(),
        directory="/data",
        node_id=1,
        directory_id=DIRECTORY,
        config=config or QuorumConfig.load({}),
        static_voters=ME if static else None,
        addresses=addresses,
        on_failure=on_failure,
    )


async def test_a_lone_voter_leads_and_commits() -> None:
    files, listener = MemoryFiles(), Recorder()
    driver = a_driver(files)
    await driver.start(listener)
    await driver.wait_for_commit(1)
    assert driver.is_leader and listener.epochs == [1]
    assert json.loads(files.read(f"{HOME}/quorum-state")) == {
        "clusterId": "",
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}],
        "data_version": 0,
    }
    end = driver.propose([b"a", b"b"])
    assert listener.records == []
    await driver.wait_for_commit(end)
    assert listener.records == [b"a", b"b"] and driver.high_watermark == end == 3
    await driver.stop()


async def test_a_batch_beyond_the_limit_is_refused_and_the_next_one_taken() -> None:
    driver, listener = a_driver(MemoryFiles()), Recorder()
    await driver.start(listener)
    await driver.wait_for_commit(1)
    for records in ([b"x" * (MAX_BATCH_BYTES + 1)], [b"x" * (MAX_BATCH_BYTES // 4)] * 4 + [b"x"]):
        with pytest.raises(KafkaError) as error:
            driver.propose(records)
        assert error.value.code is ErrorCode.POLICY_VIOLATION
    await driver.wait_for_commit(driver.propose([b"small"]))
    assert listener.records == [b"small"]
    await driver.stop()


async def test_a_crash_keeps_what_was_committed_and_starts_a_new_epoch() -> None:
    files = MemoryFiles()
    driver = a_driver(files)
    await driver.start(Recorder())
    await driver.wait_for_commit(1)
    await driver.wait_for_commit(driver.propose([b"kept"]))
    driver.propose([b"perhaps"])
    await driver.abandon()
    files.crash(Random(3))
    listener = Recorder()
    again = a_driver(files)
    await again.start(listener)
    await again.wait_for_commit(again.node.end_offset + 1 if again.node.end_offset < 3 else again.node.end_offset)
    assert listener.records[0] == b"kept" and listener.epochs == [2]
    await again.stop()


async def test_appends_that_wait_share_a_sync() -> None:
    files, listener = MemoryFiles(), Recorder()
    driver = a_driver(files)
    await driver.start(listener)
    await driver.wait_for_commit(1)
    ends = [driver.propose([str(number).encode()]) for number in range(50)]
    assert listener.records == []
    await driver.wait_for_commit(ends[-1])
    assert listener.records == [str(number).encode() for number in range(50)]
    await driver.stop()


async def test_a_snapshot_is_loaded_and_the_log_after_it() -> None:
    files = MemoryFiles()
    driver = a_driver(files)
    await driver.start(Recorder())
    await driver.wait_for_commit(1)
    end = driver.propose([b"in the snapshot"])
    await driver.wait_for_commit(end)
    await driver.write_snapshot(OffsetAndEpoch(end, 1), 5, lambda: [b"image"])
    await driver.wait_for_commit(driver.propose([b"after it"]))
    await driver.stop()
    listener = Recorder()
    again = a_driver(files)
    await again.start(listener)
    await again.wait_for_commit(4)
    assert listener.snapshot == (OffsetAndEpoch(end, 1), [b"image"])
    assert listener.records == [b"after it"]
    await again.stop()


async def test_old_snapshots_and_the_log_before_them_go() -> None:
    files = MemoryFiles()
    driver = a_driver(files, config=QuorumConfig.load({"metadata.max.retention.bytes": "1000"}))
    await driver.start(Recorder())
    await driver.wait_for_commit(1)
    for _ in range(3):
        end = driver.propose([b"x" * 600])
        await driver.wait_for_commit(end)
        await driver.write_snapshot(OffsetAndEpoch(end, 1), 0, lambda: [b"image"])
    left = [name for name in files.listdir(HOME) if name.endswith(".checkpoint")]
    assert left == [snapshot_name(OffsetAndEpoch(4, 1))]
    assert driver.log.log_start_offset == 4
    await driver.stop()


async def test_a_checkpoint_of_epochs_that_contradicts_the_log_lets_nothing_of_it_go() -> None:
    files = MemoryFiles()
    driver = a_driver(files)
    await driver.start(Recorder())
    await driver.wait_for_commit(1)
    await driver.wait_for_commit(driver.propose([b"kept"]))
    await driver.stop()
    files.sync_everything()
    log = files.read(f"{HOME}/{0:020d}.log")
    for epochs in (b"0\n1\n0 0\n", b"0\n1\n5 0\n"):
        files.crash(Random(3))
        files.write_atomically(f"{HOME}/leader-epoch-checkpoint", epochs)
        with pytest.raises(LogDamaged, match="leader-epoch-checkpoint contradict each other at byte 0, offset 0: leader epoch 1"):
            await a_driver(files).start(Recorder())
        assert files.read(f"{HOME}/{0:020d}.log") == log
    files.unlink(f"{HOME}/leader-epoch-checkpoint")
    listener = Recorder()
    again = a_driver(files)
    await again.start(listener)
    await again.wait_for_commit(again.log.log_end_offset)
    assert listener.records == [b"kept"]
    await again.stop()


async def test_an_old_snapshot_that_is_damaged_goes() -> None:
    files = MemoryFiles()
    driver = a_driver(files)
    await driver.start(Recorder())
    await driver.wait_for_commit(1)
    for number in range(3):
        end = driver.propose([b"x"])
        await driver.wait_for_commit(end)
        await driver.write_snapshot(OffsetAndEpoch(end, 1), 5, lambda: [b"all"])
        if number == 0:
            files.write_atomically(f"{HOME}/{snapshot_name(OffsetAndEpoch(end, 1))}", b"\0" * 90)
    assert [name for name in files.listdir(HOME) if name.endswith(".checkpoint")] == [
        snapshot_name(OffsetAndEpoch(3, 1)),
        snapshot_name(OffsetAndEpoch(4, 1)),
    ]
    await driver.stop()


async def test_voters_come_from_the_first_snapshot() -> None:
    files = MemoryFiles()
    files.mkdir(HOME)
    parts = build_snapshot([], epoch=0, now_ms=0, last_contained_log_timestamp=0, kraft_version=1, voters=ME)
    files.write_atomically(f"{HOME}/{snapshot_name(OffsetAndEpoch(0, 0))}", b"".join(parts))
    driver = a_driver(files, static=False)
    await driver.start(Recorder())
    await driver.wait_for_commit(1)
    state = json.loads(files.read(f"{HOME}/quorum-state"))
    assert state["data_version"] == 1 and state["leaderId"] == 1
    await driver.stop()


async def test_a_leader_writes_down_where_it_listens_now() -> None:
    files = MemoryFiles()
    files.mkdir(HOME)
    parts = build_snapshot([], epoch=0, now_ms=0, last_contained_log_timestamp=0, kraft_version=1, voters=ME)
    files.write_atomically(f"{HOME}/{snapshot_name(OffsetAndEpoch(0, 0))}", b"".join(parts))
    moved = (Address("CONTROLLER", "elsewhere", 9999),)
    ends, found = [], []
    for addresses in ((), moved, moved, ()):
        driver = a_driver(files, static=False, addresses=addresses)
        await driver.start(Recorder())
        await driver.wait_for_commit(driver.node.end_offset + 1)
        ends.append(driver.node.end_offset)
        found.append(driver.node.voters.by_id[1].addresses)
        await driver.stop()
    assert found == [ME.by_id[1].addresses, moved, moved, moved]
    assert ends == [3, 6, 7, 8], "a leader writes its change alone, or with kraft.version and voters"


async def test_who_may_not_lead_refuses() -> None:
    files = MemoryFiles()
    driver = a_driver(files, static=False)
    await driver.start(Recorder())
    with pytest.raises(KafkaError) as refusal:
        driver.propose([b"a"])
    assert refusal.value.code is ErrorCode.NOT_CONTROLLER
    await driver.stop()


async def test_after_a_failed_sync_nothing_is_committed_any_more() -> None:
    files, failures = MemoryFiles(), []
    driver = a_driver(files)
    driver._on_failure = failures.append  # type: ignore[misc]
    listener = Recorder()
    await driver.start(listener)
    await driver.wait_for_commit(1)
    files.hook = lambda call, path: Fault() if call == "sync" and path.endswith(".log") else None
    with pytest.raises(KafkaError) as refusal:
        await driver.wait_for_commit(driver.propose([b"lost?"]))
    assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(failures) == 1 and listener.records == [] and not driver.is_leader
    files.hook = None
    with pytest.raises(KafkaError):
        driver.propose([b"no more"])


async def test_a_machine_that_cannot_replay_stops_the_log() -> None:
    class Broken(Recorder):
        def committed(self, batches: Sequence[CommittedBatch]) -> None:
            if any(batch.records for batch in batches):
                raise ValueError("a record that cannot follow")
            super().committed(batches)

    failures: list[Exception] = []
    driver = a_driver(MemoryFiles())
    driver._on_failure = failures.append  # type: ignore[misc]
    await driver.start(Broken())
    await driver.wait_for_commit(1)
    with pytest.raises(KafkaError):
        await driver.wait_for_commit(driver.propose([b"poison"]))
    assert [type(failure) for failure in failures] == [ValueError]


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (b'"leaderEpoch":2', b'"leaderEpoch":0', "it says epoch 0, the log has 2"),
        (b'"votedDirectoryId"', b'"votedDirectoryIe"', "it has no votedDirectoryId"),
        (b'"data_version":1', b'"data_version":0', "it has no appliedOffset"),
        (b'"leaderEpoch":2', b'"leaderEpoch":-2', "cannot be"),
        (b'"data_version":1', b'"data_version":3', "version 3 of it is not known"),
    ],
)
async def test_an_election_that_cannot_be_is_refused_by_name(before: bytes, after: bytes, words: str) -> None:
    files = MemoryFiles()
    for _ in range(2):
        driver = a_driver(files)
        await driver.start(Recorder())
        await driver.wait_for_commit(1)
        await driver.stop()
    path = f"{HOME}/quorum-state"
    content = files.read(path)
    if b"votedDirectoryId" not in content:  # the file was written for a fixed set of voters
        content = ElectionState(2, 1, -1, DIRECTORY).to_json(1)
    assert before in content
    files.write_atomically(path, content.replace(before, after))
    with pytest.raises(CorruptQuorumState, match=f"{path}.*{words}"):
        await a_driver(files).start(Recorder())


async def test_what_a_full_disk_does_not_take_waits_and_nothing_more_is_proposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.raft.log_keeping.ROOM_CHECK_MS", 0)
    files, listener = MemoryFiles(), Recorder()
    driver = a_driver(files)
    await driver.start(listener)
    await driver.wait_for_commit(1)
    files.hook = lambda call, path: Fault(ENOSPC, written=5) if call == "pwrite" else None
    end = driver.propose([b"waits"])
    with pytest.raises(KafkaError, match="no room for metadata") as refused:
        driver.propose([b"refused"])
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    for _ in range(10):
        await asyncio.sleep(0)
    assert driver.failure is None and driver.is_leader and listener.records == []
    files.hook = None
    await driver.wait_for_commit(end)
    await driver.wait_for_commit(driver.propose([b"goes on"]))
    assert listener.records == [b"waits", b"goes on"]
    await driver.stop()


async def test_a_follower_takes_nothing_for_committed_before_its_log_has_it() -> None:
    """One answer tells a node of its leader and brings records.  The disk is slow with the former and has no room for the latter."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    files = {1: MemoryFiles(), 2: MemoryFiles(slow_ms=200)}
    files[2].mkdir(HOME)
    files[2].write_atomically(f"{HOME}/quorum-state", ElectionState(1).to_json(1))
    network, machine = SimNetwork(loop, seed=1), Machine(HOST)
    network.add(machine)
    quorum = Quorum(network, voters=1, observers=1, clock=SimClock(loop), files=files.__getitem__)
    await loop.start(machine, find_a_full_disk(quorum, files[2]))


async def find_a_full_disk(quorum: Quorum, files: MemoryFiles) -> None:
    await quorum.start()
    end = await (await quorum.leader()).commit(b"a")
    driver = quorum.members[2].driver
    assert driver is not None
    files.hook = lambda call, path: Fault(ENOSPC) if call == "pwrite" and path.endswith(".log") else None
    for _ in range(500):
        await asyncio.sleep(0.002)
        assert driver.high_watermark == 0, "the log is empty"
    files.hook = None
    await quorum.until(lambda: driver.high_watermark == end)
    assert quorum.members[2].told.records == [b"a"] and driver.failure is None
    await quorum.stop()


async def test_the_first_controller_leads_nothing_alone_once_others_are_voters() -> None:
    """Its only snapshot says that it is alone, the log after it says more."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    network, machine = SimNetwork(loop, seed=1), Machine(HOST)
    network.add(machine)
    await loop.start(machine, start_alone(Quorum(network, voters=1, observers=1, clock=SimClock(loop))))


async def start_alone(quorum: Quorum) -> None:
    await quorum.start()
    first, second = quorum.members.values()
    assert first is await quorum.leader() and first.driver is not None
    end = await first.commit(b"a")
    await quorum.until(lambda: second.told.next_offset >= end)
    answer = await first.driver.change_voters(adding(second))
    assert isinstance(answer, AddRaftVoterResponse) and answer.error_code is ErrorCode.NONE
    end = await first.commit(b"b")
    for member in (second, first):
        await quorum.kill(member)
    await quorum.revive(first)
    assert list(first.driver.node.voters.by_id) == [1, 2]
    await asyncio.sleep(60)
    assert not first.driver.node.is_leader and first.driver.high_watermark == 0 and first.told.records == []
    await quorum.revive(second)
    leader = await quorum.leader()
    assert await leader.commit(b"c") > end
    await quorum.until(lambda: all(one.told.records == [b"a", b"b", b"c"] for one in quorum.members.values()))
    await quorum.stop()


def adding(member: Member) -> AddRaftVoterRequest:
    listeners = [Listener(name=LISTENER, host=HOST, port=member.port)]
    return AddRaftVoterRequest(
        cluster_id=CLUSTER_ID, timeout_ms=5000, voter_id=member.number, voter_directory_id=member.directory_id, listeners=listeners
    )


def note_append(has_begun: asyncio.Event, call: str, path: str) -> None:
    if call == "pwrite" and path.endswith(".log"):
        has_begun.set()


async def test_the_last_voter_has_an_epoch_on_the_disk_before_its_first_batch() -> None:
    """Otherwise a power cut leaves a batch that contradicts the epochs, which a lone voter takes for damage."""
    for seed in range(30):
        files = MemoryFiles(seed=seed)
        files.mkdir(HOME)
        other = Voter(2, UUID(int=78), (Address("CONTROLLER", "localhost", 9094),))
        both = build_snapshot([], epoch=0, now_ms=0, last_contained_log_timestamp=0, kraft_version=1, voters=ME.with_voter(other))
        files.write_atomically(f"{HOME}/{snapshot_name(OffsetAndEpoch(0, 0))}", b"".join(both))
        removed = encoded(Entry(0, 1, VotersChange(ME)), 0)
        patch_offsets(removed, 0, 0, leader_epoch=1)
        files.write_atomically(f"{HOME}/{0:020d}.log", bytes(removed))
        files.write_atomically(f"{HOME}/quorum-state", ElectionState(1, 2).to_json(1))
        driver, has_begun = a_driver(files, static=False), asyncio.Event()
        files.hook = partial(note_append, has_begun)
        await driver.start(Recorder())
        await has_begun.wait()
        await driver.abandon()
        files.hook = None
        files.crash(Random(seed))
        again = a_driver(files, static=False)
        await again.start(Recorder())
        await again.wait_for_commit(again.log.log_end_offset)
        await again.stop()


@pytest.mark.parametrize(("error", "has_failed"), [(ENOSPC, False), (EIO, True)])
async def test_a_stop_ends_when_the_disk_takes_nothing_more(error: int, has_failed: bool, caplog: pytest.LogCaptureFixture) -> None:
    files, failures = MemoryFiles(), list[Exception]()
    driver = a_driver(files, on_failure=failures.append)
    await driver.start(Recorder())
    await driver.wait_for_commit(1)
    await driver.wait_for_commit(driver.propose([b"kept"]))
    files.hook = lambda call, path: Fault(error) if call == "pwrite" else None
    await driver.stop()
    assert bool(failures) is has_failed
    assert "__cluster_metadata-0 was not closed whole" in caplog.text
    files.hook = None
    listener = Recorder()
    again = a_driver(files)
    await again.start(listener)
    await again.wait_for_commit(2)
    assert listener.records == [b"kept"]
    await again.stop()


async def test_a_stop_does_not_wait_for_room() -> None:
    files = MemoryFiles()
    driver = a_driver(files)
    await driver.start(Recorder())
    await driver.wait_for_commit(1)
    files.hook = lambda call, path: Fault(ENOSPC) if call == "pwrite" else None
    waiting = asyncio.ensure_future(driver.wait_for_commit(driver.propose([b"lost"])))
    await asyncio.sleep(0)
    files.hook = None
    await driver.stop()
    with pytest.raises(KafkaError):
        await waiting
    listener = Recorder()
    again = a_driver(files)
    await again.start(listener)
    await again.wait_for_commit(2)
    assert listener.records == []
    await again.stop()
