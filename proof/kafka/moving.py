"""● A mixed cluster, ours and Apache Kafka 4.3.1, under stock clients, while leaders move between our brokers and Kafka's.

    python -m proof.kafka.moving --java 2 3 --moves 100 --seed 5 --rounds 4 --directory /tmp/moving
    python -m proof.kafka.moving --java 1 2 3 --controllers 0 --only "replaced node by node"

The load, the faults and the violations are those of `proof.cluster.processes`.  Further faults here: leaders are moved one after the other,
with and without a kill in between, coordinators are moved to one side, and nodes are replaced by nodes of the other side.  At the end
epochs, aborted transactions and producers must be the same on all replicas, and no index may contradict its log.  If a violation names a
value, the batches around it are printed.

A broker of Kafka's that is stopped after all controllers waits for them for minutes.  So no fault here stops everything at once.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from moldau.errors import ErrorCode
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from moldau.testing.cluster import Cluster
from proof.cluster.audit import INTERNAL, METADATA_LOG
from proof.cluster.process_load import ORDERS, PARTITIONS
from proof.cluster.processes import BETWEEN_LOOKS_S, QUICK, SHARES, SHOWN_VIOLATIONS, WHOLE_WITHIN_S, Hurting
from proof.cluster.stored import around, different_histories, wrong_indexes
from proof.kafka.mixed import MixedCluster

MOVES: Final = 6
KILL_EVERY: Final = 10
COORDINATED: Final = ("__consumer_offsets", "__transaction_state")
BROKERS: Final = (1, 2, 3)


class Moving(Hurting):
    """A mixed cluster with leaders that move from broker to broker."""

    def __init__(
        self,
        cluster: MixedCluster,
        seed: int,
        say: Callable[[str], None] = print,
        *,
        has_copier: bool = True,
        has_java: bool = False,
        moves: int = MOVES,
    ) -> None:
        """`moves` is the number of leaders that a round moves."""
        super().__init__(cluster, seed, say, has_copier=has_copier, has_java=has_java)
        self._moves: Final = moves
        self.moved = 0
        self._kinds["leader moved"] = self._move_leaders
        self._kinds["leaders moved and killed"] = self._move_and_kill_leaders
        self._kinds["coordinators on one side"] = lambda: self._part(cluster)
        self._kinds["replaced node by node"] = lambda: self._replace_all(cluster)

    def _move_leaders(self) -> None:
        for number in range(self._moves):
            self._move_leader(ORDERS, number % PARTITIONS, 1 + (number // PARTITIONS + number) % len(BROKERS))

    def _move_and_kill_leaders(self) -> None:
        """Move leaders, and after every so many moves kill the broker that has just begun to lead."""
        for number in range(self._moves):
            index, wanted = number % PARTITIONS, 1 + (number // PARTITIONS + number) % len(BROKERS)
            self._move_leader(ORDERS, index, wanted)
            if number % KILL_EVERY == KILL_EVERY - 1:
                self._kill_for_a_while(wanted)
                self._wait_until_whole(f"{ORDERS}-{index} moved to {wanted}, which was killed")

    def _part(self, cluster: MixedCluster) -> None:
        """Put the coordinators on Kafka's brokers and the records on ours, then the other way round."""
        theirs = [each for each in BROKERS if cluster.is_java(each)]
        ours = [each for each in BROKERS if not cluster.is_java(each)]
        assert theirs and ours, "both have a broker"
        for coordinators, leaders in ((theirs, ours), (ours, theirs)):
            for topic, brokers in ((COORDINATED[0], coordinators), (COORDINATED[1], coordinators), (ORDERS, leaders)):
                for index in range(self._partition_count(topic)):
                    self._move_leader(topic, index, brokers[index % len(brokers)])
            self._calm(WHOLE_WITHIN_S / 10)
            self._kill_for_a_while(self.choice.choice(coordinators))
            self._wait_until_whole(f"coordinators on {coordinators}, one killed")

    def _partition_count(self, topic: str) -> int:
        return sum(len(known.partitions) for known in self.cluster.metadata(topic).topics)

    def _replace_all(self, cluster: MixedCluster) -> None:
        """Replace each of Kafka's nodes by one of ours, and each of ours by one of Kafka's."""
        for node_id in cluster.nodes:
            assert cluster.stop(node_id) == 0
            cluster.replace(node_id)
            cluster.start_again(node_id)
            self._wait_until_whole(f"node {node_id} replaced")

    def _move_leader(self, topic: str, index: int, wanted: int) -> None:
        """Move a leader by making another replica the preferred one, as kafka-reassign-partitions and kafka-leader-election do."""
        node = self.cluster.nodes[1 + index % len(BROKERS)]
        replicas = [wanted, *(each for each in BROKERS if each != wanted)]
        asked = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
        told = node.ask(AlterPartitionReassignmentsRequest(topics=[asked]), version=1)
        assert told.error_code == ErrorCode.NONE
        until_s = time.monotonic() + WHOLE_WITHIN_S
        while self.cluster.leader(topic, index) != wanted:
            elect = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=topic, partitions=[index])])
            assert node.ask(elect, version=2).error_code == ErrorCode.NONE
            assert time.monotonic() < until_s, f"{topic}-{index} is not led by {wanted}"
            self._calm(BETWEEN_LOOKS_S)
        self.moved += 1

    def _audit(self) -> None:
        super()._audit()
        self.history.violations += untrue_files(self.cluster, self.topics)
        for line in list(self.history.violations):
            self.history.explanations += explained(self.cluster, line)
        self.history.explanations = list(dict.fromkeys(self.history.explanations))

    def figures(self) -> Iterator[str]:
        yield f"leaders moved: {self.moved}"
        yield from super().figures()


