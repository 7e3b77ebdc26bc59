"""● N real nodes in one process: the whole `Node` that `moldau serve` runs, N times, on one loop, each with a disk and a clock of its own.

    fleet = Fleet(loop, Random(7), SHAPES[0])
    fleet.format(); fleet.start(1); fleet.kill(1, with_power=True)

A machine that is killed stops between two callbacks, without any clean-up.  Everything that chance decides comes from one `Random`.
"""

import asyncio
import errno
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from unittest.mock import patch
from uuid import UUID

from moldau.errors import KafkaError
from moldau.metadata.formatting.storage import FormatRequest, format_storage
from moldau.raft.voters import Address
from moldau.server.node.broker_server import BrokerServer
from moldau.server.node.config import NodeConfig
from moldau.server.node.folders import StartRefused
from moldau.server.node.node import Node
from moldau.server.node.outside import Outside
from moldau.server.node.shared_server import SharedServer
from moldau.testing.clock import SimClock
from moldau.testing.files import Fault, MemoryFiles
from moldau.testing.loop import Machine, SimLoop, current_machine
from moldau.testing.network import SimNetwork, Weather
from moldau.types import uuid_to_text

PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
FOLDERS: Final = ("/data", "/more")
"""The log directories of a node, each on a disk of its own.  The first one has the metadata log; some fleets have no other."""
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
FIRST_CONTROLLER: Final = 101
FAILING_CALLS: Final[tuple[tuple[str, ...], ...]] = (("pwrite", "sync", "sync_dir", "rename"), ("sync", "sync_dir"))
"""The calls that a broken disk lets fail.  Mostly the page cache takes a write, and only the sync tells."""
ENDS_WITHIN_S: Final = 60.0

PROPERTIES: Final[Mapping[str, str]] = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "700",
    "controller.quorum.election.timeout.ms": "400",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.backoff.max.ms": "300",
    "controller.quorum.request.timeout.ms": "1000",
    "metadata.log.max.record.bytes.between.snapshots": "6000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "700",
    "group.consumer.heartbeat.interval.ms": "700",
    "group.share.initialize.retry.interval.ms": "2000",
    "group.share.min.session.timeout.ms": "6000",
    "group.share.min.heartbeat.interval.ms": "700",
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "400",
    "replica.fetch.backoff.ms": "200",
}

