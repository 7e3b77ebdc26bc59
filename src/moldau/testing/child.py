"""● A program that tests start as a process of its own: watched until it is ready, stopped or killed, started again.

    class BrokerProcess(NodeProcess): …        our broker            testing/process.py
    class ApacheKafka(NodeProcess): …          Kafka's               proof/kafka/apache.py

`ChildProcess` is the life of any program, `NodeProcess` a broker that is told what to do by a `server.properties`: what one test does with
ours it can do with Kafka's.  Waiting is for the program's own word, never for a time.
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
    """The program did not do as it was told; the text ends with what it said."""


@contextlib.contextmanager
def held_ports(count: int) -> Iterator[list[int]]:
    """Ports on the loopback address that the system gives to nobody else meanwhile, and that a server may be told to listen on.

    They are bound and not listened on.  A server that allows itself an address in use (SO_REUSEADDR), as ours and Java's do, gets them;
    whoever asks for any free port, or connects from one, does not: not even while a killed server is down.
    """
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind((HOST, 0))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        yield [int(one.getsockname()[1]) for one in sockets]


def free_ports(count: int) -> list[int]:
    """Ports on the loopback address that nobody has at this moment, all different."""
    with held_ports(count) as ports:
        return ports


class ChildProcess(ABC):
    """One program that runs in a folder, where it leaves what it says."""

    name: ClassVar[str]
    has_own_session: ClassVar[bool] = False
    """As a service has: no terminal's signals reach it, and the scheduler shares processors out by session first (sched(7), autogroup)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None
        self._launched_at = 0

    @abstractmethod
    def command(self) -> Sequence[str]: ...

    @abstractmethod
    def is_ready(self) -> bool: ...

    def prepare(self) -> None:
        """What is done before a start and is no part of it."""
        self.directory.mkdir(parents=True, exist_ok=True)

    def environment(self) -> Mapping[str, str]:
        return os.environ

    @property
    def log_text(self) -> str:
        """What it has said so far."""
        path = self.directory / "server.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    @property
    def said(self) -> str:
        """What it has said since it was launched last."""
        return self.log_text[self._launched_at :]

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} is not running"
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

    def launch(self) -> None:
        """Start the process and return at once."""
        assert self.process is None, f"{self.name} is running already"
        self._launched_at = len(self.log_text)
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                start_new_session=self.has_own_session,
            )

    def wait_until_ready(self) -> None:
        """Errors: BrokerFailed when it ends or takes too long."""
        assert self.process is not None, f"launch {self.name} first"
        deadline = time.monotonic() + READY_WITHIN_S
        while not self.is_ready():
            ended = self.process.poll()
            if ended is not None or time.monotonic() > deadline:
                what = f"ended with {ended}" if ended is not None else f"was not ready within {READY_WITHIN_S:.0f} s"
                raise BrokerFailed(f"{self.name} {what}\n{self.log_text[-LAST_WORDS:]}")
            time.sleep(BETWEEN_LOOKS_S)

    def start(self) -> None:
        """Prepare, launch, wait.  Works again after `stop` or `kill`, on the same folder and ports."""
        self.prepare()
        self.launch()
        self.wait_until_ready()

    def stop(self) -> int:
        """SIGTERM and wait; who does not end is killed.  Returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: a broker loses its process, the page cache keeps its writes."""
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


class NodeProcess(ChildProcess):
    """One combined broker and controller on ports that are its own from the first to the last, started or not.

    `with` starts it and waits until it serves; leaving ends it and removes its folder (a folder that was passed in stays).  The same with
    `async with`, which does the waiting in a thread.
    """

    def __init__(self, *, properties: Mapping[str, str] | None = None, directory: Path | None = None) -> None:
        self.owns_directory = directory is None
        super().__init__(directory or Path(tempfile.mkdtemp(prefix=f"{type(self).__name__.lower()}-")))
        holding = contextlib.ExitStack()
        weakref.finalize(self, holding.close)
        self.port, self.controller_port = holding.enter_context(held_ports(2))
        self.extra = dict(properties or {})

    @abstractmethod
    def format_folder(self) -> None:
        """What `storage format` does, on first use."""

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

    def prepare(self) -> None:
        """Write `server.properties` and, on first use, format the folder."""
        super().prepare()
        properties = self.server_properties()
        self.properties_file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
        if not (Path(properties["log.dirs"].split(",")[0]) / "meta.properties").exists():
            self.format_folder()

    def leave(self) -> None:
        """How `with` ends it: with a moment to close its files."""
        self.stop()

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
