"""● A quorum of `RaftDriver`s in one process over real TCP, each behind a door and on files of its own.

quorum = Quorum(SystemNetwork(), voters=3)
await quorum.start()
leader = await quorum.leader()
await leader.commit(b"a")
await quorum.kill(leader)                # from now on it syncs, tells and closes nothing
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from uuid import UUID

from moldau.clock import Clock, SystemClock
from moldau.net.transport import Network
from moldau.raft.config import QuorumConfig
from moldau.raft.driver import RaftDriver
from moldau.raft.listener import CommittedBatch
from moldau.raft.snapshots import build_snapshot, snapshot_name
from moldau.raft.voters import Address, Voter, VoterSet
from moldau.storage.files import Files
from moldau.testing.files import MemoryFiles
from moldau.types import OffsetAndEpoch, uuid_to_text
from proof.raft.door import Door

CLUSTER_ID = "raft-proof-cluster-id0"
LISTENER = "CONTROLLER"
HOST = "127.0.0.1"
WITHIN_S = 20.0
QUICK = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "600",
    "controller.quorum.election.backoff.max.ms": "200",
}
"""Time-outs for tests on a quiet machine in one process."""


def directory_of(number: int) -> UUID:
    return UUID(int=(number << 64) + 7)


class Told:
    """A listener that keeps the records that it is told of, and checks that they come once and in order."""

    def __init__(self) -> None:
        self.records: list[bytes] = []
        self.next_offset = 0
        self.leaders: list[tuple[int, int]] = []
        self.is_caught_up = False
        self.changed = asyncio.Event()

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Sequence[bytes]) -> None:
        assert snapshot_id.offset >= self.next_offset
        self.records = [bytes(one) for one in records]
        self.next_offset = snapshot_id.offset
        self.changed.set()

    def committed(self, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            assert batch.base_offset == self.next_offset, (batch.base_offset, self.next_offset)
            self.next_offset = batch.next_offset
            self.records += map(bytes, batch.records)
        self.changed.set()

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        self.leaders.append((leader_id, epoch))
        self.changed.set()

    def caught_up(self) -> None:
        assert not self.is_caught_up
        self.is_caught_up = True


class Member:
    """One replica: the files that outlive a crash, and the driver of its present life."""

    def __init__(self, quorum: "Quorum", number: int, files: Files) -> None:
        self.quorum = quorum
        self.number = number
        self.files = files
        self.directory_id = directory_of(number)
        self.door = Door(quorum.network)
        self.port = 0
        self.told = Told()
        self.driver: RaftDriver | None = None
        self.failures: list[Exception] = []

    def __repr__(self) -> str:
        return f"Member({self.number})"

    @property
    def is_leader(self) -> bool:
        return self.driver is not None and self.driver.is_leader

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (Address(LISTENER, HOST, self.port),)

    async def start(self) -> None:
        quorum = self.quorum
        self.told = Told()
        self.driver = RaftDriver(
            files=self.files,
            clock=quorum.clock,
            directory=quorum.path(self.number),
            node_id=self.number,
            directory_id=self.directory_id,
            config=quorum.config,
            static_voters=quorum.static_voters,
            addresses=self.addresses,
            network=quorum.network,
            chance=Random(f"{quorum.seed} {self.number}"),
            cluster_id=quorum.cluster_id,
            listener_name=LISTENER,
            on_failure=self.failures.append,
        )
        await self.driver.start(self.told)
        self.door.driver = self.driver

    async def commit(self, *records: bytes) -> int:
        assert self.driver is not None
        end = self.driver.propose(records)
        await self.driver.wait_for_commit(end)
        return end


class Quorum:
    """See the module.  With `dynamic` it has kraft.version 1, with voters by id and directory."""

    def __init__(
        self,
        network: Network,
        *,
        voters: int = 3,
        observers: int = 0,
        dynamic: bool = True,
        properties: dict[str, str] | None = None,
        clock: Clock | None = None,
        seed: int = 0,
        files: Callable[[int], Files] = lambda _: MemoryFiles(),
        path: Callable[[int], str] = lambda _: "/data",
        others: Mapping[int, int] | None = None,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        """`others` are voters that other processes run on this machine, by id and port.  Their ids follow ours."""
        self.network = network
        self.clock = clock or SystemClock()
        self.seed = seed
        self.dynamic = dynamic
        self.path = path
        self.voter_ids = range(1, voters + 1)
        self.members = {number: Member(self, number, files(number)) for number in range(1, voters + observers + 1)}
        self._properties = {**QUICK, **(properties or {})}
        self.config = QuorumConfig.load(self._properties)
        self.static_voters: VoterSet | None = None
        self.others = dict(others or {})
        self.cluster_id = cluster_id

    @property
    def voters(self) -> VoterSet:
        chosen = [self.members[number] for number in self.voter_ids]
        ours = [Voter(one.number, one.directory_id, one.addresses) for one in chosen]
        theirs = [Voter(number, directory_of(number), (Address(LISTENER, HOST, port),)) for number, port in self.others.items()]
        return VoterSet([*ours, *theirs])

    @property
    def initial_controllers(self) -> str:
        """The voters in the form of `kafka-storage format --initial-controllers`."""
        found = ((one.id, one.addresses[0].port, uuid_to_text(one.directory_id)) for one in self.voters.by_id.values())
        return ",".join(f"{number}@{HOST}:{port}:{directory}" for number, port, directory in found)

    async def open(self) -> None:
        for member in self.members.values():
            member.port = await member.door.open(HOST, 0)

    async def start(self) -> None:
        if not any(member.port for member in self.members.values()):
            await self.open()
        ports = [self.members[number].port for number in self.voter_ids] + list(self.others.values())
        servers = ",".join(f"{HOST}:{port}" for port in ports)
        self.config = QuorumConfig.load({**self._properties, "controller.quorum.bootstrap.servers": servers})
        if not self.dynamic:
            entries = [f"{number}@127.0.0.1:{self.members[number].port}" for number in self.voter_ids]
            self.static_voters = VoterSet.from_option(entries, LISTENER)
        for member in self.members.values():
            if self.dynamic and member.number in self.voter_ids:
                self._format(member)
            await member.start()

    def _format(self, member: Member) -> None:
        home = f"{self.path(member.number)}/__cluster_metadata-0"
        member.files.mkdir(home)
        parts = build_snapshot([], epoch=0, now_ms=0, last_contained_log_timestamp=0, kraft_version=1, voters=self.voters)
        member.files.write_atomically(f"{home}/{snapshot_name(OffsetAndEpoch(0, 0))}", b"".join(parts))

    async def leader(self, *, but: Sequence[Member] = ()) -> Member:
        """Wait for a leader and return it.  Members in `but` do not count."""
        found: list[Member] = []

        def is_there() -> bool:
            found[:] = [one for one in self.members.values() if one.is_leader and one not in but]
            return bool(found)

        await self.until(is_there)
        return max(found, key=lambda one: one.driver.node.epoch if one.driver is not None else -1)

    async def until(self, is_so: Callable[[], bool], *, within_s: float = WITHIN_S) -> None:
        async with asyncio.timeout(within_s):
            while not is_so():
                waits = [asyncio.ensure_future(one.told.changed.wait()) for one in self.members.values()]
                try:
                    await asyncio.wait(waits, timeout=0.2, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for wait in waits:
                        wait.cancel()
                for one in self.members.values():
                    one.told.changed.clear()

    async def kill(self, member: Member) -> None:
        """Kill as kill -9 does: the door shuts, nothing more is written or told.  The page cache stays."""
        driver, member.driver = member.driver, None
        await member.door.close()
        member.door.driver = None
        assert driver is not None
        await driver.abandon()

    async def revive(self, member: Member) -> None:
        member.door = Door(self.network)
        await member.door.open(HOST, member.port)
        await member.start()

    async def stop(self) -> None:
        for member in self.members.values():
            if member.driver is not None:
                await member.driver.stop()
        for member in self.members.values():
            await member.door.close()
