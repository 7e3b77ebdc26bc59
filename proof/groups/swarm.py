"""● Hundreds of members of one group on a real broker, over TCP.  They come and go in bursts, and after each burst the group must settle.

    calm, all members commit ─▶ burst: some leave, some die, even while others join ─▶ does it settle? ─▶ calm …

    python -m proof.groups.swarm --broker 127.0.0.1:9092 --members 500 --protocol classic --bursts 10

The broker needs the short sessions that the members count on: `SWARM_PROPERTIES`.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from moldau.net.channel import Channel
from moldau.net.sockets import SystemNetwork
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from proof.cluster.workload import Notes
from proof.groups.clients import GROUPS, Groups

SESSION_MS, REBALANCE_MS = 10_000, 30_000
SWARM_PROPERTIES: Final = {
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "2000",
    "offsets.topic.num.partitions": "4",
}
PACE_MS: Final = 4_000
BURST_S: Final = 10.0
CALM_S: Final = 5.0
"""The time without faults after a group has settled.  Members need it to commit: a burst of hundreds of members is one long rebalance."""
DEPARTURES_A_SECOND: Final = 10
"""The number of members that leave a second, once they have joined."""
KILLS_A_SECOND: Final = 5
"""The number of members that are killed a second."""
SETTLES_WITHIN_S: Final = 60.0
LOOKS_EVERY_S: Final = 0.25


@dataclass(slots=True)
class Report:
    """The outcome of a run."""

    settled_after_s: list[float] = field(default_factory=list)
    """The seconds that the group needed to settle: first when all members had come, then after each burst."""
    lives: int = 0
    commits: int = 0
    requests: int = 0
    rebalances: int = 0
    """The number of generations or group epochs."""
    slowest_answer_s: float = 0.0
    """The slowest answer to a heartbeat."""
    late_s: float = 0.0
    """The largest delay of the swarm's own loop.  Members that do not get to run lose their sessions without the broker's fault."""
    violations: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        longest = max(self.settled_after_s, default=0.0)
        middle = sorted(self.settled_after_s)[len(self.settled_after_s) // 2] if self.settled_after_s else 0.0
        settled = sum(taken_s <= SETTLES_WITHIN_S for taken_s in self.settled_after_s)
        return (
            f"{self.lives:,} lives, {self.rebalances:,} rebalances, {self.requests:,} requests, {self.commits:,} commits acknowledged; "
            f"settled {settled} times of {len(self.settled_after_s)}, in {middle:.1f} s in the middle and {longest:.1f} s at most; "
            f"heartbeats answered within {self.slowest_answer_s:.1f} s, the swarm late by {self.late_s:.1f} s at most"
        )


async def swarm(broker: tuple[str, int], *, members: int, group: str, bursts: int, seed: int = 1) -> Report:
    """Run the swarm.  `group` is one of `proof.groups.clients.GROUPS`, which gives its members' protocols."""
    loop, report, notes, choice = asyncio.get_running_loop(), Report(), Notes(), random.Random(seed)
    network = SystemNetwork()
    notes.topics.partitions = members  # one partition for each member, so that every member can commit
    await _create_topic(network, broker, notes, members, f"swarm-{group}-{choice.randrange(1 << 30)}")
    groups = Groups(notes)
    for number in range(members):
        member = groups.add(number, network, broker, random.Random(choice.getrandbits(64)), group).member
        member.pace_ms, member.session_ms, member.rebalance_ms = PACE_MS, SESSION_MS, REBALANCE_MS
        member.death_chance = min(DEPARTURES_A_SECOND * PACE_MS / 2000 / members, 0.5)
    groups.calm_down()
    working = [loop.create_task(client.run()) for client in groups.clients]
    watching = loop.create_task(_watch(report))
    await _settle(groups, report)
    for _ in range(bursts):
        await asyncio.sleep(CALM_S)
        for client in groups.clients:
            client.member.may_die = True
        until_s = loop.time() + BURST_S
        while loop.time() < until_s:
            await asyncio.sleep(1 / KILLS_A_SECOND)
            choice.choice(groups.clients).die()
        groups.calm_down()
        await _settle(groups, report)
    report.rebalances = max(client.member.epoch for client in groups.clients)
    groups.leave()
    _, busy = await asyncio.wait(working, timeout=SETTLES_WITHIN_S)
    report.violations += [f"{len(busy)} members could not leave"] if busy else []
    for work in (*busy, watching):
        work.cancel()
    report.violations += groups.take_violations() + notes.violations
    report.lives = sum(client.member.lives for client in groups.clients)
    report.slowest_answer_s = max(client.slowest_answer_s for client in groups.clients)
    report.commits = notes.done["group commits acknowledged"]
    report.requests = sum(count for what, count in notes.done.items() if what.startswith("group ") and what != "group holds")
    return report


async def _settle(groups: Groups, report: Report) -> None:
    loop = asyncio.get_running_loop()
    since_s = loop.time()
    while wrong := groups.unsettled(loop.time() * 1000):
        if loop.time() - since_s > SETTLES_WITHIN_S:
            report.violations.append(f"not settled after {SETTLES_WITHIN_S:.0f} s: {dict(list(wrong.items())[:5])}")
            break
        await asyncio.sleep(LOOKS_EVERY_S)
    report.settled_after_s.append(loop.time() - since_s)


async def _watch(report: Report) -> None:
    loop = asyncio.get_running_loop()
    while True:
        asked_s = loop.time()
        await asyncio.sleep(LOOKS_EVERY_S)
        report.late_s = max(report.late_s, loop.time() - asked_s - LOOKS_EVERY_S)


async def _create_topic(network: SystemNetwork, broker: tuple[str, int], notes: Notes, partitions: int, name: str) -> None:
    channel = await Channel.connect(network, *broker, client_id="swarm", timeout_s=SETTLES_WITHIN_S)
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    (created,) = (await channel.send(CreateTopicsRequest(topics=[topic], timeout_ms=60_000))).topics
    assert not created.error_code, created
    notes.topics.ids[name] = created.topic_id
    channel.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proof.groups.swarm", description="Members of a group come and go.")
    parser.add_argument("--broker", default="127.0.0.1:9092", help="host:port (default 127.0.0.1:9092)")
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--protocol", choices=sorted(GROUPS), default="classic", help="mixed: each life of a member draws a protocol")
    parser.add_argument("--bursts", type=int, default=10, help=f"of {BURST_S:.0f} s each (default 10)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    host, _, port = options.broker.rpartition(":")
    began = time.monotonic()
    report = asyncio.run(
        swarm((host, int(port)), members=options.members, group=options.protocol, bursts=options.bursts, seed=options.seed)
    )
    print(f"{options.members} members, {options.protocol}, {time.monotonic() - began:.0f} s: {report}")
    for violation in report.violations[:10]:
        print("  " + violation)
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
