"""● Kills, pauses, stops and starts the processes of a cluster from a seed, under stock clients, and reads everything at the end.

    python -m proof.cluster.processes --seed 7 --rounds 20 --brokers 3 [--controllers 3] [--java-clients]

A violation is: an acknowledged record that is lost, doubled or out of order; a transaction of which only a part is there; an error at a
client after which it cannot try again; a cluster that is not whole half a minute after all its nodes run; replicas with different bytes.
Violations are printed, and then the exit code is 1.

The clients are librdkafka's.  `--java-clients` adds an idempotent producer, a transactional copier, a consumer group of the new protocol
and a share group, all of Kafka's Java client.  A further violation is then a record that the share group was not given, or was given again
after its acceptance was confirmed.
"""

import argparse
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from moldau.testing.child import BrokerFailed
from moldau.testing.cluster import Cluster
from proof.cluster.audit import METADATA_LOG, Lane, different_logs
from proof.cluster.java_load import PAYMENTS, RECEIPTS, JavaClients, Queue
from proof.cluster.process_load import COPIES, ORDERS, PARTITIONS, WITHIN_S, Client, Copier, History, Reader, Writer, read_everything

WHOLE_WITHIN_S: Final = 30.0
CAUGHT_UP_WITHIN_S: Final = 90.0
"""Longer than a stock consumer's session of 45 seconds, because a group may have to wait for a member that is gone."""
SESSION_S: Final = 3.0
CALM_S: Final = (0.5, 3.0)
BETWEEN_LOOKS_S: Final = 0.1
SHOWN_VIOLATIONS: Final = 20
SHORT_GAP_S: Final = 0.2
QUICK: Final = {"broker.session.timeout.ms": str(int(SESSION_S * 1000)), "broker.heartbeat.interval.ms": "500"}

SHARES: Final = {
    "group.share.delivery.count.limit": "10",  # a killed broker counts a delivery that nobody got
    "group.share.record.lock.duration.ms": "15000",
}
"""The options of brokers that a share group needs when its members and its brokers are killed."""


