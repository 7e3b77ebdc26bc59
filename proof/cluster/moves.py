"""● Moves partitions to other brokers under a throttle, as kafka-reassign-partitions does, whatever happens to the cluster meanwhile.

moves = ThrottledMoves(cluster, chance)
moves.begin([("orders", 0), ("orders", 1)])
…                                                   # kill nodes
moves.wait()                                        # all moves are done, and the throttle is gone
"""

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from moldau.errors import ErrorCode
from moldau.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from moldau.testing.child import BrokerFailed
from moldau.testing.cluster import Cluster, ClusterNode

REPLICAS: Final = 3
DONE_WITHIN_S: Final = 120.0
BETWEEN_LOOKS_S: Final = 0.2
WANTED_S: Final = (1.0, 6.0)
"""The time that the data needs under the throttle."""
LEAST_RATE: Final = 50_000
TOPIC, BROKER = 2, 4
"""The types of a resource in requests that change configs."""
SET, DELETE = 0, 1
RETRIABLE: Final = {
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
}
LIMITS: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LIMITED: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
Place = tuple[str, int]


class ThrottledMoves:
    """See the module."""

    def __init__(self, cluster: Cluster, chance: Random) -> None:
        self._cluster: Final = cluster
        self._chance: Final = chance
        self._topics: list[str] = []
        self.done = 0

    def begin(self, places: Sequence[Place]) -> int:
        """Begin to move these partitions to brokers that chance names.  Returns the throttle in bytes a second.  Errors: BrokerFailed."""
        size = sum(self._size(place) for place in places)
        rate = max(LEAST_RATE, int(size / self._chance.uniform(*WANTED_S)))
        self._topics = sorted({topic for topic, _ in places})
        self._throttle(rate)
        asked = {topic: ReassignableTopic(name=topic, partitions=[]) for topic in self._topics}
        for topic, partition in places:
            asked[topic].partitions.append(
                ReassignablePartition(partition_index=partition, replicas=self._other_replicas(topic, partition))
            )
        request = AlterPartitionReassignmentsRequest(topics=list(asked.values()))

        def alter(node: ClusterNode) -> list[int]:
            answer = node.ask(request, version=1)
            return [answer.error_code, *(each.error_code for topic in answer.responses for each in topic.partitions)]

        self._until_taken(alter)
        self.done += len(places)
        return rate

    def wait(self) -> None:
        """Wait until nothing moves, and take the throttle away.  Errors: BrokerFailed."""
        until_s = time.monotonic() + DONE_WITHIN_S
        while moving := self._moving():
            if time.monotonic() > until_s:
                raise BrokerFailed(f"still moving after {DONE_WITHIN_S:.0f} s: {moving}")
            time.sleep(BETWEEN_LOOKS_S)
        self._throttle(None)

    def _moving(self) -> list[str]:
        for node in self._brokers():
            try:
                answer = node.ask(ListPartitionReassignmentsRequest(), version=0)
            except OSError:
                continue
            if answer.error_code == ErrorCode.NONE:
                return [f"{topic.name}-{each.partition_index}" for topic in answer.topics for each in topic.partitions]
        return ["nobody knows"]

    def _other_replicas(self, topic: str, partition: int) -> list[int]:
        brokers = [node.node_id for node in self._cluster.nodes.values() if node.is_broker]
        (known,) = self._cluster.metadata(topic).topics
        now = next(each.replica_nodes for each in known.partitions if each.partition_index == partition)
        while True:
            wanted = self._chance.sample(brokers, REPLICAS)
            if set(wanted) != set(now) or len(brokers) == REPLICAS:
                return wanted

    def _size(self, place: Place) -> int:
        leader = self._cluster.nodes[self._cluster.leader(*place)]
        return sum(path.stat().st_size for path in (leader.log_dir / f"{place[0]}-{place[1]}").glob("*.log"))

    def _throttle(self, rate: int | None) -> None:
        """Limit the moves to so many bytes a second and broker; None takes the limit away."""
        how = DELETE if rate is None else SET

        def resource(kind: int, name: str, keys: Sequence[str], value: str) -> AlterConfigsResource:
            changes = [AlterableConfig(name=key, config_operation=how, value=value if rate else None) for key in keys]
            return AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)

        brokers = [resource(BROKER, str(node.node_id), LIMITS, str(rate)) for node in self._cluster.nodes.values() if node.is_broker]
        topics = [resource(TOPIC, name, LIMITED, "*") for name in self._topics]

        def alter(node: ClusterNode) -> list[int]:
            answer = node.ask(IncrementalAlterConfigsRequest(resources=[*topics, *brokers], validate_only=False), version=1)
            return [each.error_code for each in answer.responses]

        self._until_taken(alter)

    def _until_taken(self, ask: Callable[[ClusterNode], list[int]]) -> None:
        """Ask one broker after the other until one has done it.  Errors: BrokerFailed."""
        until_s = time.monotonic() + DONE_WITHIN_S
        while True:
            for node in self._brokers():
                try:
                    codes = set(ask(node))
                except OSError:
                    continue
                if codes == {ErrorCode.NONE}:
                    return
                if not codes <= RETRIABLE | {ErrorCode.NONE}:
                    raise BrokerFailed(f"{node.name} answered {codes}")
            if time.monotonic() > until_s:
                raise BrokerFailed("no broker has an answer")
            time.sleep(BETWEEN_LOOKS_S)

    def _brokers(self) -> list[ClusterNode]:
        return [node for node in self._cluster.nodes.values() if node.is_broker and node.is_running and not node.is_paused]
