"""● A whole cluster in one process, from a seed: the real `Node` on simulated time, network and disk, under clients and faults.

    result = Simulation(seed=7, rounds=3).run()
    result.violations          what went wrong, in words; empty when nothing did
    result.digest              the same for the same seed, in every process

In a round clients work for some minutes while faults strike.  Then all is calm: every client reads everything from the start, and the
checker compares what all clients were told.  Logs, metadata and producer ids live on from round to round; topics are deleted at the end of
their round.
"""

import asyncio
import gc
import logging
import random
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from moldau.metadata.formatting.storage import FormatRequest, format_storage
from moldau.raft.voters import Address
from moldau.server.node.config import NodeConfig
from moldau.server.node.node import Node
from moldau.server.node.outside import Outside
from moldau.testing.checker import History, check
from moldau.testing.clock import SimClock
from moldau.testing.files import Fault, MemoryFiles
from moldau.testing.loop import Machine, SimLoop, Stuck
from moldau.testing.network import SimNetwork, Weather
from moldau.testing.trace import Trace
from proof.cluster.workload import Client, Notes
from proof.groups.clients import GROUP_PROPERTIES, GROUPS, MEMBERS_A_GROUP, GroupClient, Groups
from proof.transactions.audit import Auditor
from proof.transactions.clients import COPIERS, HANGS_AFTER_S, TRANSACTION_PROPERTIES, Copier, Transactions

BROKER: Final = "broker"
PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
FOLDER: Final = "/data"
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
CLIENTS: Final = 4
ROUND_S: Final = 120.0
CALM_S: Final = 60.0
BETWEEN_FAULTS_S: Final = 8.0
SLOW_MS: Final = 3000
LONGEST_FAULT_S: Final = 12.0
BETWEEN_RESETS_S: Final = 0.03
LARGEST_SKEW_MS: Final = 3_000_000
START_WITHIN_S: Final = 60.0
STOP_WITHIN_S: Final = 60.0
FAULTS: Final = ("kill", "power", "power", "power_while_starting", "restart", "reset", "flaky", "flaky", "cut", "slow_disk", "clock_jump")

PROPERTIES: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": f"{BROKER}:{CONTROLLER_PORT}",
    "listeners": f"PLAINTEXT://{BROKER}:{PORT},CONTROLLER://{BROKER}:{CONTROLLER_PORT}",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "log.dirs": FOLDER,
    "auto.create.topics.enable": "false",
    "log.roll.ms": "20000",
    "log.index.interval.bytes": "512",
    "offsets.topic.replication.factor": "1",
    **GROUP_PROPERTIES,
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    **TRANSACTION_PROPERTIES,
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


@dataclass(slots=True)
class Result:
    """The result of one seed."""

    seed: int
    digest: str = ""
    events: int = 0
    virtual_s: float = 0
    violations: list[str] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)


