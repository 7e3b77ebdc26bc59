"""● One process's blocking connections to one cluster, opened when first needed, and the cluster's latest metadata.

    with BlockingCluster("localhost:9092") as cluster:
        cluster.refresh(["orders"])
        response = cluster.to_leader(TopicPartition("orders", 0)).send(request)

`retrying` repeats a call that may be repeated, because leaders move, coordinators load and brokers come back.
"""

import time
from collections.abc import Callable, Collection, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from moldau.clients.blocking.connection import Connection, Wire
from moldau.clients.view import EMPTY, ClusterView, Node
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from moldau.types import TopicPartition

T = TypeVar("T")

GROUP: Final = 0
TRANSACTION: Final = 1
GIVE_UP_AFTER_S: Final = 60.0
FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0


class Unreachable(ConnectionError):
    """No broker answers at these addresses."""


class BlockingCluster:
    """The connections to one cluster.  Use it as a context manager, or call `close`.  It must not be shared by threads."""

    def __init__(self, bootstrap: Sequence[tuple[str, int]], wire: Wire | None = None, *, give_up_after_s: float = GIVE_UP_AFTER_S) -> None:
        self.view: ClusterView = EMPTY
        self.give_up_after_s = give_up_after_s
        self._bootstrap = list(bootstrap)
        self._wire = wire or Wire()
        self._connections: dict[tuple[str, int, str], Connection] = {}
        self._coordinators: dict[tuple[int, str], int] = {}

    # connections

    def any(self) -> Connection:
        """An open connection to any broker, else a new one to the first address that can be reached.  Errors: Unreachable, KafkaError."""
        for (_, _, purpose), connection in self._connections.items():
            if not purpose and not connection.is_closed:
                return connection
        known = [(node.host, node.port) for node in self.view.nodes.values()]
        reasons = []
        for host, port in dict.fromkeys([*known, *self._bootstrap]):
            try:
                return self._open(host, port)
            except OSError as error:
                reasons.append(str(error))
        raise Unreachable("; ".join(reasons))

    def to_node(self, node: Node, purpose: str = "") -> Connection:
        """The connection to one node.  Each `purpose` has a connection of its own.  Errors: OSError, KafkaError."""
        return self._open(node.host, node.port, purpose)

    def to_leader(self, topic_partition: TopicPartition, purpose: str = "") -> Connection:
        """The connection to a partition's leader.  Errors: as `leader_of`, and OSError."""
        return self.to_node(self.leader_of(topic_partition), purpose)

    def _open(self, host: str, port: int, purpose: str = "") -> Connection:
        key = (host, port, purpose)
        connection = self._connections.get(key)
        if connection is None or connection.is_closed or connection.in_flight:
            if connection is not None:
                connection.close()
            connection = self._connections[key] = Connection.open(host, port, self._wire)
        return connection

    @property
    def transaction_version(self) -> int:
        """The cluster's finalized level of transaction.version.  Errors: Unreachable, KafkaError."""
        return self.any().transaction_version

    # what the cluster says of itself

    def refresh(self, topics: Collection[str] | None = None, *, creates: bool = False) -> ClusterView:
        """Ask for the brokers and these topics; None asks for all topics.

        With `creates`, brokers with auto.create.topics.enable create missing topics.

        Errors: Unreachable, OSError, KafkaError.
        """
        named = None if topics is None else [MetadataRequestTopic(name=name) for name in sorted(topics)]
        response = self.any().send(MetadataRequest(topics=named, allow_auto_topic_creation=creates))
        self.view = self.view.updated(response, all_topics=topics is None)
        return self.view

    def leader_of(self, topic_partition: TopicPartition) -> Node:
        """The node id of a partition's leader; asks the cluster if it is not known.

        Errors: KafkaError with the topic's code, UNKNOWN_TOPIC_OR_PARTITION or LEADER_NOT_AVAILABLE.
        """
        leader = self.view.leader_of(topic_partition)
        if leader is None:
            leader = self.refresh([topic_partition.topic]).leader_of(topic_partition)
        if leader is not None:
            return leader
        code = self.view.error_of(topic_partition.topic)
        if code:
            raise KafkaError(code, f"topic {topic_partition.topic}: {code.text}")
        if topic_partition.partition not in self.view.partitions_of(topic_partition.topic):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {topic_partition}")
        raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic_partition} has no leader")

    # coordinators

    def coordinator_of(self, key: str, key_type: int) -> Node:
        """The node id of the coordinator of `key`.  Errors: KafkaError, Unreachable."""
        node_id = self._coordinators.get((key_type, key))
        if node_id is None:
            node_id = self._coordinators[key_type, key] = self._find_coordinator(key, key_type)
        node = self.view.nodes.get(node_id) or self.refresh([]).nodes.get(node_id)
        if node is None:
            del self._coordinators[key_type, key]
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator of {key}, broker {node_id}, is not there")
        return node

    def forget_coordinator(self, key: str, key_type: int) -> None:
        """Look the coordinator up anew the next time."""
        self._coordinators.pop((key_type, key), None)

    def _find_coordinator(self, key: str, key_type: int) -> int:
        connection = self.any()
        if connection.version_of(FindCoordinatorRequest) < 4:
            response = connection.send(FindCoordinatorRequest(key_type=key_type, key=key))
            code, message, node_id = response.error_code, response.error_message, response.node_id
        else:
            found = connection.send(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])).coordinators[0]
            code, message, node_id = found.error_code, found.error_message, found.node_id
        if code:
            raise KafkaError(ErrorCode.of(code), message or ErrorCode.of(code).text)
        return node_id

    # trying again

    def retrying(self, attempt: Callable[[], T], *, within_s: float | None = None, forget: bool = True) -> T:
        """Call `attempt` until it succeeds, fails with an error that is not retriable, or time is up.

        Lost connections and retriable KafkaErrors are tried again.  Errors: the last one.
        """
        deadline = time.monotonic() + (self.give_up_after_s if within_s is None else within_s)
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                return attempt()
            except (OSError, KafkaError) as error:
                if isinstance(error, KafkaError) and not error.code.retriable:
                    raise
                if time.monotonic() + pause_s > deadline:
                    raise
                if forget:
                    self.view = EMPTY if isinstance(error, OSError) else self.view.without_topics()
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    # ending

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def by_leader(cluster: BlockingCluster, partitions: Collection[TopicPartition]) -> dict[Node, list[TopicPartition]]:
    """Partitions by the node id of their leader.  Errors: as `leader_of`."""
    found: dict[Node, list[TopicPartition]] = {}
    for one in partitions:
        found.setdefault(cluster.leader_of(one), []).append(one)
    return found
