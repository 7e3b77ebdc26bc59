"""Kafka's own programs and our groups: its console consumer as a member, its tools, its decoders on our `__consumer_offsets`."""

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from moldau.testing.process import BrokerProcess
from moldau.tools.cli.main import main
from proof.kafka.apache import Tool, formatted_objects, java_command, run_tool

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("groups")]

Produce = Callable[..., list[bytes]]
GROUPS_TOOL = "org.apache.kafka.tools.GroupsCommand"


@pytest.fixture(scope="module")
def java_member(broker: BrokerProcess) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    running: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> "subprocess.Popen[str]":
        command = java_command(Tool.CONSOLE_CONSUMER, "--bootstrap-server", broker.bootstrap, *arguments)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_and_librdkafka_share_a_group(crowd, java_member, topic: str, produce: Produce, protocol: str) -> None:
    group_id = "g-" + topic
    strategy = {} if protocol == "consumer" else {"partition.assignment.strategy": "range"}
    crowd.join(group_id, topic, **{"group.protocol": protocol}, **strategy)
    crowd.settles(4)
    settings = ["--command-property", f"group.protocol={protocol}", "--from-beginning"]
    java = java_member("--topic", topic, "--group", group_id, *settings, "--max-messages", "20")
    crowd.wait_for(lambda: crowd.partitions() == [[0, 1]] or crowd.partitions() == [[2, 3]], "half of the partitions for Java")
    values = produce(topic, 40)
    crowd.wait_for(lambda: len(crowd.seen) >= 20, "reading our half")
    lines = java.communicate(timeout=60)[0].split()
    assert sorted([*(line.encode() for line in lines), *crowd.values()]) == values


@pytest.fixture
def group(crowd, topic: str, produce: Produce) -> str:
    """A group with two members that have read and committed everything.  Beside it there is a group without members."""
    produce(topic, 40)
    group_id = "g-" + topic
    crowd.join(group_id, topic, **{"client.id": "one"})
    crowd.join(group_id, topic, **{"client.id": "two", "group.instance.id": "static-two"})
    crowd.settles(2, 2)
    crowd.wait_for(lambda: len(crowd.seen) >= 40, "reading")
    for consumer in crowd.consumers:
        offsets = [TopicPartition(topic, one.partition, 10) for one in consumer.assignment()]
        consumer.commit(offsets=offsets, asynchronous=False)
    idle = Consumer({"bootstrap.servers": crowd.bootstrap, "group.id": f"idle-{topic}", "enable.auto.commit": False})
    idle.commit(offsets=[TopicPartition(topic, 0, 3), TopicPartition(topic, 1, 10)], asynchronous=False)
    idle.close()
    return group_id


def lines(text: str) -> list[str]:
    """The lines, sorted: Kafka's rows come in the order of its hash maps."""
    return sorted(line for line in text.splitlines() if line.strip())


def test_our_tools_print_what_kafkas_print(broker: BrokerProcess, group: str, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    idle = f"idle-{topic}"
    asked = [
        (Tool.GROUPS, "kafka-consumer-groups", ["--list", "--state", "--type"]),
        (Tool.GROUPS, "kafka-consumer-groups", ["--describe", "--group", group, "--verbose"]),
        (Tool.GROUPS, "kafka-consumer-groups", ["--describe", "--group", group, "--members", "--verbose"]),
        (Tool.GROUPS, "kafka-consumer-groups", ["--describe", "--group", group, "--state", "--verbose"]),
        (Tool.GROUPS, "kafka-consumer-groups", ["--describe", "--group", idle]),
        (Tool.GROUPS, "kafka-consumer-groups", ["--reset-offsets", "--group", idle, "--topic", topic, "--shift-by", "1", "--dry-run"]),
        (Tool.GROUPS, "kafka-consumer-groups", ["--reset-offsets", "--group", idle, "--all-topics", "--to-offset", "1", "--export"]),
        (Tool.GROUPS, "kafka-consumer-groups", ["--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--dry-run"]),
        (Tool.GROUPS, "kafka-consumer-groups", ["--delete", "--group", group]),
        (GROUPS_TOOL, "kafka-groups", ["--list"]),
    ]  # fmt: skip
    for tool, twin, arguments in asked:
        theirs = run_tool(tool, "--bootstrap-server", broker.bootstrap, *arguments, check=False)
        capsys.readouterr()
        main([twin, "--bootstrap-server", broker.bootstrap, *arguments])
        assert lines(capsys.readouterr().out) == lines(theirs), arguments


def test_kafkas_formatters_read_our_offsets_topic(broker: BrokerProcess, group: str, topic: str) -> None:
    def read_by(name: str) -> list[dict[str, dict[str, Any]]]:
        return formatted_objects(broker.bootstrap, "__consumer_offsets", f"org.apache.kafka.tools.consumer.{name}")

    offsets = [one for one in read_by("OffsetsMessageFormatter") if one["key"]["data"]["group"] == group]
    assert {(one["key"]["data"]["partition"], one["value"]["data"]["offset"]) for one in offsets} >= {(index, 10) for index in range(4)}
    groups = [one for one in read_by("GroupMetadataMessageFormatter") if one["key"]["data"]["group"] == group]
    assert len(groups[-1]["value"]["data"]["members"]) == 2


def test_kafkas_dump_tool_decodes_our_offsets_topic(broker: BrokerProcess, group: str) -> None:
    segments = sorted(broker.log_dir.glob("__consumer_offsets-*/*.log"))
    printed = run_tool(Tool.DUMP_LOG, "--offsets-decoder", "--files", ",".join(map(str, segments)))
    assert f'"group":"{group}"' in printed
    assert '"protocolType":"consumer"' in printed
    assert "Error" not in printed


@pytest.mark.parametrize(
    "ends", [[True], [True, False], [True, False, True]], ids=lambda ends: "-".join("commit" if one else "abort" for one in ends)
)
def test_the_lag_of_a_group_that_commits_in_transactions_is_shown(
    broker: BrokerProcess, topic: str, produce: Produce, ends: list[bool]
) -> None:
    produce(topic, 40)
    group_id = "g-" + topic
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group_id})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": group_id})
    producer.init_transactions(30)
    for offset, is_commit in enumerate(ends, 1):
        producer.begin_transaction()
        offsets = [TopicPartition(topic, partition, offset) for partition in range(4)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        (producer.commit_transaction if is_commit else producer.abort_transaction)(30)
    committed = max(offset for offset, is_commit in enumerate(ends, 1) if is_commit)
    told = run_tool(Tool.GROUPS, "--bootstrap-server", broker.bootstrap, "--describe", "--group", group_id)
    rows = [line.split() for line in told.splitlines() if line.startswith(group_id)]
    assert sorted(row[1:6] for row in rows) == [[topic, str(each), str(committed), "10", str(10 - committed)] for each in range(4)]
    consumer.close()