class Simulation:
    """See the module.  `keep_trace` keeps every event, so that the place is found at which two runs part."""

    def __init__(
        self,
        seed: int,
        *,
        rounds: int = 1,
        properties: Mapping[str, str] | None = None,
        keep_trace: bool = False,
        verbose: bool = False,
        on_round: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.seed = seed
        self.verbose = verbose
        self._on_round = on_round
        self.rounds = rounds
        self.choice = random.Random(seed)
        self.loop = SimLoop(Trace(keep=keep_trace))
        self.network = SimNetwork(self.loop, self.choice.getrandbits(64), _weather(self.choice))
        self._usual_slow_ms = self.choice.choice((1, 5, 30))
        self.files = MemoryFiles(seed=self.choice.getrandbits(64), slow_ms=self._usual_slow_ms, hook=self._note_call)
        self.config = NodeConfig.parse({**PROPERTIES, **(properties or {})})
        self.notes = Notes()
        self.result = Result(seed)
        self.node: Node | None = None
        """None while it is starting."""
        self._serving: asyncio.Task[None] | None = None
        self.clock = SimClock(self.loop)
        self.machine = Machine(BROKER)
        self._dead_files: list[MemoryFiles] = []
        self._clients: list[tuple[Machine, Client]] = []
        self._groups = Groups(self.notes)
        self._members: list[tuple[Machine, GroupClient]] = []
        self._transactions = Transactions(self.notes)
        self._transactional: list[tuple[Machine, Copier | Auditor]] = []

    def run(self) -> Result:
        """Run all rounds, or up to the first violation."""
        if not self.verbose:
            logging.disable()  # a broker that is killed over and over logs thousands of lines
        gc.collect()
        gc.disable()  # the `finally`s of a dead machine's coroutines must not run at a moment that depends on memory
        try:
            self.loop.run_until_complete(self._run())
        except Stuck as error:
            self.result.violations.append(f"stuck: {error}")
        result = self.result
        result.violations += [f"the loop caught {_words(failure)}" for failure in self.loop.failures]
        result.digest, result.events, result.virtual_s = self.loop.trace.digest, self.loop.trace.events, self.loop.time()
        self._clear_away()
        gc.enable()
        logging.disable(logging.NOTSET)
        return result

    def _clear_away(self) -> None:
        """End everything that is still alive, outside of any loop, so that it does not end in the middle of the next simulation."""
        usual, sys.unraisablehook = sys.unraisablehook, lambda _: None
        self.loop.kill(self.machine)
        self.loop.forget_the_dead()
        self.loop.close()
        self.node = None
        self._clients.clear()
        self._members.clear()
        self._transactional.clear()
        gc.collect()
        sys.unraisablehook = usual

    def _note_call(self, call: str, path: str) -> Fault | None:
        self.loop.trace.note(f"{call} {path}")
        return None

    async def _run(self) -> None:
        self._format()
        self._start_broker()
        for number in range(CLIENTS):
            machine = Machine(f"client-{number}")
            self.network.add(machine)
            choice = random.Random(self.choice.getrandbits(64))
            self._clients.append((machine, Client(number, self.network, (BROKER, PORT), self.notes, choice)))
        for number in range(MEMBERS_A_GROUP * len(GROUPS)):
            machine = Machine(f"member-{number}")
            self.network.add(machine)
            choice = random.Random(self.choice.getrandbits(64))
            self._members.append((machine, self._groups.add(number, self.network, (BROKER, PORT), choice)))
        for number in range(COPIERS + 1):
            machine = Machine(f"copier-{number}" if number < COPIERS else "auditor")
            self.network.add(machine)
            choice = random.Random(self.choice.getrandbits(64))
            self._transactional.append((machine, self._transactions.add(number, self.network, (BROKER, PORT), choice)))
        for number in range(self.rounds):
            self._on_round(f"seed {self.seed}: round {number + 1} of {self.rounds}, {self.loop.time():.0f} virtual seconds")
            await self._round()
            if self.result.violations:
                return

    def _format(self) -> None:
        request = FormatRequest(
            cluster_id=CLUSTER_ID,
            node_id=self.config.node_id,
            log_dirs=self.config.log_dirs,
            metadata_log_dir=self.config.metadata_log_dir,
            is_controller=True,
            has_static_voters=False,
            controller_address=Address("CONTROLLER", BROKER, CONTROLLER_PORT),
            standalone=True,
        )
        new_id = lambda: UUID(int=self.choice.getrandbits(128), version=4)  # noqa: E731
        format_storage(self.files, request, now_ms=self.clock.now_ms(), new_id=new_id, new_salt=lambda: self.choice.randbytes(16))
        self.files.sync_everything()

    # the broker's lives

    def _start_broker(self) -> None:
        self.machine = Machine(BROKER)
        self.network.revive(self.machine)
        self.notes.broker_life += 1
        self.node = None
        self._serving = self.loop.start(self.machine, self._serve(self.machine))

    async def _serve(self, machine: Machine) -> None:
        chance = random.Random(self.choice.getrandbits(64))
        outside = Outside(files=self.files, network=self.network, clock=self.clock, random=chance)
        try:
            async with asyncio.timeout(START_WITHIN_S):
                self.node = node = await Node.start(self.config, outside)
        except TimeoutError:
            self._violated(f"the broker did not start within {START_WITHIN_S:.0f} s")
        except Exception as error:
            if machine.is_alive:  # a dead machine's coroutines end with errors, too, when they are thrown away
                self._violated(f"the broker did not start: {_words(error)}")
        else:
            self.notes.done["broker start"] += 1
            failure = await node.failed
            self._violated(f"the broker gave up: {_words(failure)}")

    def _violated(self, text: str) -> None:
        self.result.violations.append(f"at {self.loop.time():.3f} s: {text}")

    def _crash(self, *, power: bool) -> None:
        self.loop.kill(self.machine)
        self.network.crash(self.machine, silently=power or self.choice.random() < 0.3)
        if power:
            self.notes.history.power_losses_ms.append(self.loop.time() * 1000)
            self._dead_files.append(self.files)
            self.files = self.files.crashed(self.choice)
            self.files.hook = self._note_call
        self.files.held_locks.clear()

    async def _stop_cleanly(self) -> None:
        stopping = self.loop.start(self.machine, self._end(self.node))
        try:
            async with asyncio.timeout(STOP_WITHIN_S):
                await asyncio.shield(stopping)
        except TimeoutError:
            self._violated(f"the broker did not stop within {STOP_WITHIN_S:.0f} s")
        except Exception as error:
            self._violated(f"the broker did not stop: {_words(error)}")
        self.loop.kill(self.machine)
        self.network.crash(self.machine, silently=False)

    async def _end(self, node: Node | None) -> None:
        """End a node as SIGTERM does: a node that is still starting gives up its start."""
        if node is not None:
            await node.stop()
        elif self._serving is not None:
            self._serving.cancel()
            await asyncio.gather(self._serving, return_exceptions=True)

    # faults

    async def _faults(self, until_s: float) -> None:
        while True:
            await asyncio.sleep(self.choice.expovariate(1 / BETWEEN_FAULTS_S))
            if self.loop.time() >= until_s:
                return
            kind = self.choice.choice(FAULTS)
            self.loop.trace.note(f"fault {kind}")
            self.notes.done[f"fault: {kind}"] += 1
            await getattr(self, f"_fault_{kind}")()

    def _a_while(self) -> float:
        return self.choice.choice((0.05, 1.0, LONGEST_FAULT_S)) * self.choice.random()

    async def _fault_kill(self) -> None:
        self._crash(power=False)
        await asyncio.sleep(self._a_while())
        self._start_broker()

    async def _fault_power(self) -> None:
        self._crash(power=True)
        await asyncio.sleep(self._a_while())
        self._start_broker()

    async def _fault_power_while_starting(self) -> None:
        await self._fault_power()
        await asyncio.sleep(self.choice.random() * 0.2)
        await self._fault_power()

    async def _fault_restart(self) -> None:
        await self._stop_cleanly()
        await asyncio.sleep(self._a_while())
        self._start_broker()

    async def _fault_reset(self) -> None:
        self.network.reset(BROKER, chance=0.7)

    async def _fault_flaky(self) -> None:
        """Break connections over and over, often between a request and its answer, so that clients retry."""
        until_s = self.loop.time() + self._a_while()
        while self.loop.time() < until_s:
            self.network.reset(BROKER, chance=0.5)
            await asyncio.sleep(self.choice.expovariate(1 / BETWEEN_RESETS_S))

    async def _fault_cut(self) -> None:
        machine, _ = self.choice.choice([*self._clients, *self._members, *self._transactional])
        one, other = self.choice.choice(((machine.host, BROKER), (BROKER, machine.host)))
        self.network.cut(one, other, both_ways=self.choice.random() < 0.5)
        await asyncio.sleep(self._a_while())
        self.network.heal()

    async def _fault_slow_disk(self) -> None:
        """Slow the disk down for a while in which other faults strike: a power failure takes what waits for a slow sync."""
        self.files.slow_ms = SLOW_MS
        self.loop.call_later(LONGEST_FAULT_S * self.choice.random(), self._disk_recovers)

    def _disk_recovers(self) -> None:
        self.files.slow_ms = self._usual_slow_ms

    async def _fault_clock_jump(self) -> None:
        # A skew stays within message.timestamp.after.max.ms, the time by which clients may be ahead.
        self.clock.skew_ms = self.choice.choice((-3_000_000, -500, 0, 500, LARGEST_SKEW_MS))

    # a round

    async def _round(self) -> None:
        auditor, _ = self._transactional[COPIERS]
        await self._within(
            self.loop.start(auditor, self._transactions.prepare()), self.loop.time() + START_WITHIN_S, "nothing to copy was written"
        )
        end_s = self.loop.time() + ROUND_S
        working = [self.loop.start(machine, client.run(end_s)) for machine, client in self._clients]
        self._groups.begin()
        grouped = [self.loop.start(machine, client.run()) for machine, client in self._members]
        copying = [self.loop.start(machine, self._transactions.run(client, end_s)) for machine, client in self._transactional]
        await self._faults(end_s)
        self._disk_recovers()
        # The wall clock decides a transaction's age: a transaction that began in the future would stay open until then.
        self.clock.skew_ms = LARGEST_SKEW_MS
        self._groups.calm_down()
        calm_s = self.loop.time() + CALM_S
        for number, work in enumerate(working):
            await self._within(work, calm_s, f"client {number} is still busy")
        readers = [self.loop.start(machine, client.read_everything(calm_s + CALM_S)) for machine, client in self._clients]
        for number, reader in enumerate(readers):
            if not await reader:
                self._violated(f"client {number} could not read everything within {CALM_S:.0f} s of calm")
        await self._check_groups(grouped)
        await self._check_transactions(copying)
        machine, client = self._clients[0]
        await self._within(self.loop.start(machine, self._check_topics(client)), self.loop.time() + CALM_S, "topics cannot be described")
        self.result.violations += [str(anomaly) for anomaly in check(self.notes.history)]
        self.result.violations += self.notes.violations
        self.result.done = dict(self.notes.done)
        if not self.result.violations:
            await self._within(self.loop.start(machine, client.delete_topics()), self.loop.time() + CALM_S, "topics cannot be deleted")
        self.notes.history = History()
        self._dead_files.clear()
        gc.collect()

    async def _check_groups(self, grouped: "list[asyncio.Task[None]]") -> None:
        """Check that every group settles, every member leaves, and every committed offset is there."""
        until_s = self.loop.time() + CALM_S
        while (wrong := self._groups.unsettled(self.loop.time() * 1000)) and self.loop.time() < until_s:  # noqa: ASYNC110  what settles is what clients know
            await asyncio.sleep(1)
        if wrong:
            self._violated(f"groups are not settled {CALM_S:.0f} s after the last fault: {wrong}")
        self._groups.leave()
        for number, work in enumerate(grouped):
            await self._within(work, self.loop.time() + CALM_S, f"member {number} could not leave")
        machine, client = self._members[0]
        for group in GROUPS:
            if not await self.loop.start(machine, client.fetch_all(group)):
                self._violated(f"offsets of {group} could not be fetched")
        self.result.violations += self._groups.take_violations()

    async def _check_transactions(self, copying: "list[asyncio.Task[None]]") -> None:
        """Wait until all clients have ended and open transactions have timed out.  Then compare outputs, offsets and what readers saw."""
        for number, work in enumerate(copying):
            await self._within(work, self.loop.time() + CALM_S, f"transactional client {number} is still busy")
        machine, _ = self._transactional[COPIERS]
        checking = self.loop.start(machine, self._transactions.find_violations(self.loop.time() + HANGS_AFTER_S))
        await self._within(checking, self.loop.time() + CALM_S, "what transactions wrote cannot be read")
        if checking.done() and checking.exception() is None:
            self.result.violations += checking.result()

    async def _within(self, work: "asyncio.Task[Any]", until_s: float, otherwise: str) -> None:
        try:
            async with asyncio.timeout_at(until_s):
                await asyncio.shield(work)
        except TimeoutError:
            self._violated(f"{otherwise} {CALM_S:.0f} s after the last fault")
        except Exception as error:
            self._violated(f"a client broke: {_words(error)}")

    async def _check_topics(self, client: Client) -> None:
        missing = await client.missing_topics()
        if missing:
            self._violated(f"topics that were created are gone: {missing}")


def _weather(choice: random.Random) -> Weather:
    return Weather(
        max_delay_s=choice.choice((0.001, 0.005, 0.05)),
        long_delay_s=choice.choice((0.1, 1.0)),
        chunk_bytes=choice.choice((100, 1500, 65536)),
        bytes_per_s=choice.choice((1e6, 1e8)),
    )


def _words(error: object) -> str:
    if isinstance(error, BaseException):
        return "".join(traceback.format_exception(error)).strip()
    return str(error)
