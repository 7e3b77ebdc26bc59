"""● A broker of ours as a process of its own: started as a user starts it, killed as a machine kills it, restarted on what is left.

    with BrokerProcess(properties={"num.partitions": "3"}) as broker:
        client = Producer({"bootstrap.servers": broker.bootstrap})
        broker.kill()                     # SIGKILL
        broker.start()                    # the same folder, the same ports

It has the face of `ApacheKafka`, so that one test can run against either.  Waiting is for the broker's own answer, never for a time.
"""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self, cast

import moldau
from moldau.net.correlation import Correlation
from moldau.net.framing import Framing, ReceiveBuffers
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.protocol.wire import AnyResponse, Request
from moldau.testing.kafka import CLUSTER_ID, free_ports

HOST: Final = "127.0.0.1"
READY_WITHIN_S: Final = 60.0
STOP_WITHIN_S: Final = 20.0
FORMAT_WITHIN_S: Final = 30.0
BETWEEN_TRIES_S: Final = 0.01
ANSWER_WITHIN_S: Final = 5.0


class BrokerFailed(AssertionError):
    """The broker did not do as it was told; the text ends with what it said."""


class BrokerProcess:
    """One combined broker and controller, `moldau serve` on free ports in a folder of its own."""

    def __init__(self, *, properties: Mapping[str, str] | None = None, directory: Path | None = None) -> None:
        self.owns_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="moldau-broker-"))
        self.port, self.controller_port = free_ports(2)
        self.extra = dict(properties or {})
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def log_dir(self) -> Path:
        """Where its partitions and `__cluster_metadata-0` lie."""
        return self.directory / "data"

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def log_text(self) -> str:
        """What the broker has said so far."""
        path = self.directory / "server.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker is not running"
        return self.process.pid

    @property
    def resident_bytes(self) -> int:
        """Memory of the process that is in RAM."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu_seconds(self) -> float:
        """Processor time that the process used up so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def server_properties(self) -> dict[str, str]:
        """All options that it runs with."""
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"{HOST}:{self.controller_port}",
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "log.dirs": str(self.log_dir),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.extra,
        }

    # life

    def format(self) -> None:
        """Write `server.properties` and, on first use, format the folder.  Errors: BrokerFailed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{key}={value}\n" for key, value in self.server_properties().items())
        self.properties_file.write_text(lines, encoding="utf-8")
        if (Path(self.server_properties()["log.dirs"].split(",")[0]) / "meta.properties").exists():
            return
        command = _moldau("storage", "format", "-t", CLUSTER_ID, "-c", str(self.properties_file), "--standalone")
        done = subprocess.run(command, env=_environment(), capture_output=True, timeout=FORMAT_WITHIN_S, check=False)
        if done.returncode != 0:
            raise BrokerFailed(f"formatting ended with {done.returncode}\n{(done.stdout + done.stderr).decode(errors='replace')}")

    def launch(self) -> None:
        """Start the process and return at once."""
        assert self.process is None, "the broker is running already"
        command = _moldau("serve", str(self.properties_file))
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, env=_environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory
            )

    def wait_until_ready(self) -> None:
        """Until it tells clients that it is there itself.  Errors: BrokerFailed when it ends or takes too long."""
        assert self.process is not None, "launch the broker first"
        deadline = time.monotonic() + READY_WITHIN_S
        while not self._is_ready():
            ended = self.process.poll()
            if ended is not None or time.monotonic() > deadline:
                what = f"ended with {ended}" if ended is not None else f"did not answer within {READY_WITHIN_S:.0f} s"
                raise BrokerFailed(f"the broker {what}\n{self.log_text[-4000:]}")
            time.sleep(BETWEEN_TRIES_S)

    def _is_ready(self) -> bool:
        try:
            brokers = self.ask(MetadataRequest(topics=[]), version=1).brokers
        except OSError:
            return False
        return any(broker.port == self.port for broker in brokers)

    def start(self) -> None:
        """Format when new, start, wait until it serves.  Works again after `stop` or `kill`, on the same data and ports."""
        self.format()
        self.launch()
        self.wait_until_ready()

    def stop(self) -> int:
        """SIGTERM and wait; a broker that does not end is killed.  Returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: the broker loses its process, the page cache keeps its writes."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int:
        process, self.process = self.process, None
        if process is None:
            return 0
        process.send_signal(how)
        try:
            return process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    # talking

    def ask(self, request: Request[AnyResponse], *, version: int) -> AnyResponse:
        """One request on a connection of its own, blocking.  Errors: OSError."""
        correlation = Correlation("moldau-testing")
        framing = Framing(1 << 30, ReceiveBuffers())
        _, parts = correlation.request(request, version)
        with socket.create_connection((HOST, self.port), timeout=ANSWER_WITHIN_S) as connection:
            connection.sendall(b"".join(cast(list[bytes], parts)))
            while True:
                count = connection.recv_into(framing.get_buffer())
                if not count:
                    raise ConnectionError("the broker closed the connection")
                for frame in framing.received(count):
                    return cast(AnyResponse, correlation.response(frame)[1])

    def metadata(self, *topics: str) -> MetadataResponse:
        """What it tells about topics; about all of them without names."""
        return self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in topics] or None), version=1)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()
        if self.owns_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


def _moldau(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "moldau.tools.cli.main", *arguments]


def _environment() -> dict[str, str]:
    """This very tree's code, wherever the test runs."""
    source = str(Path(moldau.__file__).parents[1])
    inherited = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{inherited}" if inherited else source, "PYTHONUNBUFFERED": "1"}
