"""● Kafka Connect 4.3.1's own worker beside us: one worker as a process, in a group or alone, asked over its REST API.

    with ApacheKafka() as kafka, JavaWorker(kafka.bootstrap) as worker:
        httpx.get(worker.url + "/connectors")

Tests take the worker's answers for the right ones.
"""

import os
import shutil
from collections.abc import Mapping, Sequence

from proof.connect.worker import Worker
from proof.kafka.apache import QUIET_LOG4J, java_command
from proof.kafka.jars import jar_set
from proof.kafka.provision import KAFKA_VERSION

WORKER = "org.apache.kafka.connect.cli.ConnectDistributed"
ALONE = "org.apache.kafka.connect.cli.ConnectStandalone"
FLAGS = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class JavaWorker(Worker):
    """See the module."""

    name = "Kafka Connect"
    health = "/connectors"

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
        return java_command(ALONE if self.is_alone else WORKER, *self.files(), flags=FLAGS, log4j=log4j)
