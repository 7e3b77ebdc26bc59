"""Our tools beside Kafka's own, on a real Kafka and on its files: the same lines and the same exit codes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from proof.kafka.apache import ApacheKafka
from proof.kafka.twins import ours, theirs

pytestmark = [pytest.mark.slow, pytest.mark.java]

# Fields that change between two looks: metadata offsets, which grow by themselves, and times.
MOVING = re.compile(r"(HighWatermark: +|Epoch: )\d+")


def assert_same(tool: str, *arguments: str) -> str:
    expected, found = theirs(tool, *arguments), ours(tool, *arguments)
    assert found.exit_code == expected.exit_code, found
    assert MOVING.sub(r"\1…", found.out) == MOVING.sub(r"\1…", expected.out)
    return found.out


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    with ApacheKafka() as running:
        at = ("--bootstrap-server", running.bootstrap)
        assert ours("kafka-topics", *at, "--create", "--topic", "user-reg-events", "--config", "retention.ms=900000000").exit_code == 0
        assert ours("kafka-topics", *at, "--create", "--topic", "three", "--partitions", "3").exit_code == 0
        keyed = ("--reader-property", "parse.key=true")
        text = "".join(f"k{number}\tvalue {number}\n" for number in range(300))
        assert ours("kafka-console-producer", *at, "--topic", "three", *keyed, stdin=text).exit_code == 0
        assert theirs("kafka-console-producer", *at, "--topic", "user-reg-events", stdin="hello\nworld\n").exit_code == 0
        yield running


@pytest.mark.parametrize(
    "command",
    [
        "kafka-topics --list",
        "kafka-topics --describe --topic user-reg-events",
        "kafka-topics --describe --topic three",
        "kafka-topics --describe --topic nosuch",
        "kafka-topics --describe --under-replicated-partitions",
        "kafka-topics --describe --topic three --at-min-isr-partitions",
        "kafka-topics --create --topic three",
        "kafka-topics --create --topic three --if-not-exists",
        "kafka-topics --create --topic bad/name",
        "kafka-topics --create --topic x --replication-factor 3",
        "kafka-topics --alter --topic three --partitions 2",
        "kafka-topics --delete --topic nosuch",
        "kafka-configs --describe --topic user-reg-events",
        "kafka-configs --describe --topic user-reg-events --all",
        "kafka-configs --describe --topic nosuch",
        "kafka-configs --describe --topic nosuch --all",
        "kafka-configs --describe --topic no/such",
        "kafka-configs --describe --broker 9",
        "kafka-configs --describe --broker-logger 9",
        "kafka-configs --describe --client-metrics nosuch",
        "kafka-configs --describe --group nosuch",
        "kafka-configs --alter --broker-logger 1 --add-config nosuch=DEBUG,root=INFO",
        "kafka-configs --alter --client-metrics m --add-config interval.ms=1000",
        "kafka-configs --describe --entity-type client-metrics",
        "kafka-configs --describe --broker 1 --all",
        "kafka-configs --describe --entity-type brokers",
        "kafka-configs --alter --topic three --add-config cleanup.policy=[compact,delete],retention.ms=500000000",
        "kafka-configs --alter --topic three --delete-config retention.ms",
        "kafka-client-metrics --list",
        "kafka-client-metrics --describe",
        "kafka-client-metrics --describe --name nosuch",
        "kafka-client-metrics --alter --name slow --interval 1000 --metrics org.apache.kafka.consumer.,x --match client_id=a.*",
        "kafka-client-metrics --alter --name slow --interval 1",
        "kafka-client-metrics --delete --name slow",
        "kafka-get-offsets",
        "kafka-get-offsets --topic th.* --time earliest",
        "kafka-get-offsets --topic-partitions three:1-,user-reg-events:0 --time max-timestamp",
        "kafka-get-offsets --topic three --time bogus",
        "kafka-log-dirs --describe --topic-list user-reg-events",
        "kafka-metadata-quorum describe --status",
        "kafka-features describe",
        "kafka-features upgrade --feature group.version=9",
        "kafka-features version-mapping --release-version 4.0-IV3",
        "kafka-cluster cluster-id",
        "kafka-cluster list-endpoints",
        "kafka-broker-api-versions",
        "kafka-console-consumer --topic three --partition 1 --offset earliest --max-messages 9 --formatter-property print.key=true",
        "kafka-console-consumer --topic user-reg-events --from-beginning --max-messages 2 --formatter-property print.timestamp=true",
    ],
)
def test_same_lines_from_the_same_broker(kafka: ApacheKafka, command: str) -> None:
    tool, *arguments = command.split()
    at = ["--bootstrap-server", kafka.bootstrap]
    if "version-mapping" in arguments:
        at = []
    behind_action = tool == "kafka-cluster"
    assert_same(tool, *([arguments[0], *at, *arguments[1:]] if behind_action else [*at, *arguments]))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_java_reads_what_our_producer_compressed(kafka: ApacheKafka, codec: str) -> None:
    at = ("--bootstrap-server", kafka.bootstrap, "--topic", f"ours-{codec}")
    lines = "".join(f"record {number} {'of many ' * (number % 50)}\n" for number in range(2000))
    assert ours("kafka-topics", "--create", *at).exit_code == 0
    assert ours("kafka-console-producer", *at, "--compression-codec", codec, "--batch-size", "200000", stdin=lines).exit_code == 0
    assert theirs("kafka-console-consumer", *at, "--partition", "0", "--offset", "earliest", "--max-messages", "2000")[:2] == (0, lines)


def test_records_of_a_share_group(kafka: ApacheKafka) -> None:
    """Each pair of runs has a group of its own.  The second run gets the records that the first one released."""
    at = ("--bootstrap-server", kafka.bootstrap)
    shown = ("--formatter-property", "print.offset=true", "--formatter-property", "print.delivery=true")
    lines = []
    for group, first, second in (("ours", ours, ours), ("theirs", theirs, theirs), ("both", ours, theirs)):
        begins = ("--entity-type", "groups", "--entity-name", group, "--add-config", "share.auto.offset.reset=earliest")
        assert ours("kafka-configs", *at, "--alter", *begins).exit_code == 0
        reading = ("kafka-console-share-consumer", *at, "--topic", "user-reg-events", "--group", group, *shown)
        released = first(*reading, "--max-messages", "2", "--release")[:2]
        accepted = second(*reading, "--max-messages", "2", "--timeout-ms", "120000")[:2]
        lines.append((released, accepted))
    assert lines[0] == lines[1] == lines[2]
    assert lines[0] == ((0, "Offset:0\tDelivery:1\thello\nOffset:1\tDelivery:1\tworld\n"), (0, lines[0][0][1].replace("y:1", "y:2")))


def test_records_deleted_by_each(kafka: ApacheKafka, tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    path.write_text(json.dumps({"partitions": [{"topic": "three", "partition": 2, "offset": 3}], "version": 1}))
    shown = assert_same("kafka-delete-records", "--bootstrap-server", kafka.bootstrap, "--offset-json-file", str(path))
    assert "partition: three-2\tlow_watermark: 3" in shown


def test_same_lines_from_the_same_files(kafka: ApacheKafka) -> None:
    kafka.stop()
    try:
        data = kafka.log_dir
        logs = [path for folder in ("three-0", "three-1", "user-reg-events-0") for path in sorted((data / folder).glob("0*"))]
        assert {path.suffix for path in logs} >= {".log", ".index", ".timeindex", ".snapshot"}
        names = ",".join(map(str, logs))
        assert_same("kafka-dump-log", "--files", names)
        assert_same("kafka-dump-log", "--files", names, "--print-data-log")
        assert_same("kafka-dump-log", "--files", ",".join(str(path) for path in logs if "index" in path.suffix), "--index-sanity-check")
        metadata = ",".join(map(str, [*sorted((data / "__cluster_metadata-0").glob("0*.log")), data / "bootstrap.checkpoint"]))
        assert "REGISTER_BROKER_RECORD" in assert_same("kafka-dump-log", "--cluster-metadata-decoder", "--files", metadata)
        assert_same("kafka-storage", "info", "-c", str(kafka.properties_file))
    finally:
        kafka.start()
