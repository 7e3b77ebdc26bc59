"""● Kafka Connect 4.3.1's own worker beside us: one distributed worker as a process, asked over its REST API.

    with ApacheKafka() as kafka, JavaWorker(kafka.bootstrap) as worker:
        httpx.get(worker.url + "/connectors")

Tests ask it what is right.
"""

import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from moldau.pipelines.provision.jars import jar_set
from moldau.testing.child import HOST, ChildProcess, free_ports
from proof.kafka.apache import QUIET_LOG4J, java_command
from proof.kafka.provision import KAFKA_VERSION

WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
FLAGS = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


def worker_properties(bootstrap: str, port: int, extra: Mapping[str, str]) -> dict[str, str]:
    """What Kafka's worker and ours both run with."""
    return {
        "bootstrap.servers": bootstrap,
        "group.id": "connect-cluster",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "config.storage.topic": "connect-configs",
        "config.storage.replication.factor": "1",
        "offset.storage.topic": "connect-offsets",
        "offset.storage.replication.factor": "1",
        "offset.storage.partitions": "5",
        "status.storage.topic": "connect-status",
        "status.storage.replication.factor": "1",
        "status.storage.partitions": "2",
        "offset.flush.interval.ms": "1000",
        "listeners": f"http://{HOST}:{port}",
        "rest.advertised.host.name": HOST,
        **extra,
    }


class JavaWorker(ChildProcess):
    """See the module.  Killed at the end, not stopped: what it leaves in its topics stays."""

    name = "Kafka Connect"

    def __init__(self, bootstrap: str, *, properties: Mapping[str, str] | None = None) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="java-connect-")))
        (self.port,) = free_ports(1)
        self.properties = worker_properties(bootstrap, self.port, properties or {})

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def prepare(self) -> None:
        super().prepare()
        plugins = self.directory / "plugins" / "file"
        plugins.mkdir(parents=True, exist_ok=True)
        for jar in jar_set(f"connect-file-{KAFKA_VERSION}"):
            shutil.copy(jar, plugins)
        lines = {**self.properties, "plugin.path": str(plugins.parent)}
        (self.directory / "worker.properties").write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
        (self.directory / "log4j2.properties").write_text(QUIET_LOG4J.format(level="info", target="SYSTEM_OUT"), encoding="utf-8")

    def environment(self) -> Mapping[str, str]:
        return os.environ

    def command(self) -> Sequence[str]:
        log4j = self.directory / "log4j2.properties"
        return java_command(WORKER, str(self.directory / "worker.properties"), flags=FLAGS, log4j=log4j)

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/connectors", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
