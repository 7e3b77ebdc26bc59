"""Every truncation and every flipped bit of every small file beside the metadata log, at the driver that reads them."""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from uuid import UUID

import pytest

from moldau.raft.config import QuorumConfig
from moldau.raft.driver import RaftDriver
from moldau.raft.listener import CommittedBatch
from moldau.raft.roles import CorruptQuorumState
from moldau.raft.snapshots import CorruptSnapshot
from moldau.raft.voters import Address, Voter, VoterSet
from moldau.storage.epochs import CorruptCheckpoint
from moldau.storage.recovery import LogDamaged
from moldau.testing.files import MemoryFiles
from moldau.types import OffsetAndEpoch
from proof.storage.damaged_folder import Damage, kind_of, paths_in

FOLDER = "/data/__cluster_metadata-0"
DIRECTORY = UUID(int=77)
ME = VoterSet([Voter(1, DIRECTORY, (Address("CONTROLLER", "localhost", 9093),))])
REFUSALS = (CorruptQuorumState, CorruptSnapshot, CorruptCheckpoint, LogDamaged)
LIVES = 3
"""Each life is an epoch."""


class StoppedClock:
    def now_ms(self) -> int:
        return 1_000_000

    def monotonic_ms(self) -> int:
        return 0


class Listener:
    def __init__(self) -> None:
        self.records: list[bytes] = []

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Sequence[bytes]) -> None:
        self.records = [b"%d-%d" % snapshot_id, *records]

    def committed(self, batches: Sequence[CommittedBatch]) -> None:
        self.records += [bytes(record) for batch in batches for record in batch.records]

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        pass

    def caught_up(self) -> None:
        pass


async def a_life(files: MemoryFiles, propose: Sequence[bytes] = (), *, snapshot: bool = False) -> list[bytes]:
    """The records that the listener was told by the time that the driver leads and has committed all."""
    driver = RaftDriver(
        files=files,
        clock=StoppedClock(),
        directory="/data",
        node_id=1,
        directory_id=DIRECTORY,
        config=QuorumConfig.load({}),
        static_voters=ME,
    )
    listener = Listener()
    await driver.start(listener)
    try:
        async with asyncio.timeout(60):
            for _ in range(100):
                if not driver.is_leader:
                    await asyncio.sleep(0)
            for record in propose:
                await driver.wait_for_commit(driver.propose([record]))
            await driver.wait_for_commit(driver.log.log_end_offset)
            if snapshot:
                await driver.write_snapshot(OffsetAndEpoch(driver.high_watermark, driver.node.epoch), 5, lambda: listener.records)
    finally:
        await driver.stop()
    return listener.records


async def lived_in(*, snapshot_in: int | None) -> MemoryFiles:
    files = MemoryFiles()
    for life in range(LIVES):
        await a_life(files, [b"%d-%d" % (life, number) for number in range(3)], snapshot=life == snapshot_in)
        files.sync_everything()
        files = files.crashed(random.Random(0))
    return files


@pytest.mark.slow
@pytest.mark.parametrize("snapshot_in", [None, 1])
async def test_what_was_committed_is_there_or_the_start_is_refused_by_name(snapshot_in: int | None) -> None:
    files = await lived_in(snapshot_in=snapshot_in)
    expected = await a_life(files.crashed(random.Random(0)))
    assert expected[-1] == b"2-2"
    outcomes: Counter[str] = Counter()
    for path in paths_in(files, FOLDER):
        if path.endswith(".log"):
            continue
        size = files.size(path)
        damages = [Damage(path, cut, is_cut=True) for cut in range(size)] + [Damage(path, bit, is_cut=False) for bit in range(size * 8)]
        for damage in damages:
            damaged = files.crashed(random.Random(0))
            damage.apply(damaged)
            log = damaged.read(f"{FOLDER}/{0:020d}.log")
            refusal = ""
            try:
                found = await a_life(damaged)
            except REFUSALS as error:
                refusal = str(error)
            if not refusal:
                assert found == expected, damage
            else:
                assert path.rpartition("/")[2] in refusal and damaged.read(f"{FOLDER}/{0:020d}.log") == log, damage
            outcomes[kind_of(path) + (": refused" if refusal else "")] += 1
    assert outcomes["quorum-state: refused"] > 1000 and outcomes["leader-epoch-checkpoint: refused"] > 100
    assert (outcomes["*.checkpoint: refused"] > 1000) == (snapshot_in is not None)
    assert {kind for kind in outcomes if kind.startswith("*") and kind.endswith("refused")} <= {"*.checkpoint: refused"}