class Hurting:
    """One cluster, its load and the faults of one seed."""

    def __init__(
        self, cluster: Cluster, seed: int, say: Callable[[str], None] = print, *, has_copier: bool = True, has_java: bool = False
    ) -> None:
        """`has_copier`: librdkafka's clients have a transactional copier, too.  `has_java`: Kafka's Java clients work beside them."""
        self.cluster: Final = cluster
        self.copier_debug = ""
        """The contexts of librdkafka's debug log that the copier's producers write to stderr."""
        self.choice: Final = Random(seed)
        self.say: Final = say
        self.history: Final = History()
        self.lanes: Final = [Lane(ORDERS, COPIES, self.history, has_copier)]
        self._queue: Final = Queue() if has_java else None
        if has_java:
            self.lanes.append(Lane(PAYMENTS, RECEIPTS, History()))
        self.faults: Final[Counter[str]] = Counter()
        self.whole_after_s: Final[list[float]] = []
        self._never: Final = threading.Event()
        self._clients: list[Client] = []
        self._kinds: Final[dict[str, Callable[[], None]]] = {
            "leader killed": lambda: self._kill_for_a_while(self._some_leader()),
            "controller killed": lambda: self._kill_for_a_while(self.active_controller()),
            "leader paused": lambda: self._pause(self._some_leader()),
            "controller paused": lambda: self._pause(self.active_controller()),
            "rolling restart": self._roll,
            "two killed": self._kill_two,
            "all killed": self._kill_all,
            "all stopped": self._stop_all,
        }

    def run(self, rounds: int, only: Sequence[str] = ()) -> list[str]:
        """Run the rounds.  Returns the violations in words."""
        self._begin()
        kinds = list(only or self._kinds)
        try:
            for number in range(rounds):
                kind = kinds[number % len(kinds)] if number < len(kinds) else self.choice.choice(kinds)
                self._calm(self.choice.uniform(*CALM_S))
                began_s = time.monotonic()
                self._kinds[kind]()
                self.faults[kind] += 1
                self._wait_until_whole(kind)
                self.say(
                    f"round {number}: {kind}, {time.monotonic() - began_s:.1f} s, {len(self.history.acknowledged_at_s):,} acknowledged, "
                    f"{self.history.committed_transactions} transactions"
                )
            self._catch_up()
            self._wait_until_whole("nothing any more")
        finally:
            self._end()
        self._audit()
        return self.violations

    @property
    def violations(self) -> list[str]:
        found = [line for lane in self.lanes for line in lane.history.violations]
        return found + (self._queue.violations if self._queue else [])

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of all lanes."""
        return tuple(topic for lane in self.lanes for topic in (lane.source, lane.copies))

    def _begin(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        for future in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in self.topics]).values():
            future.result(WITHIN_S)
        self._clients = list(self._new_clients())
        for client in self._clients:
            client.start()
        until_s = time.monotonic() + WITHIN_S
        while not all(lane.history.acknowledged_at_s for lane in self.lanes):
            assert time.monotonic() < until_s, f"nothing is acknowledged: {self.violations}"
            self._calm(BETWEEN_LOOKS_S)

    def _new_clients(self) -> Iterator[Client]:
        where, history = self.cluster.bootstrap, self.history
        yield Writer("writer", where, history)
        yield from (Reader(f"reader {number}", where, history) for number in (1, 2))
        if self.lanes[0].has_copier:
            yield Copier("copier", where, history, debug=self.copier_debug)
        if self._queue:
            yield JavaClients(where, self.lanes[-1].history, self._queue, ORDERS, self.cluster.directory / "java-clients.log")

    def _catch_up(self) -> None:
        """Check that nothing hangs: without new records, every reader reaches the end."""
        for client in self._clients:
            client.stop_writing()
        until_s = time.monotonic() + CAUGHT_UP_WITHIN_S
        while behind := self._behind():
            if time.monotonic() > until_s:
                self.history.violations.append(f"not at the end {CAUGHT_UP_WITHIN_S:.0f} s after the last record: {behind}")
                return
            self._calm(BETWEEN_LOOKS_S)

    def _behind(self) -> list[str]:
        found = [who for lane in self.lanes for who in lane.behind()]
        return found + (list(self._not_delivered(self._queue)) if self._queue else [])

    def _not_delivered(self, queue: Queue) -> Iterator[str]:
        """The partitions with acknowledged records that the share group was not given; the source has no other records but doubles."""
        for partition, values in self.history.acknowledged.items():
            if left_out := queue.left_out(partition, len(values)):
                yield f"the share group at {ORDERS}-{partition}: {len(left_out)} records, the first at {left_out[0]}"

    def _end(self) -> None:
        for client in self._clients:
            client.stop()
        for client in self._clients:
            client.join(2 * WITHIN_S)
            if client.is_alive():
                self.history.violations.append(f"{client.name} hangs: {client.why_it_hangs()}")

    def _calm(self, seconds: float) -> None:
        self._never.wait(seconds)

    def active_controller(self) -> int:
        """The node of the active controller.  Waits until a running node is active.  Errors: BrokerFailed."""
        request = DescribeQuorumRequest(
            topics=[
                DescribeQuorumRequestTopicData(topic_name=METADATA_LOG, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)])
            ]
        )
        until = time.monotonic() + WHOLE_WITHIN_S
        while time.monotonic() < until:
            for node in self.cluster.nodes.values():
                if node.is_broker and node.is_running:
                    answer = node.ask(request, version=2)
                    said = answer.topics[0].partitions[0] if answer.error_code == 0 and answer.topics else None
                    if said is not None and said.error_code == 0 and said.leader_id >= 0:
                        return said.leader_id
            self._calm(BETWEEN_LOOKS_S)
        raise BrokerFailed("no controller is active")

    def _some_leader(self) -> int:
        return self.cluster.leader(ORDERS, self.choice.randrange(PARTITIONS))

    def _kill_for_a_while(self, node_id: int) -> None:
        self.cluster.kill(node_id)
        self._calm(self.choice.choice((0.0, 0.5, 2.0, SESSION_S + 1)))
        self.cluster.start_again(node_id)

    def _pause(self, node_id: int) -> None:
        self.cluster.pause(node_id)
        self._calm(self.choice.choice((1.0, SESSION_S + 1, SESSION_S + 4)))
        self.cluster.resume(node_id)

    def _roll(self) -> None:
        for node_id in self.cluster.nodes:
            if code := self.cluster.stop(node_id):
                self.history.violations.append(f"node {node_id} stopped with {code}")
            self.cluster.start_again(node_id)
            self._wait_until_whole("rolling restart")

    def _kill_two(self) -> None:
        nodes = self.choice.sample([node.node_id for node in self.cluster.nodes.values() if node.is_broker], 2)
        for node_id in nodes:
            self.cluster.kill(node_id)
        self._calm(self.choice.choice((0.0, 2.0)))
        self.cluster.start()

    def _kill_all(self) -> None:
        for node in self.cluster.nodes.values():
            node.kill()
        self.cluster.start()

    def _stop_all(self) -> None:
        began_s = time.monotonic()
        stopping = [threading.Thread(target=self._stop, args=(node_id,)) for node_id in self.cluster.nodes]
        for one in stopping:
            one.start()
        for one in stopping:
            one.join()
        self.say(f"all stopped within {time.monotonic() - began_s:.1f} s")
        self.cluster.start()

    def _stop(self, node_id: int) -> None:
        began_s = time.monotonic()
        if code := self.cluster.stop(node_id):
            self.history.violations.append(f"node {node_id} stopped with {code} after {time.monotonic() - began_s:.1f} s")

    def _wait_until_whole(self, kind: str) -> None:
        """Wait until every broker reports all replicas of every partition in sync."""
        began_s, missing, told = time.monotonic(), ["nobody asked yet"], False
        while missing:
            missing = list(self._missing())
            elapsed_s = time.monotonic() - began_s
            if missing and elapsed_s > WHOLE_WITHIN_S and not told:
                told = True
                self.history.violations.append(f"{kind}: not whole after {elapsed_s:.0f} s: {missing[:5]}")
            if missing and elapsed_s > 4 * WHOLE_WITHIN_S:
                raise BrokerFailed(f"{kind}: still not whole: {missing}")
            if missing:
                self._calm(BETWEEN_LOOKS_S)
        self.whole_after_s.append(time.monotonic() - began_s)

    def _missing(self) -> Iterator[str]:
        for node in self.cluster.nodes.values():
            if not node.is_running:
                yield f"node {node.node_id} ended by itself"
            elif node.is_broker:
                for topic in node.metadata().topics:
                    for one in topic.partitions:
                        if one.leader_id < 0 or len(one.isr_nodes) < len(one.replica_nodes):
                            yield f"{node.name}: {topic.name}-{one.partition_index} led by {one.leader_id}, in sync {sorted(one.isr_nodes)}"

    def _audit(self) -> None:
        read = {topic: read_everything(self.cluster.bootstrap, topic) for topic in self.topics}
        self._stop_all_for_good()
        for lane in self.lanes:
            lane.history.violations += lane.audit(self.cluster, read[lane.source], read[lane.copies])
        self.history.violations += different_logs(self.cluster, self.topics)
        if self._queue:
            self._queue.violations += self._not_delivered(self._queue)

    def _stop_all_for_good(self) -> None:
        for node_id in self.cluster.nodes:
            self._stop(node_id)

    def figures(self) -> Iterator[str]:
        history = self.history
        at_s = history.acknowledged_at_s
        long = sorted(later - sooner for sooner, later in pairwise(at_s) if later - sooner > SHORT_GAP_S)
        yield f"faults: {dict(sorted(self.faults.items()))}"
        for lane in self.lanes:
            yield from _of_lane(lane)
        spans = {"gaps without an acknowledgement": long, "until whole again": sorted(self.whole_after_s)}
        spans |= {f"calls of {name}": sorted(values) for name, values in sorted(history.calls_s.items())}
        for what, values in spans.items():
            if values:
                parts = ", ".join(f"p{round(100 * part)} {_quantile(values, part):.2f} s" for part in (0.5, 0.99))
                yield f"{what}: {len(values)}, {parts}, longest {values[-1]:.2f} s"
        if self._queue:
            delivered, accepted = len(self._queue.delivered), len(self._queue.accepted)
            yield f"the share group: {delivered:,} records given, {accepted:,} accepted, {self._queue.again:,} given more than once"


def _of_lane(lane: Lane) -> Iterator[str]:
    history, name = lane.history, lane.source
    yield f"{name}: {sum(map(len, history.acknowledged.values())):,} records acknowledged, {sum(history.read.values()):,} read by the group"
    yield f"{name}: {history.committed_transactions} transactions committed, {history.aborted_transactions} aborted"
    yield f"{name}: {history.resent} records sent again by librdkafka under a newer epoch of its own"
    yield f"{name}: {history.replaced_producers} transactional producers given up: {dict(history.reasons)}"
    yield f"{name}: errors that clients were told of: {dict(history.errors)}"


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--controllers", type=int, default=0)
    parser.add_argument("--only", action="append", default=[], help="a kind of fault; may be given several times")
    parser.add_argument("--directory", type=Path, help="where the nodes' folders are left")
    parser.add_argument("--copier-debug", default="", help="contexts of librdkafka's debug log for the copier, such as eos,protocol")
    parser.add_argument("--java-clients", action="store_true", help="add Kafka's Java clients to the load")
    options = parser.parse_args(arguments)
    properties = {**QUICK, **SHARES}
    with Cluster(options.brokers, options.controllers, properties=properties, directory=options.directory) as cluster:
        hurting = Hurting(cluster, options.seed, say_line, has_java=options.java_clients)
        hurting.copier_debug = options.copier_debug
        try:
            violations = hurting.run(options.rounds, options.only)
        finally:
            for line in hurting.figures():
                say_line(line)
            for line in hurting.violations[:SHOWN_VIOLATIONS]:
                say_line(f"WRONG: {line}")
    return 1 if violations else 0


def say_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
