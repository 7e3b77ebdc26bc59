"""● One worker of Kafka Connect as a process, Kafka's or ours, in a group or alone, asked over its REST API."""

import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import ClassVar

from moldau.testing.child import HOST, ChildProcess, free_ports


def worker_properties(bootstrap: str, port: int, extra: Mapping[str, str]) -> dict[str, str]:
    """Properties that Kafka's worker and ours both read."""
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
        "config.providers": "file,dir",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        **extra,
    }


OF_A_GROUP = ("group.id", "config.storage.", "offset.storage.", "status.storage.")


class Worker(ChildProcess):
    """A worker process.  It is killed at the end, not stopped, so that its records in its topics stay.

    `connectors`: the texts of files of connectors, by name; with them the worker is alone, without a group.  Its offsets are in `offsets`.
    """

    health: ClassVar[str]
    """The path that answers 200 once the worker serves."""

    def __init__(self, bootstrap: str, *, properties: Mapping[str, str] | None = None, connectors: Mapping[str, str] | None = None) -> None:
        super().__init__()
        (self.port,) = free_ports(1)
        self.properties = worker_properties(bootstrap, self.port, properties or {})
        self.connectors = connectors

    @property
    def is_alone(self) -> bool:
        return self.connectors is not None

    def prepare(self) -> None:
        super().prepare()
        if self.connectors is not None:
            kept = {key: value for key, value in self.properties.items() if not key.startswith(OF_A_GROUP) or key.endswith("filename")}
            self.properties = {"offset.storage.file.filename": str(self.directory / "offsets"), **kept}
            for name, text in self.connectors.items():
                (self.directory / name).write_text(text, encoding="utf-8")

    def files(self) -> list[str]:
        """The arguments of the command: the worker's properties, then the connectors' files."""
        return [str(self.directory / name) for name in ("worker.properties", *(self.connectors or ()))]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}{self.health}", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False
