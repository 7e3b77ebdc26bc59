"""● A cluster of real processes for tests: brokers and controllers that are killed, paused and started again, for any Kafka client.

    with Cluster(brokers=3) as cluster:                     # three nodes, each broker and controller
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.kill(cluster.leader("orders", 0))           # SIGKILL
        cluster.start_again(1)                              # the same folder, the same ports

    Cluster(brokers=3, controllers=3)                       # six processes: nodes 1 to 3 are brokers, 101 to 103 controllers

Leaving ends every process and removes the folders.  Waiting ends with the nodes' own answers, never with a fixed time.
"""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from uuid import uuid4

from moldau.protocol.messages.metadata import MetadataResponse
from moldau.testing.calls import Calls
from moldau.testing.child import CLUSTER_ID, READY_WITHIN_S, BrokerFailed
from moldau.testing.process import FORMAT_WITHIN_S, BrokerProcess, moldau_command
from moldau.types import usable_uuid, uuid_to_text

FIRST_CONTROLLER: Final = 101
BETWEEN_LOOKS_S: Final = 0.02


class ClusterNode(BrokerProcess):
    """One process of a cluster."""

    def __init__(self, node_id: int, roles: Sequence[str], directory: Path, properties: Mapping[str, str]) -> None:
        super().__init__(properties=properties, directory=directory)
        self.node_id: Final = node_id
        self.roles: Final = tuple(roles)
        self.name = f"node {node_id}"  # type: ignore[misc]  # each has its own
        self.directory_id: Final = uuid_to_text(usable_uuid(uuid4))
        self.controllers: Sequence[ClusterNode] = ()
        self.is_paused = False

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def server_properties(self) -> dict[str, str]:
        listeners = {"broker": f"PLAINTEXT://{self.host}:{self.port}", "controller": f"CONTROLLER://{self.host}:{self.controller_port}"}
        own = {
            "process.roles": ",".join(self.roles),
            "node.id": str(self.node_id),
            "listeners": ",".join(listeners[role] for role in self.roles),
            "advertised.listeners": ",".join(listeners[role] for role in self.roles),
            "controller.quorum.bootstrap.servers": ",".join(f"{each.host}:{each.controller_port}" for each in self.controllers),
        }
        return {**super().server_properties(), **own, **self.extra}

    def format_folder(self) -> None:
        """Format the node's folder.  Errors: BrokerFailed."""
        command = moldau_command("storage", "format", "-t", CLUSTER_ID, "-c", str(self.properties_file), *self.format_arguments())
        done = subprocess.run(command, env=self.environment(), capture_output=True, timeout=FORMAT_WITHIN_S, check=False)
        if done.returncode != 0:
            raise BrokerFailed(f"formatting ended with {done.returncode}\n{(done.stdout + done.stderr).decode(errors='replace')}")

    def format_arguments(self) -> Sequence[str]:
        """The arguments of `storage format`, with the first voters."""
        voters = ",".join(f"{each.node_id}@{each.host}:{each.controller_port}:{each.directory_id}" for each in self.controllers)
        return ("--initial-controllers", voters) if self.is_controller else ("--no-initial-controllers",)

    def is_ready(self) -> bool:
        """Whether the node is ready: a broker lists itself to clients; a controller has logged that it started."""
        return super().is_ready() if self.is_broker else self.has_started()

    def has_started(self) -> bool:
        return "is up" in self.said

    def pause(self) -> None:
        """Send SIGSTOP: the node neither answers nor closes a connection, until `resume`."""
        assert self.process is not None, f"{self.name} is not running"
        self.process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        assert self.process is not None, f"{self.name} is not running"
        self.process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def _end(self, how: signal.Signals) -> int:
        if self.is_paused and self.process is not None:
            self.resume()
        return super()._end(how)


