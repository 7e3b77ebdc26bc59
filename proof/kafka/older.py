"""● Older releases of Apache Kafka beside us, which our clients have to serve as well: 2.1.0, the oldest, 2.8.2 and 3.9.1.

    with OlderKafka("2.1.0") as kafka:
        client = Producer(kafka.bootstrap)

Releases before 3 have a ZooKeeper, which starts and ends with its broker.  All run on today's Java.
"""

import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from os import pathsep
from pathlib import Path
from typing import Final, Self

from moldau.pipelines.provision import java_home
from moldau.testing.child import CLUSTER_ID, HOST, ChildProcess, NodeProcess, held_ports
from proof.kafka.jars import jar_set

FLAGS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dzookeeper.admin.enableServer=false")
LOG4J: Final = """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def java_line(version: str, folder: Path, main_class: str, *arguments: str) -> list[str]:
    """The command line of a program of this release.  It logs to stdout."""
    log4j = folder / "log4j.properties"
    log4j.write_text(LOG4J, encoding="utf-8")
    jars = pathsep.join(map(str, jar_set(f"kafka-{version}")))
    return [str(java_home() / "bin" / "java"), *FLAGS, f"-Dlog4j.configuration=file:{log4j}", "-cp", jars, main_class, *arguments]


class ZooKeeper(ChildProcess):
    """The ZooKeeper of brokers older than 3."""

    name = "ZooKeeper"

    def __init__(self, version: str) -> None:
        super().__init__()
        self._version = version
        self._held = ExitStack()
        (self.port,) = self._held.enter_context(held_ports(1))

    def command(self) -> Sequence[str]:
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        return java_line(self._version, self.directory, main, str(self.port), str(self.directory / "data"))

    def is_ready(self) -> bool:
        try:
            socket.create_connection((HOST, self.port), timeout=1).close()
        except OSError:
            return False
        return True

    def leave(self) -> None:
        super().leave()
        self._held.close()


class OlderKafka(NodeProcess):
    """One broker of an older release.  `zookeeper`: that of another broker, to join its cluster; `node_id` must differ then."""

    name = "an older Apache Kafka"

    def __init__(
        self, version: str, *, node_id: int = 1, zookeeper: ZooKeeper | None = None, properties: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(properties=properties)
        self.version = version
        self.node_id = node_id
        self._own_zookeeper = ZooKeeper(version) if zookeeper is None and version < "3" else None
        self.zookeeper = zookeeper or self._own_zookeeper

    def server_properties(self) -> dict[str, str]:
        combined = super().server_properties()
        if self.zookeeper is None:
            voters = f"1@{self.host}:{self.controller_port}"
            known = {name: value for name, value in combined.items() if not name.startswith(("share.", "controller.quorum."))}
            return {**known, "controller.quorum.voters": voters}
        return {
            "broker.id": str(self.node_id),
            "listeners": f"PLAINTEXT://{self.host}:{self.port}",
            "zookeeper.connect": f"{self.host}:{self.zookeeper.port}",
            "zookeeper.session.timeout.ms": "60000",
            "zookeeper.connection.timeout.ms": "60000",
            **{name: value for name, value in combined.items() if name.startswith(("log.dirs", "offsets.", "transaction.", "group."))},
            **self.extra,
        }

    def format_folder(self) -> None:
        if self.zookeeper is None:
            arguments = ("format", "-t", CLUSTER_ID, "-c", str(self.properties_file))
            subprocess.run(java_line(self.version, self.directory, "kafka.tools.StorageTool", *arguments), check=True, capture_output=True)

    def command(self) -> Sequence[str]:
        return java_line(self.version, self.directory, "kafka.Kafka", str(self.properties_file))

    def is_ready(self) -> bool:
        return "started (kafka.server.Kafka" in self.said

    def __enter__(self) -> Self:
        if self._own_zookeeper is not None:
            self._own_zookeeper.__enter__()
        return super().__enter__()

    def leave(self) -> None:
        super().leave()
        if self._own_zookeeper is not None:
            self._own_zookeeper.__exit__(None, None, None)
