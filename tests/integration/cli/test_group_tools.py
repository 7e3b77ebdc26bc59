"""Kafka's group tools, ours, on groups that are not there or are of another type."""

from collections.abc import Iterator

import pytest

from moldau.testing.process import BrokerProcess
from proof.kafka.twins import ours

pytestmark = pytest.mark.slow

SHARED = "share-of-orders"
UNHOSTED = "This server does not host this topic-partition."


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as running:
        at = ("--bootstrap-server", running.bootstrap)
        assert ours("kafka-topics", *at, "--create", "--topic", "orders", "--partitions", "2").exit_code == 0
        reset = ("--reset-offsets", "--group", SHARED, "--topic", "orders", "--to-earliest", "--execute")
        made = ours("kafka-share-groups", *at, *reset)
        assert (made.exit_code, made.err) == (0, ""), made
        yield running


@pytest.mark.parametrize(
    ("command", "code", "lines"),
    [
        (
            "kafka-share-groups --reset-offsets --group nosuch --topic orders:1 --to-earliest --dry-run",
            0,
            ["GROUP TOPIC PARTITION NEW-OFFSET", "nosuch orders 1 0"],
        ),
        (
            f"kafka-share-groups --reset-offsets --group {SHARED} --topic nosuch --to-earliest --dry-run",
            0,
            [f"Error: Executing share group command failed due to {UNHOSTED}"],
        ),
        (
            "kafka-streams-groups --reset-offsets --group nosuch --input-topic orders --to-latest --dry-run",
            0,
            ["Error: One or more topics are not part of the group 'nosuch'.", "GROUP TOPIC PARTITION NEW-OFFSET"],
        ),
        (
            "kafka-streams-groups --reset-offsets --group nosuch --input-topic nosuch --to-latest --dry-run",
            1,
            [f"Error: Executing streams group command failed due to {UNHOSTED}"],
        ),
        (
            "kafka-consumer-groups --delete-offsets --group nosuch --topic nosuch",
            0,
            [
                "Error: The group id does not exist.",
                "TOPIC PARTITION STATUS",
                f"nosuch - Error: org.apache.kafka.common.errors.UnknownTopicOrPartitionException: {UNHOSTED}",
            ],
        ),
        (
            f"kafka-consumer-groups --describe --group {SHARED}",
            0,
            [
                "Error: Executing consumer group command failed due to org.apache.kafka.common.errors.GroupIdNotFoundException: "
                f"Group {SHARED} is not a consumer group."
            ],
        ),
    ],
)
def test_as_kafkas_tools_do(broker: BrokerProcess, command: str, code: int, lines: list[str]) -> None:
    tool, *arguments = command.split()
    done = ours(tool, "--bootstrap-server", broker.bootstrap, *arguments)
    assert [" ".join(line.split()) for line in done.out.splitlines() if line] == lines
    assert (done.exit_code, done.err) == (code, "")
