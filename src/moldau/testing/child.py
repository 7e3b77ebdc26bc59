"""● A program that a test starts as a process of its own: watched until it is ready, stopped or killed, started again.

    class BrokerProcess(NodeProcess): …        our broker            testing/process.py
    class ApacheKafka(NodeProcess): …          Kafka's               proof/kafka/apache.py

`ChildProcess` is the life of any program; `with` starts it, waits until it serves, and ends it.  `NodeProcess` is a broker with a
`server.properties`, ours or Kafka's: a test can do to both the same things.  Waiting ends with the program's own answer, never with a
fixed time.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

HOST: Final = "127.0.0.1"
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
READY_WITHIN_S: Final = 120.0
STOP_WITHIN_S: Final = 60.0
BETWEEN_LOOKS_S: Final = 0.01
LAST_WORDS: Final = 4000


class BrokerFailed(AssertionError):
    """The program did not do as asked; the text ends with its output."""


@contextlib.contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Ports on the loopback address that the system gives to no other process meanwhile, but that a server may listen on.

    The ports are bound and not listened on.  A server that uses SO_REUSEADDR, as ours and Java's do, gets them.  A process that asks for
    any free port, or connects from one, does not get them, not even while a killed server is down.
    """
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield [int(one.getsockname()[1]) for one in sockets]


def free_ports(count: int) -> list[int]:
    """Different ports on the loopback address that no process has at this moment."""
    with held_ports(count) as ports:
        return ports


class ChildProcess(ABC):
    """One program that runs in a folder, which also holds its output.

    `with` starts the program and waits until it is ready.  Leaving ends it and removes its folder; a folder that was passed in stays.
    `async with` does the same and waits in a thread.
    """

    name: ClassVar[str]
    has_own_session: ClassVar[bool] = False
    """Whether the process has a session of its own, like a service.

    No terminal's signals reach it then, and the scheduler shares processors by session first (sched(7), autogroup).
    """

    def __init__(self, directory: Path | None = None) -> None:
        self.owns_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix=f"{type(self).__name__.lower()}-"))
        self.process: subprocess.Popen[bytes] | None = None
        self._launched_at = 0

    @abstractmethod
    def command(self) -> Sequence[str]: ...

    @abstractmethod
    def is_ready(self) -> bool: ...

    def prepare(self) -> None:
        """Prepare a start; this is not part of the start itself."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def environment(self) -> Mapping[str, str]:
        return os.environ

    @property
    def log_text(self) -> str:
        """The program's whole output so far."""
        path = self.directory / "server.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    @property
    def said(self) -> str:
        """The program's output since its last launch."""
        return self.log_text[self._launched_at :]

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} is not running"
        return self.process.pid

    @property
    def resident_bytes(self) -> int:
        """The memory of the process that is in RAM, in bytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def cpu_seconds(self) -> float:
        """The processor time of the process so far, in seconds."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def launch(self) -> None:
        """Start the process and return at once."""
        assert self.process is None, f"{self.name} is running already"
        self._launched_at = len(self.log_text)
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                env=self.environment(),
                stdin=subprocess.PIPE,  # its end tells a child of `tied` that this process is gone
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=self.has_own_session,
            )

    def wait_until_ready(self) -> None:
        """Wait until the program is ready.  Errors: BrokerFailed when it ends or takes too long."""
        assert self.process is not None, f"launch {self.name} first"
        deadline = time.monotonic() + READY_WITHIN_S
        while not self.is_ready():
            ended = self.process.poll()
            if ended is not None or time.monotonic() > deadline:
                what = f"ended with {ended}" if ended is not None else f"was not ready within {READY_WITHIN_S:.0f} s"
                raise BrokerFailed(f"{self.name} {what}\n{self.log_text[-LAST_WORDS:]}")
            time.sleep(BETWEEN_LOOKS_S)

    def start(self) -> None:
        """Prepare, launch, wait.  Works again after `stop` or `kill`, on the same folder and ports.

        Errors: BrokerFailed; then no process is left.
        """
        self.prepare()
        self.launch()
        try:
            self.wait_until_ready()
        except BrokerFailed:
            self.kill()
            raise

    def stop(self) -> int:
        """Send SIGTERM and wait; a process that does not end is killed.  Returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL: the broker loses its process, the page cache keeps its writes."""
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
        finally:
            if process.stdin is not None:
                process.stdin.close()

    def leave(self) -> None:
        """End the process at the end of `with`: SIGKILL, as a machine that loses power.  A test of an orderly end calls `stop`."""
        self.kill()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.leave()
        if self.owns_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)


class NodeProcess(ChildProcess):
    """One combined broker and controller.  Its ports stay its own for the object's whole life, started or not."""

    def __init__(self, *, properties: Mapping[str, str] | None = None, directory: Path | None = None) -> None:
        super().__init__(directory)
        holding = contextlib.ExitStack()
        weakref.finalize(self, holding.close)
        self.port, self.controller_port = holding.enter_context(held_ports(2))
        self.extra = dict(properties or {})
        self.host = HOST
        """The address that the process listens on and tells to others."""

    @abstractmethod
    def format_folder(self) -> None:
        """Format the folder on first use, as `storage format` does."""

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def log_dir(self) -> Path:
        """The folder of its partitions and `__cluster_metadata-0`."""
        return self.directory / "data"

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    def server_properties(self) -> dict[str, str]:
        """All options that it runs with."""
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"{self.host}:{self.controller_port}",
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.port}",
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

    def prepare(self) -> None:
        """Write `server.properties` and, on first use, format the folder."""
        super().prepare()
        properties = self.server_properties()
        self.properties_file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
        if not (Path(properties["log.dirs"].split(",")[0]) / "meta.properties").exists():
            self.format_folder()
