"""● How long a stock producer gets no acknowledgement when nodes of a cluster are killed, paused or stopped, by default options.

    python -m proof.cluster.gaps --kills 20 --of both --controllers 3
    python -m proof.cluster.gaps --kills 20 --of leader --how paused

`--of leader` kills the leader of a partition, `--of controller` the active controller, `--of both` the two at once.  Without
`--controllers` every broker is a controller, and `both` is one node that is both.  With `--how paused` the nodes stand still and
keep their connections.  With `--how stopped` they hand over first.  With `--how moved` no node is touched: another leader of the
partition is preferred and elected.  One idempotent producer (librdkafka, acks=all) sends a record every few milliseconds to that
partition.  Two times are printed over all rounds: the longest time between two acknowledgements around each event, and the time
until the brokers that live name a leader that lives, or another active controller.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final, TypeVar

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.testing.child import BrokerFailed
from moldau.testing.cluster import Cluster, ClusterNode

TOPIC: Final = "gaps"
PARTITIONS: Final = 9
METADATA_LOG: Final = "__cluster_metadata"
WITHIN_S: Final = 60.0
BETWEEN_LOOKS_S: Final = 0.01
BETWEEN_SENDS_S: Final = 0.005
AROUND_S: Final = 1.0
T = TypeVar("T")
KINDS: Final = ("leader", "controller", "both")
PATIENCE: Final = {"socket.timeout.ms": 2000}
"""Options of the producer if nodes are paused.  By default librdkafka waits a minute for a request that nobody answers."""
WAYS: Final = ("killed", "paused", "stopped", "moved")


def active_controller(cluster: Cluster, *, but: Sequence[int] = ()) -> int | None:
    """The node of the active controller that a running broker names; None while no broker names one."""
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_LOG, partitions=[DescribeQuorumRequestPartitionData(partition_index=0)])
    for node in serving(cluster):
        answer = node.ask(DescribeQuorumRequest(topics=[topic]), version=2)
        if answer.error_code == 0 and answer.topics and (leader := answer.topics[0].partitions[0].leader_id) >= 0 and leader not in but:
            return leader
    return None


def serving(cluster: Cluster) -> list[ClusterNode]:
    return [node for node in cluster.nodes.values() if node.is_broker and node.is_running and not node.is_paused]


class Load(threading.Thread):
    """One producer that sends to one partition until it is told to stop."""

    def __init__(self, bootstrap: str, partition: int, more: dict[str, int]) -> None:
        super().__init__(name="load", daemon=True)
        self.at_s: Final[list[float]] = []
        self.errors: Final[list[str]] = []
        self.stopped: Final = threading.Event()
        self._partition: Final = partition
        options = {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 0, **more}
        self._producer: Final = Producer(options)

    def run(self) -> None:
        while not self.stopped.wait(BETWEEN_SENDS_S):
            self._producer.produce(TOPIC, b"a record", partition=self._partition, on_delivery=self._acknowledged)
            self._producer.poll(0)
        self._producer.flush(WITHIN_S)

    def _acknowledged(self, error: object, _: Message) -> None:
        if error is not None:
            self.errors.append(str(error))
        self.at_s.append(time.monotonic())

    def longest_gap_s(self, since_s: float) -> float:
        return max((later - sooner for sooner, later in pairwise(self.at_s) if later > since_s), default=0.0)


class Measuring:
    """One cluster, killed and put together again and again."""

    def __init__(self, cluster: Cluster, of: str, how: str = "killed") -> None:
        self.cluster: Final = cluster
        self.of: Final = of
        self.how: Final = how
        self.gaps_s: Final[list[float]] = []
        self.moved_s: Final[list[float]] = []
        """The seconds until there is a live leader, or a live active controller."""
        self.errors: list[str] = []
        self._pause: Final = threading.Event()
        self._stopping: threading.Thread | None = None

    def prepare(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(WITHIN_S)

    def kill_once(self) -> None:
        """Errors: BrokerFailed."""
        cluster = self.cluster
        self._until(self._is_whole, "all replicas in sync")
        controller = self._until(lambda: active_controller(cluster), "an active controller")
        serving(cluster)[0].ask(ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000), version=2)
        self._until(self._is_balanced, "preferred leaders everywhere")
        leaders = self._leaders()
        combined = controller in leaders.values()
        partition = next((one for one, leader in leaders.items() if leader == controller), 0) if self.of == "both" and combined else 0
        victims = {"leader": [leaders[partition]], "controller": [controller], "both": [leaders[partition], controller]}[self.of]
        load = Load(cluster.bootstrap, partition, PATIENCE if self.how == "paused" else {})
        load.start()
        self._until(lambda: len(load.at_s) > 100, "acknowledgements")
        killed_s = time.monotonic()
        for victim in dict.fromkeys(victims):
            self._strike(victim, partition)
        if self.of == "controller":
            self._until(lambda: active_controller(cluster, but=victims), "another controller")
        else:
            self._until(lambda: self._leaders().get(partition, -1) not in (-1, *victims), "another leader")
        self.moved_s.append(time.monotonic() - killed_s)
        self._until(lambda: load.at_s[-1] > killed_s + self.moved_s[-1], "acknowledgements again")
        self._pause.wait(AROUND_S)
        load.stopped.set()
        load.join(WITHIN_S)
        self.gaps_s.append(load.longest_gap_s(killed_s))
        self.errors += load.errors
        for victim in dict.fromkeys(victims):
            if self.how == "paused":
                cluster.resume(victim)
            elif self.how != "moved":
                if self._stopping is not None:
                    self._stopping.join()
                cluster.start_again(victim)

    def _strike(self, victim: int, partition: int) -> None:
        match self.how:
            case "killed":
                self.cluster.kill(victim)
            case "paused":
                self.cluster.pause(victim)
            case "stopped":
                self._stopping = threading.Thread(target=self.cluster.stop, args=(victim,))
                self._stopping.start()
            case "moved":
                others = [node.node_id for node in serving(self.cluster) if node.node_id != victim]
                placed = ReassignablePartition(partition_index=partition, replicas=[*others, victim])
                asked = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=[placed])])
                node = serving(self.cluster)[0]
                node.ask(asked, version=1)
                node.ask(ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[partition])]), version=2)

    def _leaders(self) -> dict[int, int]:
        (topic,) = serving(self.cluster)[-1].metadata(TOPIC).topics
        return {one.partition_index: one.leader_id for one in topic.partitions}

    def _is_balanced(self) -> bool:
        told = [topic for node in serving(self.cluster) for topic in node.metadata(TOPIC).topics]
        return all(one.leader_id == one.replica_nodes[0] for topic in told for one in topic.partitions)

    def _is_whole(self) -> bool:
        return all(
            len(one.isr_nodes) == len(one.replica_nodes) and one.leader_id >= 0
            for node in serving(self.cluster)
            for topic in node.metadata().topics
            for one in topic.partitions
        )

    def _until(self, look: Callable[[], T | None], what: str) -> T:
        until_s = time.monotonic() + WITHIN_S
        while True:
            if found := look():
                return found
            if time.monotonic() > until_s:
                raise BrokerFailed(f"no {what} within {WITHIN_S:.0f} s")
            self._pause.wait(BETWEEN_LOOKS_S)


def spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    places = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
    told = ", ".join(f"{name} {ordered[min(len(ordered) - 1, int(part * len(ordered)))]:.2f} s" for part, name in places)
    return f"{len(ordered)} rounds: {told}, longest {ordered[-1]:.2f} s"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--of", choices=KINDS, default="both")
    parser.add_argument("--how", choices=WAYS, default="killed")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--controllers", type=int, default=0)
    options = parser.parse_args(arguments)
    with Cluster(options.brokers, options.controllers) as cluster:
        measuring = Measuring(cluster, options.of, options.how)
        measuring.prepare()
        for number in range(options.kills):
            measuring.kill_once()
            say(f"round {number}: moved after {measuring.moved_s[-1]:.2f} s, no acknowledgement for {measuring.gaps_s[-1]:.2f} s")
    say(f"{options.of} {options.how}; until another was told of: {spread(measuring.moved_s)}")
    say(f"{options.of} {options.how}; without an acknowledgement: {spread(measuring.gaps_s)}")
    for error in measuring.errors:
        say(f"WRONG: a record was refused: {error}")
    return 1 if measuring.errors else 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