class Cluster(Calls):
    """A cluster of processes; see the module."""

    def __init__(
        self, brokers: int = 3, controllers: int = 0, *, properties: Mapping[str, str] | None = None, directory: Path | None = None
    ) -> None:
        """Without `controllers` each broker is a controller, too.  `properties` hold for every node."""
        self._owns_directory: Final = directory is None
        self.directory: Final = directory or Path(tempfile.mkdtemp(prefix="moldau-cluster-"))
        replicas = min(brokers, 3)
        common = {
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(max(1, replicas - 1)),
            "share.coordinator.state.topic.replication.factor": str(replicas),
            "share.coordinator.state.topic.min.isr": str(max(1, replicas - 1)),
            "default.replication.factor": str(replicas),
            "min.insync.replicas": str(max(1, replicas - 1)),
            "offsets.topic.num.partitions": "5",
            "transaction.state.log.num.partitions": "5",
            "share.coordinator.state.topic.num.partitions": "5",
            **(properties or {}),
        }
        both = ("broker",) if controllers else ("broker", "controller")
        self.nodes: Final[dict[int, ClusterNode]] = {
            number: self.new_node(number, both, self.directory / f"node-{number}", common) for number in range(1, brokers + 1)
        }
        for number in range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers):
            self.nodes[number] = self.new_node(number, ("controller",), self.directory / f"node-{number}", common)
        voters = [node for node in self.nodes.values() if node.is_controller]
        for node in self.nodes.values():
            node.controllers = voters

    def new_node(self, node_id: int, roles: Sequence[str], directory: Path, properties: Mapping[str, str]) -> ClusterNode:
        """Make one of `nodes`."""
        return ClusterNode(node_id, roles, directory, properties)

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(node.bootstrap for node in self.nodes.values() if node.is_broker)

    @property
    def bootstrap_servers(self) -> str:
        """The same as `bootstrap`."""
        return self.bootstrap

    def start(self) -> None:
        """Start all nodes at once: controllers wait for each other.  Errors: BrokerFailed."""
        waiting = [node for node in self.nodes.values() if node.process is None]
        for node in waiting:
            node.prepare()
            node.launch()
        for node in waiting:
            node.wait_until_ready()
        self.wait_for_brokers(node.node_id for node in self.nodes.values() if node.is_broker)

    def wait_for_brokers(self, node_ids: Iterable[int]) -> None:
        """Wait until every running broker lists all of these brokers to clients.  Errors: BrokerFailed."""
        wanted = set(node_ids)
        deadline = time.monotonic() + READY_WITHIN_S
        for node in self._serving():
            while not wanted <= (known := {broker.node_id for broker in node.metadata().brokers}):
                if time.monotonic() > deadline:
                    raise BrokerFailed(f"{node.name} knows the brokers {sorted(known)} of {sorted(wanted)}\n{node.log_text[-4000:]}")
                time.sleep(BETWEEN_LOOKS_S)

    def kill(self, node_id: int) -> None:
        """Send SIGKILL to a node."""
        self.nodes[node_id].kill()

    def stop(self, node_id: int) -> int:
        """Send SIGTERM and wait: the node hands its leaderships over first.  Returns the exit code."""
        return self.nodes[node_id].stop()

    def start_again(self, node_id: int) -> None:
        """Start a node on the same folder and ports; returns once it serves.  Errors: BrokerFailed."""
        self.nodes[node_id].start()

    def pause(self, node_id: int) -> None:
        self.nodes[node_id].pause()

    def resume(self, node_id: int) -> None:
        self.nodes[node_id].resume()

    def metadata(self, *topics: str) -> MetadataResponse:
        """The metadata of the first broker that serves."""
        return next(iter(self._serving())).metadata(*topics)

    def leader(self, topic: str, partition: int) -> int:
        """The node id of a partition's leader; waits until there is one.  Errors: BrokerFailed."""
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            found = -1
            for known in self.metadata(topic).topics:
                found = next((each.leader_id for each in known.partitions if each.partition_index == partition), -1)
            if found >= 0 and self.nodes[found].is_running:
                return found
            if time.monotonic() > deadline:
                raise BrokerFailed(f"nobody leads {topic}-{partition}")
            time.sleep(BETWEEN_LOOKS_S)

    def _serving(self) -> list[ClusterNode]:
        found = [node for node in self.nodes.values() if node.is_broker and node.is_running and not node.is_paused]
        assert found, "no broker is running"
        return found

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for node in self.nodes.values():
            node.kill()
        if self._owns_directory:
            shutil.rmtree(self.directory, ignore_errors=True)
