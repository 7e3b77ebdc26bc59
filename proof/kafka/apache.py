"""● A real Apache Kafka beside us: one node as a process of its own, and Kafka's tools as plain function calls.

Tests take its answers for the right ones, benchmarks measure beside it.

    with ApacheKafka(properties={"auto.create.topics.enable": "false"}) as kafka:
        kafka.topics("--create", "--topic", "t", "--partitions", "4")
        client = Producer({"bootstrap.servers": kafka.bootstrap})

The tools work on any broker and on any folder of files, ours too: `run_tool(Tool.DUMP_LOG, "--files", path)`.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from moldau.testing.child import CLUSTER_ID, NodeProcess
from proof.kafka.provision import java_home, kafka_classpath

TOOL_WITHIN_S = 180.0
READY_WORDS = "Kafka Server started"
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
    LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
    FEATURES = "org.apache.kafka.tools.FeatureCommand"
    CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
    CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    PRODUCER_PERF = "org.apache.kafka.tools.ProducerPerformance"
    CONSUMER_PERF = "org.apache.kafka.tools.ConsumerPerformance"
    DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
    METADATA_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
    REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    METADATA_SHELL = "org.apache.kafka.shell.MetadataShell"


class ToolFailed(AssertionError):
    """A Kafka tool ended with an error.  The text is all its output."""


def java_command(main_class: str, *arguments: str, flags: Sequence[str] = TOOL_FLAGS, log4j: Path | None = None) -> list[str]:
    """The command line of one of Kafka's programs."""
    logging = [f"-Dlog4j2.configurationFile={log4j or quiet_log4j()}"]
    return [str(java_home() / "bin" / "java"), *flags, *logging, "-cp", kafka_classpath(), main_class, *arguments]


def quiet_log4j() -> Path:
    """A logging set-up for tools: warnings go to stderr, so that stdout is the tool's own."""
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
    """Run one of Kafka's programs to its end and return its stdout.  Errors: ToolFailed with all its output when it fails."""
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
    """Run kafka-topics against any broker."""
    return run_tool(Tool.TOPICS, "--bootstrap-server", bootstrap, *arguments)


def console_produce(bootstrap: str, topic: str, lines: Sequence[str], *arguments: str) -> str:
    """Run kafka-console-producer.  Every line becomes one record."""
    text = "".join(f"{line}\n" for line in lines)
    return run_tool(Tool.CONSOLE_PRODUCER, "--bootstrap-server", bootstrap, "--topic", topic, *arguments, stdin=text)


def console_consume(bootstrap: str, topic: str, *arguments: str, count: int, timeout_ms: int = 60_000) -> list[str]:
    """Run kafka-console-consumer by assignment (partition 0 unless told), from the start.  Returns the lines that it printed."""
    where = () if "--partition" in arguments or "--group" in arguments else ("--partition", "0")
    limits = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", str(timeout_ms))
    return run_tool(Tool.CONSOLE_CONSUMER, "--bootstrap-server", bootstrap, "--topic", topic, *where, *limits, *arguments).splitlines()


def formatted(bootstrap: str, topic: str, formatter: str) -> str:
    """Run kafka-console-consumer with one of Kafka's formatters over every record that an internal topic has now.

    It reads by assignment and by count, so that no result depends on the time that a reader needs to start, and no group leaves a trace.
    """
    printed = []
    for partition, count in sorted(offsets(bootstrap, topic).items()):
        if count:
            where = ("--partition", str(partition), "--formatter", formatter)
            printed += console_consume(bootstrap, topic, *where, count=count)
    return "\n".join(printed)


def formatted_objects(bootstrap: str, topic: str, formatter: str) -> list[dict[str, dict[str, Any]]]:
    """The JSON objects that a formatter prints, one right behind the other."""
    text = formatted(bootstrap, topic, formatter)
    found, decoder = [], json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        one, end = decoder.raw_decode(text, at)
        found.append(one)
        at = text.find("{", end)
    return found


def offsets(bootstrap: str, topic: str, *arguments: str) -> dict[int, int]:
    """Run kafka-get-offsets.  Returns partition → latest offset, or the offset that `--time` asks for."""
    printed = run_tool(Tool.OFFSETS, "--bootstrap-server", bootstrap, "--topic", topic, *arguments)
    rows = [line.rsplit(":", 2) for line in printed.splitlines() if line.count(":") >= 2]
    return {int(partition): int(offset) for _, partition, offset in rows if offset}


def dump_log(*files: Path, arguments: Sequence[str] = ("--deep-iteration",)) -> str:
    """Run kafka-dump-log over segments, indexes or snapshots."""
    return run_tool(Tool.DUMP_LOG, "--files", ",".join(map(str, files)), *arguments)


class ApacheKafka(NodeProcess):
    """One combined broker and controller of Apache Kafka 4.3.1."""

    name = "Apache Kafka"

    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
        heap: str = "512m",
        features: Sequence[str] = (),
    ) -> None:
        super().__init__(properties=properties, directory=directory)
        self.heap = heap
        self.features = features

    @property
    def log4j(self) -> Path:
        return self.directory / "log4j2.properties"

    def prepare(self) -> None:
        super().prepare()
        self.log4j.write_text(QUIET_LOG4J.format(level="info", target="SYSTEM_OUT"), encoding="utf-8")

    def format_folder(self) -> None:
        features = [argument for feature in self.features for argument in ("--feature", feature)]
        run_tool(Tool.STORAGE, "format", "-t", CLUSTER_ID, "-c", str(self.properties_file), "--standalone", *features)

    def leave(self) -> None:
        """End the broker with SIGTERM: it gets a moment to close its files."""
        self.stop()

    def command(self) -> Sequence[str]:
        flags = (f"-Xms{self.heap}", f"-Xmx{self.heap}", *BROKER_FLAGS)
        return java_command(Tool.BROKER, str(self.properties_file), flags=flags, log4j=self.log4j)

    def is_ready(self) -> bool:
        return READY_WORDS in self.said

    def tool(self, tool: str, *arguments: str, stdin: str | bytes = b"", timeout_s: float = TOOL_WITHIN_S) -> str:
        """Run one of Kafka's programs against this broker (`--bootstrap-server` is added)."""
        return run_tool(tool, "--bootstrap-server", self.bootstrap, *arguments, stdin=stdin, timeout_s=timeout_s)

    def topics(self, *arguments: str) -> str:
        return topics(self.bootstrap, *arguments)

    def offsets(self, topic: str, *arguments: str) -> dict[int, int]:
        return offsets(self.bootstrap, topic, *arguments)


class ApacheController(ApacheKafka):
    """One controller of Apache Kafka 4.3.1, without a broker; `voters` is what `--initial-controllers` takes.

    A controller serves once the quorum has a leader: launch all controllers, then wait.
    """

    name = "a controller of Apache Kafka"

    def __init__(self, node_id: int, *, voters: str = "", properties: Mapping[str, str] | None = None, heap: str = "256m") -> None:
        super().__init__(properties=properties, heap=heap)
        self.node_id = node_id
        self.voters = voters

    def server_properties(self) -> dict[str, str]:
        servers = ",".join(one.partition("@")[2].rpartition(":")[0] for one in self.voters.split(","))
        return {
            "process.roles": "controller",
            "node.id": str(self.node_id),
            "controller.quorum.bootstrap.servers": servers,
            "listeners": f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.log_dir),
            **self.extra,
        }

    def format_folder(self) -> None:
        run_tool(Tool.STORAGE, "format", "-t", CLUSTER_ID, "-c", str(self.properties_file), "--initial-controllers", self.voters)