def untrue_files(cluster: Cluster, topics: tuple[str, ...]) -> Iterator[str]:
    """Files of stopped nodes that contradict the records beside them."""
    for name in (*topics, *INTERNAL):
        folders: dict[str, dict[int, Path]] = {}
        for node in cluster.nodes.values():
            for folder in sorted(node.log_dir.glob(f"{name}-*")):
                folders.setdefault(folder.name, {})[node.node_id] = folder
                yield from wrong_indexes(folder)
        if name != METADATA_LOG:
            for folder_name, by_node in folders.items():
                yield from different_histories(folder_name, by_node)


def explained(cluster: Cluster, violation: str) -> Iterator[str]:
    """The replicas' records around the values that a violation names."""
    where = re.search(r"(\w+-\d+)", violation)
    values = re.findall(r"\b\d+\b", violation.partition(where[1])[2]) if where else []
    for value in values[-2:]:
        for node in cluster.nodes.values():
            if where and (folder := node.log_dir / where[1]).exists():
                yield from (f"{node.name}: {line}" for line in around(folder, value.encode()))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--moves", type=int, default=MOVES, help="how many leaders a round moves")
    parser.add_argument("--java", type=int, nargs="*", default=[2, 3], help="ids of the nodes that Kafka runs; controllers count from 101")
    parser.add_argument("--controllers", type=int, default=3, help="how many; 0: every broker is a controller, too")
    parser.add_argument("--only", action="append", default=[], help="a kind of fault; may be given several times")
    parser.add_argument("--without-copier", action="store_true", help="librdkafka's clients have nothing transactional")
    parser.add_argument("--java-clients", action="store_true", help="add Kafka's Java clients to the load")
    parser.add_argument("--directory", type=Path, help="where the nodes' folders are left")
    parser.add_argument("--copier-debug", default="", help="contexts of librdkafka's debug log for the copier, such as eos,protocol")
    options = parser.parse_args(arguments)
    properties = {**QUICK, **SHARES}
    with MixedCluster(len(BROKERS), options.controllers, java=options.java, properties=properties, directory=options.directory) as cluster:
        copies, has_java = not options.without_copier, options.java_clients
        moving = Moving(cluster, options.seed, _say, has_copier=copies, has_java=has_java, moves=options.moves)
        moving.copier_debug = options.copier_debug
        try:
            violations = moving.run(options.rounds, options.only)
        finally:
            for line in moving.figures():
                _say(line)
            for line in (*moving.violations[:SHOWN_VIOLATIONS], *moving.history.explanations[: 3 * SHOWN_VIOLATIONS]):
                _say(f"WRONG: {line}")
    return 1 if violations else 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
