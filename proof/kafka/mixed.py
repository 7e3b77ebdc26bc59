"""● A cluster of processes, some ours and some of Apache Kafka 4.3.1.

    with MixedCluster(brokers=3, controllers=3, java={2, 3}) as cluster: …      # brokers 2 and 3 are Kafka's, all else is ours

Everything else is as in `moldau.testing.cluster`.
"""

import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from moldau.testing.child import CLUSTER_ID
from moldau.testing.cluster import Cluster, ClusterNode
from proof.kafka.apache import BROKER_FLAGS, QUIET_LOG4J, READY_WORDS, Tool, java_command, run_tool

HEAP: Final = "384m"


class ApacheNode(ClusterNode):
    """One process of Apache Kafka."""

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._log4j.write_text(QUIET_LOG4J.format(level="info", target="SYSTEM_OUT"), encoding="utf-8")
        super().prepare()

    def format_folder(self) -> None:
        run_tool(Tool.STORAGE, "format", "-t", CLUSTER_ID, "-c", str(self.properties_file), *self.format_arguments())

    def command(self) -> Sequence[str]:
        return java_command(Tool.BROKER, str(self.properties_file), flags=(f"-Xmx{HEAP}", *BROKER_FLAGS), log4j=self._log4j)

    def stop(self) -> int:
        """Stop the process.  Returns 0 after the exit code of a Java machine that was told to end."""
        code = super().stop()
        return 0 if code == 128 + signal.SIGTERM else code

    @property
    def _log4j(self) -> Path:
        return self.directory / "log4j2.properties"

    def has_started(self) -> bool:
        return READY_WORDS in self.said


class MixedCluster(Cluster):
    """See the module."""

    def __init__(
        self,
        brokers: int = 3,
        controllers: int = 0,
        *,
        java: Collection[int],
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        """`java` are the ids of the nodes that Apache Kafka runs."""
        self._java: Final = set(java)
        self._replaced: Final[list[ClusterNode]] = []
        """The nodes that were replaced.  They are kept because they hold the ports."""
        super().__init__(brokers, controllers, properties=properties, directory=directory)

    def is_java(self, node_id: int) -> bool:
        return node_id in self._java

    def replace(self, node_id: int) -> None:
        """Change a stopped node from ours to Kafka's, or back.  Folder, ports and options stay the same."""
        before = self.nodes[node_id]
        assert before.process is None, f"{before.name} runs"
        self._java.symmetric_difference_update({node_id})
        after = self.nodes[node_id] = self.new_node(node_id, before.roles, before.directory, before.extra)
        after.port, after.controller_port, after.controllers = before.port, before.controller_port, before.controllers
        self._replaced.append(before)

    def new_node(self, node_id: int, roles: Sequence[str], directory: Path, properties: Mapping[str, str]) -> ClusterNode:
        made = ApacheNode if node_id in self._java else ClusterNode
        return made(node_id, roles, directory, properties)
