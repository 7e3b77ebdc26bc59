"""● A replicated, tiered partition from a seed: fail-overs, crashes, lost disks, a store that is slow or fails, retention on both tiers.

    result = TierSimulation(seed=7).run()
    result.violations                        empty when nothing went wrong

    python -m proof.tiering.simulation --seed 1 --seeds 1000

There are three brokers, which run everything except the network between them (`cluster`), producers and transactions that try until they
are acknowledged (`clients`), and a reference of the records that may be shown (`model`).  In the end everything heals, each broker leads
in turn, and

- each serves all records from its start on, at every offset, to both kinds of reader, and they are the same
- no acknowledged record is missing; leader epochs, ends and producers agree
- no log start lies before an acknowledged deletion, or goes back while a broker lives
- the store holds exactly the objects that the metadata names, whole, and none that has expired; after the topic is deleted it holds nothing
  (a copy that broke off may stay until its records are in another)
"""

import argparse
import asyncio
import dataclasses
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

from moldau.errors import ErrorCode
from moldau.storage.config import LogConfig
from moldau.storage.segment import LOG_SUFFIX
from moldau.storage.tiered.objects import object_name, segment_id_in
from moldau.storage.tiered.segments import SegmentState
from moldau.testing.loop import Machine, SimLoop, current_machine
from proof.tiering.clients import produce, read_all
from proof.tiering.cluster import TASK_INTERVAL_MS, WHERE, TierBroker, TierCluster

FAULTS_S: Final = 5.0
CALM_S: Final = 60.0
STRAYS_MS: Final = 3_700_000
"""Longer than the store keeps an object that no metadata names."""


@dataclasses.dataclass
class Result:
    seed: int
    violations: list[str] = dataclasses.field(default_factory=list)
    done: dict[str, int] = dataclasses.field(default_factory=dict)


class Killed(BaseException):
    """The process died in the middle of a call to the store."""


def some_config(choice: random.Random) -> LogConfig:
    return dataclasses.replace(
        LogConfig.load({}),
        remote_storage_enable=True,
        segment_bytes=choice.choice([500, 900, 1500]),
        index_interval_bytes=150,
        file_delete_delay_ms=choice.choice([0, 200]),
        retention_bytes=choice.choice([-1, 5_000, 9_000, 15_000]),
        retention_ms=choice.choice([-1, -1, 2_000]),
        local_retention_bytes=choice.choice([0, 0, 800, 2_000]),
        local_retention_ms=-2,
        min_insync_replicas=2,
    )


