"""● A real Apache Kafka beside us: one node on free ports in a folder of its own, and Kafka's tools as plain function
calls.

Tests ask it what is right, benchmarks measure beside it.

    with ApacheKafka(properties={"auto.create.topics.enable": "false"}) as kafka:
        kafka.topics("--create", "--topic", "t", "--partitions", "4")
        client = Producer({"bootstrap.servers": kafka.bootstrap})

The tools work on any broker and on any folder of files, ours too: `run_tool(Tool.DUMP_LOG, "--files", path)`.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from moldau.testing.provision import java_home, kafka_classpath

READY_WITHIN_S = 120.0
STOP_WITHIN_S = 20.0
TOOL_WITHIN_S = 180.0
READY_WORDS = "Kafka Server started"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
QUIET_LOG4J = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRefs = stdout
rootLogger.appenderRef.stdout.ref = STDOUT
appenders = stdout
appender.stdout.type = Console
appender.stdout.name = STDOUT
appender.stdout.target = {target}
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
"""
BROKER_FLAGS = ("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-Djava.awt.headless=true")
TOOL_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")


class Tool(StrEnum):
    """Kafka's own programs, by their Java class."""

    BROKER = "kafka.Kafka"
    STORAGE = "kafka.tools.StorageTool"
    TOPICS = "org.apache.kafka.tools.TopicCommand"
    CONFIGS = "kafka.admin.ConfigCommand"
    GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
    DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
    LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
    FEATURES = "org.apache.kafka.tools.FeatureCommand"
    QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
    TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
    API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
    CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
    CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"
    CONSUMER_PERF = "org.apache.kafka.tools.ConsumerPerformance"
    END_TO_END = "org.apache.kafka.tools.EndToEndLatency"
    DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
    METADATA_SHELL = "org.apache.kafka.shell.MetadataShell"


class ToolFailed(AssertionError):
    """A Kafka tool ended with an error; the text is all that it said."""


def free_ports(count: int) -> list[int]:
    """Ports on the loopback address that nobody listens on at this moment, all different."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in sockets]


def java_command(main_class: str, *arguments: str, flags: Sequence[str] = TOOL_FLAGS, log4j: Path | None = None) -> list[str]:
    """The command line of one of Kafka's programs."""
    logging = [f"-Dlog4j2.configurationFile={log4j or quiet_log4j()}"]
    return [str(java_home() / "bin" / "java"), *flags, *logging, "-cp", kafka_classpath(), main_class, *arguments]


def quiet_log4j() -> Path:
    """A logging set-up for tools: warnings to stderr, so that stdout is the tool's own."""
    path = Path(tempfile.gettempdir()) / f"moldau-tools-{os.getuid()}.log4j2.properties"
    if not path.exists():
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_text(QUIET_LOG4J.format(level="warn", target="SYSTEM_ERR"), encoding="utf-8")
        scratch.replace(path)
    return path


