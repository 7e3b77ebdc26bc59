"""One quorum of our controllers and of Apache Kafka's: either kind leads, and all have the same log."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from moldau.metadata.image import encode_record
from moldau.metadata.records import FeatureLevelRecord, NoOpRecord
from moldau.net.sockets import SystemNetwork
from moldau.protocol.records.batch import batches
from moldau.raft.config import QuorumConfig
from moldau.testing.child import CLUSTER_ID
from proof.kafka.apache import ApacheController
from proof.raft.quorum import Quorum

pytestmark = pytest.mark.slow

KAFKAS_TIMEOUTS = {
    key: str(getattr(QuorumConfig.load({}), name))
    for key, name in (
        ("controller.quorum.election.timeout.ms", "election_timeout_ms"),
        ("controller.quorum.fetch.timeout.ms", "fetch_timeout_ms"),
        ("controller.quorum.election.backoff.max.ms", "election_backoff_max_ms"),
    )
}
FIRST = encode_record(FeatureLevelRecord(name="metadata.version", feature_level=30), 30)
"""Java's controllers read no log that does not begin with its metadata.version."""
NO_OP = encode_record(NoOpRecord(), 30)
MOVES = int(os.environ.get("MOLDAU_LEADERSHIP_MOVES", "3"))


class Mixed:
    """Three voters: the first `ours` of them are ours, the rest are Apache Kafka's."""

    def __init__(self, ours: int) -> None:
        self.java = {number: ApacheController(number) for number in range(ours + 1, 4)}
        ports = {number: one.controller_port for number, one in self.java.items()}
        self.quorum = Quorum(SystemNetwork(), voters=ours, properties=KAFKAS_TIMEOUTS, others=ports, cluster_id=CLUSTER_ID)

    async def start(self) -> None:
        await self.quorum.open()
        for one in self.java.values():
            one.voters = self.quorum.initial_controllers
            await asyncio.to_thread(one.prepare)
            one.launch()
        await self.quorum.start()

    async def stop(self) -> None:
        await self.quorum.stop()
        for one in self.java.values():
            await asyncio.to_thread(one.__exit__, None, None, None)

    def leader_id(self, *, but: int = -1) -> int:
        """The leader, as our node of the newest epoch knows it; -1 if it knows none or knows `but`."""
        nodes = [one.driver.node for one in self.quorum.members.values() if one.driver is not None]
        node = max(nodes, key=lambda one: one.epoch)
        return -1 if node.leader_id == but else node.leader_id

    async def leader(self, *, but: int = -1) -> int:
        """Waits for a leader that commits; returns its id."""
        await self.quorum.until(lambda: self.leader_id(but=but) > 0, within_s=60)
        number = self.leader_id(but=but)
        living = [one for one in self.quorum.members.values() if one.driver is not None]
        ends = [one.told.next_offset for one in living]
        if number in self.quorum.members:
            member = self.quorum.members[number]
            await self.quorum.until(lambda: member.is_leader, within_s=30)
            await member.commit(NO_OP if member.told.records else FIRST)
        await self.quorum.until(lambda: all(one.told.records for one in living), within_s=30)
        await self.quorum.until(lambda: all(one.told.next_offset > end for one, end in zip(living, ends, strict=True)), within_s=30)
        return number

    def pause(self, number: int) -> None:
        if number in self.java:
            os.kill(self.java[number].pid, signal.SIGSTOP)

    def resume(self, number: int) -> None:
        if number in self.java:
            os.kill(self.java[number].pid, signal.SIGCONT)


def log_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((folder / "__cluster_metadata-0").glob("*.log")))


def committed_part(log: bytes, committed: int) -> bytes:
    """The batches below an offset, byte for byte."""
    return log[: sum(header.size for _, header in batches(memoryview(log)) if header.next_offset <= committed)]


def end_of(log: bytes) -> int:
    return max((header.next_offset for _, header in batches(memoryview(log))), default=0)


@pytest.mark.parametrize("ours", [1, 2])
async def test_leadership_moves_between_ours_and_javas(ours: int) -> None:
    mixed = Mixed(ours)
    quorum = mixed.quorum
    try:
        await mixed.start()
        leader = await mixed.leader()
        seen = {leader}
        for move in range(MOVES * 4):
            if move >= MOVES and seen & set(mixed.java) and seen & set(quorum.members):
                break
            before, member = leader, quorum.members.get(leader)
            if member is not None:
                await quorum.kill(member)
                if ours == 1:
                    await asyncio.sleep(3)  # only our node shows us the quorum, and it is dead: Java elects meanwhile
                    await quorum.revive(member)
            else:
                mixed.pause(before)
            leader = await mixed.leader(but=before)
            seen.add(leader)
            if member is not None and member.driver is None:
                await quorum.revive(member)
            mixed.resume(before)
        assert seen & set(mixed.java) and seen & set(quorum.members), seen
        committed = min(one.told.next_offset for one in quorum.members.values())
        assert committed > 0
        home = "/data/__cluster_metadata-0/00000000000000000000.log"
        logs = [one.files.read(home) for one in quorum.members.values()] + [log_of(one.log_dir) for one in mixed.java.values()]
        assert len({committed_part(log, committed) for log in logs if end_of(log) >= committed}) == 1
        assert sum(end_of(log) >= committed for log in logs) >= 2
    finally:
        await mixed.stop()
