"""● Runs one of Kafka's tools and ours of the same name as a user runs them, to compare their output and exit codes."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

from proof.kafka.apache import TOOL_WITHIN_S, java_command

CLASSES: Final = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-share-consumer-perf-test": "org.apache.kafka.tools.ShareConsumerPerformance",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
}
"""The Java class of each tool."""


class Ended(NamedTuple):
    exit_code: int
    out: str
    err: str


def theirs(tool: str, *arguments: str, stdin: str = "") -> Ended:
    return _run(java_command(CLASSES[tool], *arguments), stdin)


def ours(tool: str, *arguments: str, stdin: str = "") -> Ended:
    return _run([sys.executable, "-m", "moldau.tools.cli.main", tool, *arguments], stdin)


def _run(command: Sequence[str], stdin: str) -> Ended:
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TOOL_WITHIN_S, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)