COMPACTING: Final[Mapping[str, str]] = {
    "log.roll.ms": "1500",
    "log.cleaner.backoff.ms": "700",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
"""Properties under which the logs of coordinators are compacted within a life."""


class Shape(NamedTuple):
    """The nodes of a fleet.  In a shape without controllers of their own, each broker is a controller, too."""

    brokers: int
    controllers: int

    def __str__(self) -> str:
        return f"{self.brokers}+{self.controllers}" if self.controllers else f"{self.brokers} combined"

    @property
    def broker_ids(self) -> list[int]:
        return list(range(1, self.brokers + 1))

    @property
    def controller_ids(self) -> list[int]:
        return list(range(FIRST_CONTROLLER, FIRST_CONTROLLER + self.controllers)) or self.broker_ids


SHAPES: Final = (Shape(3, 0), Shape(3, 3), Shape(5, 0))


def host_of(node_id: int) -> str:
    """The address of a node.  It is an IP address because envelopes carry clients' addresses as bytes."""
    return f"10.0.0.{node_id}"


def new_id(chance: random.Random) -> UUID:
    return UUID(int=chance.getrandbits(128), version=4)


class Member:
    """One node through all its lives."""

    def __init__(self, fleet: "Fleet", node_id: int) -> None:
        self.fleet: Final = fleet
        self.id: Final = node_id
        self.host: Final = host_of(node_id)
        self.is_controller: Final = node_id in fleet.shape.controller_ids
        self.is_broker: Final = node_id in fleet.shape.broker_ids
        self.config: Final = NodeConfig.parse({**PROPERTIES, **fleet.properties, **self._own_properties()})
        self.clock: Final = SimClock(fleet.loop)
        self.files = self.new_disk()
        self.directory_id = new_id(fleet.chance)
        """The id of the folder with the metadata log."""
        self.machine = Machine(self.host)
        self.life = 0
        self.is_up = False
        self.is_told_to_stop = False
        self.node: Node | None = None
        """The node once it has started."""
        self.shared: SharedServer | None = None
        """The node's server of the quorum, once it takes part."""
        self.broker: BrokerServer | None = None
        self.failing: frozenset[str] = frozenset()
        """The folders whose disk fails."""
        self._failing_calls = FAILING_CALLS[0]
        self.is_swapped = False

    def __repr__(self) -> str:
        return f"node {self.id}"

    @property
    def disk_fails(self) -> bool:
        return bool(self.failing)

    def _own_properties(self) -> dict[str, str]:
        shape = self.fleet.shape
        listeners = [f"PLAINTEXT://{self.host}:{PORT}"] * self.is_broker + [
            f"CONTROLLER://{self.host}:{CONTROLLER_PORT}"
        ] * self.is_controller
        roles = ["broker"] * self.is_broker + ["controller"] * self.is_controller
        return {
            **({"controller.quorum.auto.join.enable": "true"} if self.is_controller else {}),
            "process.roles": ",".join(roles),
            "log.dirs": ",".join(self.fleet.folders),
            "log.flush.policy": self.fleet.flush_policy,
            "node.id": str(self.id),
            "listeners": ",".join(listeners),
            "controller.quorum.bootstrap.servers": ",".join(f"{host_of(one)}:{CONTROLLER_PORT}" for one in shape.controller_ids),
        }

    def replace_disk(self) -> None:
        """Take an empty disk under another directory id.  It works, whatever the old one did."""
        self.files = self.new_disk()
        self.failing = frozenset()
        self.directory_id = new_id(self.fleet.chance)

    def new_disk(self) -> MemoryFiles:
        files = MemoryFiles(seed=self.fleet.chance.getrandbits(32), slow_ms=self.fleet.usual_slow_ms)
        files.hook = self._strike
        return files

    def _strike(self, call: str, path: str) -> Fault | None:
        is_failing = call in self._failing_calls and any(path == folder or path.startswith(f"{folder}/") for folder in self.failing)
        return Fault(errno.EIO) if is_failing else None

    def fail_disks(self, folders: Iterable[str]) -> None:
        """Let the disks of these folders fail until `failing` is empty again."""
        self.failing = frozenset(folders)
        self._failing_calls = self.fleet.chance.choice(FAILING_CALLS)

    def format(self, *, is_first: bool) -> None:
        """Format the disk.  With `is_first` all nodes are formatted together; a later format makes a node that no other node knows."""
        voters = [self.fleet.members[one] for one in self.fleet.shape.controller_ids]
        initial = ",".join(f"{one.id}@{one.host}:{CONTROLLER_PORT}:{uuid_to_text(one.directory_id)}" for one in voters)
        request = FormatRequest(
            cluster_id=CLUSTER_ID,
            node_id=self.id,
            log_dirs=self.config.log_dirs,
            metadata_log_dir=self.config.metadata_log_dir,
            is_controller=self.is_controller,
            has_static_voters=False,
            controller_address=Address("CONTROLLER", self.host, CONTROLLER_PORT) if self.is_controller else None,
            initial_controllers=initial if self.is_controller and is_first else None,
            no_initial_controllers=not (self.is_controller and is_first),
            features=self.fleet.features,
        )
        chance = self.fleet.chance
        ids = [self.directory_id, *(new_id(chance) for _ in self.config.log_dirs[1:])]
        format_storage(self.files, request, now_ms=self.clock.now_ms(), new_id=lambda: ids.pop(0), new_salt=lambda: chance.randbytes(16))
        self.files.sync_everything()


class Fleet:
    """See the module."""

    def __init__(
        self,
        loop: SimLoop,
        chance: random.Random,
        shape: Shape,
        *,
        flush_policy: str = "ack",
        features: Sequence[str] = (),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`flush_policy`: "ack", or "os" where the life spares records that are in page caches only: see `life`.  `features`: levels
        other than those of the release, as name=level.  `properties`: of every node, beside those of every fleet.
        """
        self.properties: Final = properties
        self.loop: Final = loop
        self.chance: Final = chance
        self.shape: Final = shape
        self.usual_slow_ms: Final = chance.choice((1, 5, 30))
        self.folders: Final = FOLDERS[: chance.choice((1, 2))]
        self.flush_policy: Final = flush_policy
        self.features: Final = features
        self.network: Final = SimNetwork(loop, chance.getrandbits(64), a_weather(chance), kernels_answer=True)
        self.members: Final[dict[int, Member]] = {}
        for node_id in dict.fromkeys((*shape.broker_ids, *shape.controller_ids)):
            self.members[node_id] = Member(self, node_id)
        self.on_wrong: Callable[[str], None] = lambda text: None
        self.on_power_lost: Callable[[], None] = lambda: None
        self.starts = 0

    def format(self) -> None:
        for member in self.members.values():
            member.format(is_first=True)

    @property
    def brokers(self) -> list[Member]:
        return [self.members[one] for one in self.shape.broker_ids]

    # lives

    def start(self, node_id: int) -> None:
        member = self.members[node_id]
        assert not member.is_up, member
        member.machine = Machine(member.host)
        self.network.revive(member.machine)
        member.life += 1
        member.is_up, member.is_told_to_stop = True, False
        member.node = member.shared = member.broker = None
        self.loop.trace.note(f"start {node_id}")
        self.loop.start(member.machine, self._live(member))

    async def _live(self, member: Member) -> None:
        chance = random.Random(self.chance.getrandbits(64))
        outside = Outside(files=member.files, network=self.network, clock=member.clock, random=chance)
        machine = member.machine
        try:
            member.node = await Node.start(member.config, outside)
            self.starts += 1
            failure: BaseException = await outside.failed
            self._judge(member, machine, failure)
            if member.is_told_to_stop:  # a process stops its node once
                return
            member.is_told_to_stop = True
            await self._stop_after_failure(member, machine)
        except Exception as error:
            self._judge(member, machine, error)
        self.loop.call_soon(self._gave_up, member, machine)

    def _judge(self, member: Member, machine: Machine, failure: BaseException) -> None:
        if not machine.is_alive or member.machine is not machine:
            return
        is_refused = isinstance(failure, StartRefused)
        if is_refused and member.is_swapped:
            self.loop.trace.note(f"refused {member.id}")
        elif not (isinstance(failure, OSError) or (member.disk_fails and isinstance(failure, KafkaError | StartRefused))):
            self.on_wrong(f"{member} gave up: {failure!r}")

    async def _stop_after_failure(self, member: Member, machine: Machine) -> None:
        """Stop like `moldau.server.node.process.run`: a process whose disk failed still hands over what it can."""
        assert member.node is not None
        try:
            async with asyncio.timeout(ENDS_WITHIN_S):
                await member.node.stop()
        except TimeoutError:
            self.on_wrong(f"{member} has not ended {ENDS_WITHIN_S:.0f} s after its disk failed")
        except Exception as error:
            if machine.is_alive:  # a machine that was killed in the middle cannot end its stop
                self.on_wrong(f"{member} could not stop: {error!r}")

    def _gave_up(self, member: Member, machine: Machine) -> None:
        """Give up like a process that exits: its disk failed, or it must not start on that disk."""
        if member.is_up and member.machine is machine:
            self.kill(member.id, with_power=self.flush_policy == "ack")  # data that a failed sync left in doubt may be gone

    def kill(self, node_id: int, *, with_power: bool) -> None:
        member = self.members[node_id]
        if not member.is_up:
            return
        self.loop.kill(member.machine)
        self.network.crash(member.machine, silently=with_power or self.chance.random() < 0.3)
        member.is_up = False
        member.node = member.shared = member.broker = None
        if with_power:
            member.files.crash(self.chance)
            self.on_power_lost()
        member.files.held_locks.clear()

    async def stop(self, node_id: int, *, within_s: float) -> None:
        """Stop as SIGTERM does: a node that is still starting is killed."""
        member = self.members[node_id]
        machine = member.machine
        if member.is_up and member.node is not None and not member.is_told_to_stop:
            member.is_told_to_stop = True
            stopping = self.loop.start(machine, member.node.stop())
            done, _ = await asyncio.wait([stopping], timeout=within_s)
            if not machine.is_alive:
                return
            if done and stopping.exception() is not None:
                self.on_wrong(f"{member} could not stop: {stopping.exception()!r}")
        if machine.is_alive and member.machine is machine:
            self.kill(node_id, with_power=False)


@contextmanager
def known_while_starting(fleet: Fleet) -> Iterator[None]:
    """Tell the fleet of a node's parts as they begin, because nodes vote and replicate before `Node.start` returns."""
    start_shared, start_broker = SharedServer.start, BrokerServer.start

    def note(part: str, value: Any) -> None:
        machine = current_machine()
        for member in fleet.members.values():
            if member.machine is machine:
                setattr(member, part, value)

    async def shared(self: SharedServer) -> None:
        note("shared", self)
        await start_shared(self)

    async def broker(self: BrokerServer) -> None:
        note("broker", self)
        await start_broker(self)

    with patch.object(SharedServer, "start", shared), patch.object(BrokerServer, "start", broker):
        yield


def a_weather(chance: random.Random) -> Weather:
    return Weather(
        max_delay_s=chance.choice((0.001, 0.005, 0.02)),
        long_delay_s=chance.choice((0.05, 0.5)),
        chunk_bytes=chance.choice((1500, 65536)),
        bytes_per_s=chance.choice((1e6, 1e8)),
    )