def run_tool(
    tool: str,
    *arguments: str,
    stdin: str | bytes = b"",
    timeout_s: float = TOOL_WITHIN_S,
    flags: Sequence[str] = TOOL_FLAGS,
    check: bool = True,
) -> str:
    """Run one of Kafka's programs to its end and return its stdout; raises ToolFailed with all it said when it fails."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    try:
        done = subprocess.run(java_command(tool, *arguments, flags=flags), input=given, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as error:
        said = [part.decode(errors="replace") for part in (error.stdout, error.stderr) if part]
        raise ToolFailed("\n".join([f"{tool} {' '.join(arguments)} did not end within {timeout_s:.0f} s", *said])) from None
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    if check and done.returncode != 0:
        raise ToolFailed(f"{tool} {' '.join(arguments)} ended with {done.returncode}\n{out}\n{err}")
    return out


def topics(bootstrap: str, *arguments: str) -> str:
    """kafka-topics against any broker."""
    return run_tool(Tool.TOPICS, "--bootstrap-server", bootstrap, *arguments)


def console_produce(bootstrap: str, topic: str, lines: Sequence[str], *arguments: str) -> str:
    """kafka-console-producer: every line one record."""
    text = "".join(f"{line}\n" for line in lines)
    return run_tool(Tool.CONSOLE_PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic, *arguments, stdin=text)


def console_consume(bootstrap: str, topic: str, *arguments: str, count: int, timeout_ms: int = 15_000) -> list[str]:
    """kafka-console-consumer by assignment (partition 0 unless told), from the start: the lines that it printed."""
    where = () if "--partition" in arguments or "--group" in arguments else ("--partition", "0")
    limits = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", str(timeout_ms))
    return run_tool(Tool.CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic, *where, *limits, *arguments).splitlines()


def formatted(bootstrap: str, topic: str, formatter: str) -> str:
    """kafka-console-consumer with one of Kafka's formatters, over every record that an internal topic has now.

    By assignment and by count: how long a machine needs to start a reader decides nothing, and the reader's own group leaves no trace.
    """
    printed = []
    for partition, count in sorted(offsets(bootstrap, topic).items()):
        if count:
            where = ("--partition", str(partition), "--formatter", formatter)
            printed += console_consume(bootstrap, topic, *where, count=count, timeout_ms=60_000)
    return "\n".join(printed)


def formatted_objects(bootstrap: str, topic: str, formatter: str) -> list[dict[str, dict[str, Any]]]:
    """What a formatter that prints JSON says of every record.  It writes one object right behind the other."""
    text = formatted(bootstrap, topic, formatter)
    found, decoder = [], json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        one, end = decoder.raw_decode(text, at)
        found.append(one)
        at = text.find("{", end)
    return found


def offsets(bootstrap: str, topic: str, *arguments: str) -> dict[int, int]:
    """kafka-get-offsets: partition → latest offset, or what `--time` asks for."""
    printed = run_tool(Tool.OFFSETS, "--bootstrap-server", bootstrap, "--topic", topic, *arguments)
    rows = [line.rsplit(":", 2) for line in printed.splitlines() if line.count(":") >= 2]
    return {int(partition): int(offset) for _, partition, offset in rows if offset}


def dump_log(*files: Path, arguments: Sequence[str] = ("--deep-iteration",)) -> str:
    """kafka-dump-log over segments, indexes, snapshots."""
    return run_tool(Tool.DUMP_LOG, "--files", ",".join(map(str, files)), *arguments)


class ApacheKafka:
    """One combined broker and controller of Apache Kafka 4.3.1.

    `with` starts it and waits until it answers; leaving stops it and removes its folder (a folder that was passed in stays).  The same with
    `async with`, which does the waiting in a thread.
    """

    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
        heap: str = "512m",
        features: Sequence[str] = (),
    ) -> None:
        self.owns_directory = directory is None
        self.directory = directory or Path(tempfile.mkdtemp(prefix="apache-kafka-"))
        self.port, self.controller_port = free_ports(2)
        self.heap = heap
        self.features = features
        self.extra = dict(properties or {})
        self.process: subprocess.Popen[bytes] | None = None
        self.launched_at = 0

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_dir(self) -> Path:
        """Where its partitions and `__cluster_metadata-0` lie."""
        return self.directory / "data"

    @property
    def log_text(self) -> str:
        """What the broker has said so far."""
        path = self.directory / "server.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker is not running"
        return self.process.pid

    def server_properties(self) -> dict[str, str]:
        """All options that it runs with."""
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
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

    def format(self) -> None:
        """Write `server.properties` and, on first use, format the folder."""
        self.directory.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{key}={value}\n" for key, value in self.server_properties().items())
        self.properties_file.write_text(lines, encoding="utf-8")
        (self.directory / "log4j2.properties").write_text(QUIET_LOG4J.format(level="info", target="SYSTEM_OUT"), encoding="utf-8")
        if not (self.log_dir / "meta.properties").exists():
            features = [argument for feature in self.features for argument in ("--feature", feature)]
            run_tool(Tool.STORAGE, "format", "-t", CLUSTER_ID, "-c", str(self.properties_file), "--standalone", *features)

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    def launch(self) -> None:
        """Start the broker's process and return at once."""
        assert self.process is None, "the broker is running already"
        self.launched_at = len(self.log_text)
        flags = (f"-Xms{self.heap}", f"-Xmx{self.heap}", *BROKER_FLAGS)
        command = java_command(Tool.BROKER, str(self.properties_file), flags=flags, log4j=self.directory / "log4j2.properties")
        with (self.directory / "server.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.directory)

    def wait_until_ready(self) -> None:
        """Until the broker says that it serves; raises ToolFailed with its log when it ends or takes too long."""
        assert self.process is not None, "launch the broker first"
        deadline = time.monotonic() + READY_WITHIN_S
        while READY_WORDS not in self.log_text[self.launched_at :]:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise ToolFailed(f"Apache Kafka did not start\n{self.log_text[-4000:]}")
            time.sleep(0.02)

    def start(self) -> None:
        """Format when new, start, wait until it serves.  Works again after `stop` or `kill`, on the same data and ports."""
        self.format()
        self.launch()
        self.wait_until_ready()

    def stop(self) -> None:
        """SIGTERM and wait; a broker that does not end is killed."""
        self.end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: the broker loses its process, the page cache keeps its writes."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        self.process.send_signal(how)
        try:
            self.process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def tool(self, tool: str, *arguments: str, stdin: str | bytes = b"", timeout_s: float = TOOL_WITHIN_S) -> str:
        """One of Kafka's programs against this broker (`--bootstrap-server` is added)."""
        return run_tool(tool, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin, timeout_s=timeout_s)

    def topics(self, *arguments: str) -> str:
        return topics(self.bootstrap, *arguments)

    def offsets(self, topic: str, *arguments: str) -> dict[int, int]:
        return offsets(self.bootstrap, topic, *arguments)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        if self.owns_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)