class TierSimulation:
    """See the module."""

    def __init__(self, seed: int, *, may_be_unclean: bool | None = None) -> None:
        self.choice: Final = random.Random(seed)
        self.loop: Final = SimLoop()
        self.result: Final = Result(seed)
        self.cluster: Final = TierCluster(self.loop, self.choice, some_config(self.choice))
        is_unclean = self.choice.random() < 0.25
        self._may_be_unclean: Final = is_unclean if may_be_unclean is None else may_be_unclean
        self._clients: Final = Machine("clients")
        self._store_failures = 0.0
        self._starts: dict[tuple[int, int, int], int] = {}

    def run(self) -> Result:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._run())
        finally:
            self.loop.forget_the_dead()
            asyncio.set_event_loop(None)
            self.loop.close()
        self.result.violations += self.cluster.model.violations
        self.result.violations += [str(failure.get("exception") or failure["message"]) for failure in self.loop.failures]
        self.result.done = dict(self.cluster.done)
        return self.result

    async def _run(self) -> None:
        cluster, choice = self.cluster, self.choice
        cluster.store.hook = self._at_the_store
        for broker in cluster.brokers.values():
            broker.start()
        await asyncio.sleep(0.01)
        cluster.elect()
        end_s = self.loop.time() + FAULTS_S
        spawn = self.loop.start
        producing = [
            spawn(self._clients, produce(cluster, number, random.Random(choice.getrandbits(64)), end_s)) for number in (101, 102, 103)
        ]
        watching = [spawn(self._clients, self._watch()), spawn(self._clients, self._delete_records(end_s))]
        while self.loop.time() < end_s:
            await asyncio.sleep(choice.random() * 0.4)
            self._fault()
        self._heal()
        try:
            async with asyncio.timeout(CALM_S):
                await asyncio.gather(*producing)
        except TimeoutError:
            cluster.model.violated(f"producers are still busy: {list(cluster.brokers.values())}, leader {cluster.leader_id}")
            return
        await watching[1]
        await self._judge()
        watching[0].cancel()

    # Faults

    def _at_the_store(self, call: str, name: str) -> None:
        if self.choice.random() >= self._store_failures:
            return
        if call in ("put", "stored", "delete") and self.choice.random() < 0.3:
            broker = self._working()
            if broker is not None and broker.is_up:
                self._crash(broker)
                raise Killed
        raise OSError(f"the store failed at {call} {name}")

    def _working(self) -> TierBroker | None:
        """The broker whose task runs right now."""
        machine = current_machine()
        return next((broker for broker in self.cluster.brokers.values() if broker.machine is machine), None)

    def _fault(self) -> None:
        cluster, choice = self.cluster, self.choice
        broker = choice.choice(list(cluster.brokers.values()))
        match choice.randrange(12):
            case 0 | 1 if broker.is_up:
                self._crash(broker)
            case 2 if not broker.is_up:
                self._restart(broker)
            case 3 if cluster.leader_id != -1:
                cluster.elect(other_than=cluster.leader_id)
                cluster.count("elections")
            case 4 | 5:
                broker.is_cut_off = not broker.is_cut_off
            case 6:
                self._store_failures = choice.choice([0.0, 0.0, 0.02, 0.1])
            case 7:
                cluster.metadata.failure_chance = choice.choice([0.0, 0.0, 0.05])
                cluster.metadata.leader_id = choice.randrange(1, 4)
            case 8 if not broker.is_up and broker.id not in cluster.isr:
                broker.lose_disk()
                cluster.count("disks lost")
            case 9 | 11 if self._may_be_unclean and broker.is_up and broker.id not in cluster.isr:
                cluster.elect(is_unclean=True)
            case 10:
                for each in cluster.brokers.values():
                    if not each.is_up:
                        self._restart(each)

    def _crash(self, broker: TierBroker) -> None:
        broker.die(with_power=self.choice.random() < 0.6)
        self.cluster.count("crashes")
        self.cluster.broker_is_gone(broker)

    def _restart(self, broker: TierBroker) -> None:
        broker.start()
        self.loop.call_later(0.005, self._is_back, broker)

    def _is_back(self, broker: TierBroker) -> None:
        if broker.is_up:
            self.cluster.broker_is_back(broker)

    def _heal(self) -> None:
        self._store_failures = self.cluster.metadata.failure_chance = 0.0
        for broker in self.cluster.brokers.values():
            broker.is_cut_off = False
            if not broker.is_up:
                self._restart(broker)

    # What goes on meanwhile

    async def _watch(self) -> None:
        """Check that log starts of each life never go back, and hold the records that leaders show now and then against the model."""
        cluster = self.cluster
        while True:
            await asyncio.sleep(0.1 + self.choice.random() * 0.2)
            for broker in cluster.brokers.values():
                if broker.is_up and broker.is_ready and not cluster.done.get("unclean elections"):
                    key = broker.id, broker.lives, broker.log.truncations
                    if broker.log.log_start_offset < self._starts.get(key, 0):
                        cluster.model.violated(f"{broker!r} started at {self._starts[key]} before")
                    self._starts[key] = broker.log.log_start_offset
            leader = cluster.leader
            if leader is not None and leader.is_ready and self._store_failures == 0 and self.choice.random() < 0.3:
                await read_all(cluster, leader)

    async def _delete_records(self, until_s: float) -> None:
        cluster = self.cluster
        while self.loop.time() < until_s:
            await asyncio.sleep(0.3 + self.choice.random() * 2)
            leader = cluster.leader
            if leader is None or not leader.is_ready:
                continue
            log, partition, epoch = leader.log, leader.partition, leader.partition.leader_epoch
            offset = log.log_start_offset + int((log.high_watermark - log.log_start_offset) * self.choice.random() ** 2)
            cluster.model.deletion_asked(offset)
            if isinstance(leader.logs.delete_records_before(log, offset), ErrorCode):
                continue
            for _ in range(50):
                await asyncio.sleep(0.02)
                if cluster.leader is not leader or partition.leader_epoch != epoch:
                    break
                if partition.low_watermark >= offset and len(partition.eligible) == len(cluster.brokers):
                    cluster.model.deletion_acknowledged(offset)
                    cluster.count("deletions acknowledged")
                    break

    # The end

    async def _judge(self) -> None:
        cluster = self.cluster
        if not await self._settled():
            return
        for broker in cluster.brokers.values():
            while cluster.leader_id != broker.id:
                cluster.elect(other_than=cluster.leader_id)
            if not await self._settled():
                return
            if not await read_all(cluster, broker):
                cluster.model.violated(f"{broker!r} did not stay leader with nobody doing anything")
        self._check_agreement()
        cluster.clock.skew_ms += STRAYS_MS
        cluster.elect(other_than=cluster.leader_id)
        await self._settled()
        for _ in range(int(CALM_S)):
            if not list(self._wrong_in_store()):
                break
            await asyncio.sleep(0.5)
        for what in self._wrong_in_store():
            cluster.model.violated(what)
        cluster.done["segments in the end"] = len(cluster.metadata.replayed(WHERE).segments)
        await self._check_deletion()

    async def _settled(self) -> bool:
        """Wait until all brokers are in sync with the same end, and the tier has all sealed segments."""
        cluster = self.cluster
        for _ in range(int(CALM_S / 0.1)):
            await asyncio.sleep(0.1)
            brokers, leader = list(cluster.brokers.values()), cluster.leader
            if leader is None or not all(broker.is_up and broker.is_ready for broker in brokers) or len(cluster.isr) < len(brokers):
                continue
            ends = {(broker.log.log_end_offset, broker.log.high_watermark, broker.partition.leader_epoch) for broker in brokers}
            if len(ends) == 1:
                await asyncio.sleep(6 * TASK_INTERVAL_MS / 1000)
                return True
        cluster.model.violated(f"no agreement in the end: {brokers}, in sync {cluster.isr}, leader {cluster.leader_id}")
        return False

    def _check_agreement(self) -> None:
        cluster = self.cluster
        start = max(broker.log.log_start_offset for broker in cluster.brokers.values())
        histories, producers = set(), set()
        for broker in cluster.brokers.values():
            log = broker.log
            histories.add(tuple(log.epochs.epoch_for_offset(offset) for offset in range(start, log.log_end_offset)))
            # A replica that began at the present log start does not know earlier producers.
            known = [each for each in log.producers.producers.values() if each.last_offset >= start]
            producers.add(tuple(sorted((each.producer_id, each.producer_epoch, each.last_sequence) for each in known)))
        if len(histories) > 1:
            cluster.model.violated(f"leader epochs differ: {list(cluster.brokers.values())}")
        if len(producers) > 1 and not cluster.done.get("unclean elections"):
            cluster.model.violated(f"producers differ: {sorted(producers)}")

    def _wrong_in_store(self) -> Iterator[str]:
        cluster = self.cluster
        remote, leader = cluster.metadata.replayed(WHERE), cluster.leader
        assert leader is not None
        known = {segment.id for segment in remote.segments.values()}
        strays = sorted(name for name in cluster.store.objects if segment_id_in(name) not in known)
        if strays:
            yield f"no metadata speaks of {strays}"
        for segment in remote.segments.values():
            if segment.state is SegmentState.COPY_STARTED and segment.end_offset >= leader.log.copied_offset:
                continue  # the segment goes once this leader has sealed and copied its records
            content = cluster.store.objects.get(object_name(segment, LOG_SUFFIX))
            if segment.state is not SegmentState.COPY_FINISHED or content is None or len(content[0]) != segment.size:
                yield f"{segment} stays as {segment.state.name}, with {content and len(content[0])} bytes"
            if segment.end_offset < leader.log.log_start_offset:
                yield f"{segment} has expired and stays: {leader!r}"

    async def _check_deletion(self) -> None:
        """Check that a deleted topic's objects go."""
        cluster = self.cluster
        cluster.is_deleted = True
        for broker in cluster.brokers.values():
            self.loop.start(broker.machine, _forget(broker))
        for _ in range(int(CALM_S / 0.2)):
            await asyncio.sleep(0.2)
            remote = cluster.metadata.replayed(WHERE)
            if not remote.segments and not cluster.store.objects:
                break
        else:
            cluster.model.violated(
                f"after the topic is deleted there are {sorted(cluster.store.objects)}, {list(remote.segments.values())}"
            )


async def _forget(broker: TierBroker) -> None:
    broker.remote.removed(broker.partition)
    broker.remote.topics_deleted(broker.cluster.image())


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="proof.tiering.simulation", description="A replicated, tiered partition, from seeds.")
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--seeds", type=int, default=1, help="how many")
    parser.add_argument("--unclean", action="store_true", help="with unclean elections in each, not in a quarter of them")
    options = parser.parse_args(arguments)
    failed, done, began = [], Counter[str](), time.monotonic()
    for seed in range(options.seed, options.seed + options.seeds):
        result = TierSimulation(seed, may_be_unclean=options.unclean or None).run()
        done.update(result.done)
        if result.violations:
            failed.append(seed)
            print(f"seed {seed}:", *result.violations[:4], sep="\n  ", flush=True)
    print(f"{options.seeds} seeds in {time.monotonic() - began:.0f} s: {dict(sorted(done.items()))}")
    print(f"FAILED: seed(s) {failed}" if failed else "passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
