"""● Members of four clients in one group on a real broker; they are killed, paused and stopped at random times, and replaced.

    python -m proof.clients.mixed.run --broker moldau --way range --rounds 20 --seed 1
    python -m proof.clients.mixed.run --broker apache --way both

Meanwhile a producer writes to every partition.  In the end all members run in calm until the group has committed everything.  What has to
hold: `notes`.  The seed chooses clients, faults and times; processes run as fast as they run, so a seed does not repeat a run exactly.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from moldau import Admin, Consumer, NewTopic, Producer, TopicPartition
from moldau.clients.errors import BufferFull
from moldau.coordinator.group.records import GROUP_RECORDS, OffsetCommitKey, OffsetCommitValue
from moldau.testing.child import ChildProcess, NodeProcess
from moldau.testing.process import BrokerProcess
from proof.clients.mixed.member import HEARTBEAT_MS, SESSION_MS
from proof.clients.mixed.notes import Life, check
from proof.kafka.apache import ApacheKafka
from proof.metadata.oracle import compiled_command

PROPERTIES: Final = {
    "group.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "offsets.topic.num.partitions": "1",
}
WAYS: Final[Mapping[str, Mapping[str, Sequence[str]]]] = {
    "range": dict.fromkeys(("moldau", "java", "confluent", "aiokafka"), ("range",)),
    "roundrobin": dict.fromkeys(("moldau", "java", "confluent", "aiokafka"), ("roundrobin",)),
    "sticky": dict.fromkeys(("moldau", "java", "aiokafka"), ("sticky",)),
    "cooperative-sticky": dict.fromkeys(("moldau", "java", "confluent"), ("cooperative-sticky",)),
    "consumer": dict.fromkeys(("moldau", "java", "confluent"), ("consumer",)),
    "both": {**dict.fromkeys(("moldau", "java", "confluent"), ("range", "consumer")), "aiokafka": ("range",)},
}
"""How a group assigns, and by client what members may be started with.  librdkafka has no `sticky`, aiokafka only the classic protocol."""

PARTITIONS: Final = 12
RECORDS_A_SECOND: Final = 300
CALM_WITHIN_S: Final = 90.0
LOOKS_EVERY_S: Final = 0.25
JAVA_FLAGS: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m")


class MemberProcess(ChildProcess):
    """One life of a member.  Its output holds the notes, and what its client says of errors."""

    name = "a member"

    def __init__(self, directory: Path, client: str, arguments: Sequence[str]) -> None:
        super().__init__(directory)
        self.client = client
        self.arguments = arguments
        self.life = Life(f"{client} {directory.name} {' '.join(arguments[3:])}")

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}

    def command(self) -> Sequence[str]:
        if self.client != "java":
            return [sys.executable, "-m", "proof.clients.mixed.member", self.client, *self.arguments]
        source = Path(__file__).parent / "Member.java"
        return compiled_command(source, "moldau.oracle.Member", *self.arguments, flags=JAVA_FLAGS)

    def is_ready(self) -> bool:
        return True

    @property
    def is_member(self) -> bool:
        """Whether it has been told of an assignment."""
        return any(line.split()[1:2] == ["A"] for line in self.notes())

    def notes(self) -> list[str]:
        """Whole lines that are notes."""
        lines = self.log_text.split("\n")[:-1]
        return [line for line in lines if line[:1].isdigit() and line.split()[1:2] and line.split()[1] in "ARLGE"]

    def pause(self) -> None:
        self.life.paused_ns = self.life.paused_ns or time.monotonic_ns()
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)


@dataclass(slots=True)
class Report:
    way: str
    lives: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    records: int = 0
    handed: int = 0
    commits: int = 0
    ownerships: int = 0
    lost: int = 0
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lives = ", ".join(f"{count} {client}" for client, count in sorted(self.lives.items()))
        faults = ", ".join(f"{count} {fault}" for fault, count in sorted(self.faults.items()))
        return (
            f"{self.way}: lives {lives}; {faults}; {self.records:,} records, handed out {self.handed:,} times, "
            f"{self.ownerships:,} ownerships ({self.lost} times lost), {self.commits:,} commits; {len(self.violations)} violations"
        )


class MixedGroup:
    """One run; see the module.  `members`: how many of each client."""

    def __init__(self, bootstrap: str, folder: Path, *, way: str, rounds: int, members: int, seed: int) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.way = way
        self.rounds = rounds
        self.choice = random.Random(seed)
        self.topic = self.group = f"mixed-{way}-{seed}-{self.choice.getrandbits(32):x}"
        self.clients = [client for client in WAYS[way] for _ in range(members)]
        self.present: list[MemberProcess] = []
        self.past: list[MemberProcess] = []
        self.report = Report(way)
        self._is_writing = True

    async def run(self) -> Report:
        async with Admin(self.bootstrap) as admin:
            await admin.topics.create([NewTopic(self.topic, PARTITIONS, 1)])
            writing = asyncio.create_task(self._write())
            try:
                for client in self.clients:
                    self._launch(client)
                await self._all_have_joined()
                for _ in range(self.rounds):
                    await self._fault()
                self._is_writing = False
                await writing
                for one in list(self.present):
                    self._replace_if_ended(one)
                ends = await self._ends()
                await self._calm(admin, ends)
                end_ns = time.monotonic_ns()
                for one in self.present:
                    await self._stop(one)
                await self._is_empty(admin)
            finally:
                writing.cancel()
                for one in self.present:
                    one.kill()
            commits = await self._commits()
        lives = [one.life for one in (*self.past, *self.present)]
        for one in (*self.past, *self.present):
            one.life.lines = one.notes()
        self.report.violations += check(lives, ends, commits, end_ns=end_ns)
        self.report.records = sum(ends.values())
        self.report.handed = sum(one.last + 1 - one.first for life in lives for one in life.handed)
        self.report.ownerships = sum(len(life.holds) for life in lives)
        self.report.lost = sum(life.lost for life in lives)
        self.report.commits = sum(map(len, commits.values()))
        return self.report

    def _launch(self, client: str) -> None:
        protocol = self.choice.choice(WAYS[self.way][client])
        commits = self.choice.choice(("auto", "manual"))
        number = sum(self.report.lives.values())
        one = MemberProcess(self.folder / f"{number:03}", client, [self.bootstrap, self.topic, self.group, protocol, commits])
        one.prepare()
        one.launch()
        self.present.append(one)
        self.report.lives[client] += 1

    async def _all_have_joined(self) -> None:
        until_s = time.monotonic() + CALM_WITHIN_S
        while not all(one.is_member for one in self.present):
            for one in self.present:
                assert one.process is not None
                assert one.process.poll() is None, one.log_text
            assert time.monotonic() < until_s, f"not all have joined: {[one.life.name for one in self.present if not one.is_member]}"
            await asyncio.sleep(LOOKS_EVERY_S)

    async def _fault(self) -> None:
        await asyncio.sleep(self.choice.uniform(0.3, 4.0))
        for one in list(self.present):
            self._replace_if_ended(one)
        one = self.choice.choice(self.present)
        fault = self.choice.choices(("killed", "paused", "stopped"), (6, 2, 2))[0]
        self.report.faults[fault] += 1
        if fault == "paused":
            one.pause()
            await asyncio.sleep(self.choice.uniform(0.5, 1.6) * SESSION_MS / 1000)
            one.resume()
            return
        if fault == "killed":
            one.life.gone_ns = time.monotonic_ns()
            one.kill()
        else:
            await self._stop(one)
        self.present.remove(one)
        self.past.append(one)
        await asyncio.sleep(self.choice.uniform(0.0, 3.0))
        self._launch(one.client)

    def _replace_if_ended(self, one: MemberProcess) -> None:
        """A client of the consumer protocol may not go on after a pause in which the last such members left and the group became classic.

        Java's client takes the answer for fatal.  Source: GroupMetadataManager.consumerGroup, ConsumerHeartbeatRequestManager.
        """
        assert one.process is not None
        if one.process.poll() is None:
            return
        if one.life.paused_ns and "is not a consumer group" in one.log_text:
            self.report.faults["ended by its client after a pause"] += 1
        else:
            self.report.violations.append(f"{one.life.name} ended by itself: {one.log_text[-2000:]}")
        one.life.gone_ns = time.monotonic_ns()
        one.kill()
        self.present.remove(one)
        self.past.append(one)
        self._launch(one.client)

    async def _stop(self, one: MemberProcess) -> None:
        """SIGTERM: the member leaves, and ends by itself."""
        code = await asyncio.to_thread(one.stop)
        notes = one.notes()
        has_left = code in (0, 143) and any(line.split()[1] == "E" for line in notes)
        if notes and not has_left:  # without notes it was still starting
            self.report.violations.append(f"{one.life.name} did not leave: it ended with {code}: {one.log_text[-1000:]}")

    async def _write(self) -> None:
        async with Producer(self.bootstrap) as producer:
            number = 0
            while self._is_writing:
                for _ in range(RECORDS_A_SECOND // 10):
                    try:
                        producer.send(self.topic, b"%d" % number, partition=number % PARTITIONS)
                    except BufferFull:
                        await producer.drain()
                    number += 1
                await asyncio.sleep(0.1)

    async def _ends(self) -> dict[int, int]:
        async with Consumer(self.bootstrap) as consumer:
            found = await consumer.end_offsets([TopicPartition(self.topic, index) for index in range(PARTITIONS)])
        return {one.partition: end for one, end in found.items()}

    async def _calm(self, admin: Admin, ends: Mapping[int, int]) -> None:
        until_s = time.monotonic() + CALM_WITHIN_S
        while True:
            offsets = await admin.groups.offsets(self.group)
            if {one.partition: found.offset for one, found in offsets.items()} == ends:
                return
            if time.monotonic() > until_s:
                self.report.violations.append(f"not settled after {CALM_WITHIN_S:.0f} s of calm: {offsets}, {ends}")
                return
            await asyncio.sleep(LOOKS_EVERY_S)

    async def _is_empty(self, admin: Admin) -> None:
        """Whoever was killed last may be in the group for a session yet."""
        until_s = time.monotonic() + 2 * SESSION_MS / 1000
        while (described := await admin.groups.describe(self.group)).members:
            if time.monotonic() > until_s:
                self.report.violations.append(f"the group has members after all have left: {described.members}")
                return
            await asyncio.sleep(LOOKS_EVERY_S)

    async def _commits(self) -> dict[int, list[int]]:
        """Every offset that the coordinator has written for the group, by partition."""
        log = TopicPartition("__consumer_offsets", 0)
        found: dict[int, list[int]] = defaultdict(list)
        async with Consumer(self.bootstrap) as consumer:
            await consumer.assign([log])
            consumer.seek_to_beginning()
            (end,) = (await consumer.end_offsets([log])).values()
            while await consumer.position(log) < end:
                for records in await consumer.poll():
                    for record in records:
                        match GROUP_RECORDS.decode(record.key, record.value):
                            case (OffsetCommitKey(group=self.group) as key, OffsetCommitValue() as value):
                                found[key.partition].append(value.offset)
        return found


async def run(*, broker: str, way: str, rounds: int, seed: int, members: int = 1, keep: bool = False) -> Report:
    """One run on a broker of its own: `moldau`, `apache`, or the `host:port` of one that runs with `PROPERTIES`."""
    folder = Path(tempfile.mkdtemp(prefix="mixed-group-"))
    async with AsyncExitStack() as stack:
        bootstrap = broker
        if broker in ("moldau", "apache"):
            kind: type[NodeProcess] = BrokerProcess if broker == "moldau" else ApacheKafka
            bootstrap = (await stack.enter_async_context(kind(properties=PROPERTIES))).bootstrap
        report = await MixedGroup(bootstrap, folder, way=way, rounds=rounds, members=members, seed=seed).run()
    if keep or report.violations:
        print(f"the notes are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder)
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proof.clients.mixed.run", description="One group of four clients, under fire.")
    parser.add_argument("--broker", default="moldau", help="moldau, apache, or host:port (default moldau)")
    parser.add_argument("--way", choices=sorted(WAYS), default="range", help="how the group assigns (default range)")
    parser.add_argument("--rounds", type=int, default=20, help="faults (default 20)")
    parser.add_argument("--members", type=int, default=1, help="of each client (default 1)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the notes")
    options = parser.parse_args(arguments)
    report = asyncio.run(
        run(broker=options.broker, way=options.way, rounds=options.rounds, seed=options.seed, members=options.members, keep=options.keep)
    )
    print(f"{options.broker}, seed {options.seed}: {report}")
    for violation in report.violations[:20]:
        print("  " + violation)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
