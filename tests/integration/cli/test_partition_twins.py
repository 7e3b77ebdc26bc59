"""`moldau kafka-leader-election` and `moldau kafka-reassign-partitions` beside Kafka's own: the same lines and the same exit codes.

All of them run on a Kafka and on a broker of ours, each with two folders.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.testing.child import NodeProcess
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka
from proof.kafka.twins import Ended, ours, theirs

pytestmark = [pytest.mark.slow, pytest.mark.java]

WITHIN_S = 60.0
FOLDERS = re.compile(r'"log_dirs":\[[^]]*\]')
"""The folders differ, because the second tool finds the replicas that the first one has moved."""


@pytest.fixture(scope="module", params=[ApacheKafka, BrokerProcess])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder = tmp_path_factory.mktemp("node")
    with request.param(directory=folder / "node", properties={"log.dirs": f"{folder}/one,{folder}/two"}) as running:
        at = ("--bootstrap-server", running.bootstrap)
        assert ours("kafka-topics", *at, "--create", "--topic", "three", "--partitions", "3").exit_code == 0
        (folder / "topics.json").write_text(json.dumps({"topics": [{"topic": "three"}]}))
        (folder / "ghosts.json").write_text(json.dumps({"topics": [{"topic": "nosuch"}]}))
        (folder / "some.json").write_text(json.dumps({"partitions": [{"topic": "three", "partition": index} for index in (1, 7)]}))
        (folder / "elsewhere.json").write_text(a_plan(("three", 0, [9])))
        (folder / "wider.json").write_text(a_plan(("three", 9, [1])))
        (folder / "twice.json").write_text(a_plan(("three", 0, [1]), ("three", 0, [1])))
        (folder / "stay.json").write_text(a_plan(("three", 0, [1])))
        yield running


def a_plan(*rows: tuple[str, int, list[int]], folders: list[str] | None = None) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": brokers} for topic, index, brokers in rows]
    return json.dumps({"version": 1, "partitions": [{**one, "log_dirs": folders} if folders else one for one in partitions]})


def folder_of(node: NodeProcess) -> Path:
    return node.directory.parent


def told(ended: Ended) -> tuple[int, str]:
    """The exit code and the output, without the trace that a Java program prints of its errors."""
    out, error, _ = ended.out.partition("Error: ")
    return ended.exit_code, FOLDERS.sub('"log_dirs":…', out + (error + ended.out[len(out + error) :].partition("\n")[0]))


@pytest.mark.parametrize(
    "command",
    [
        "kafka-leader-election --election-type preferred --all-topic-partitions",
        "kafka-leader-election --election-type preferred --topic three --partition 1",
        "kafka-leader-election --election-type unclean --path-to-json-file some.json",
        "kafka-leader-election --election-type preferred --topic three",
        "kafka-reassign-partitions --list",
        "kafka-reassign-partitions --list --broker-list 1",
        "kafka-reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 1",
        "kafka-reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 7",
        "kafka-reassign-partitions --generate --topics-to-move-json-file ghosts.json --broker-list 1",
        "kafka-reassign-partitions --execute --reassignment-json-file elsewhere.json",
        "kafka-reassign-partitions --execute --reassignment-json-file wider.json",
        "kafka-reassign-partitions --execute --reassignment-json-file twice.json",
        "kafka-reassign-partitions --execute --reassignment-json-file stay.json --throttle 5000000 --disallow-replication-factor-change",
        "kafka-reassign-partitions --verify --reassignment-json-file stay.json",
        "kafka-reassign-partitions --verify --reassignment-json-file elsewhere.json --preserve-throttles",
        "kafka-reassign-partitions --cancel --reassignment-json-file stay.json",
    ],
)
def test_same_lines_from_the_same_broker(node: NodeProcess, command: str) -> None:
    tool, *arguments = (str(folder_of(node) / word) if word.endswith(".json") else word for word in command.split())
    at = ("--bootstrap-server", node.bootstrap)
    assert told(ours(tool, *at, *arguments)) == told(theirs(tool, *at, *arguments))


def test_a_replica_moved_to_another_folder_by_each(node: NodeProcess) -> None:
    at = ("--bootstrap-server", node.bootstrap)
    path = folder_of(node) / "move.json"
    said = {}
    for tool in (ours, theirs):
        current = json.loads(ours("kafka-log-dirs", *at, "--describe", "--topic-list", "three").out.splitlines()[-1])["brokers"][0][
            "logDirs"
        ]
        here = next(one["logDir"] for one in current if any(each["partition"] == "three-2" for each in one["partitions"]))
        there = next(one["logDir"] for one in current if one["logDir"] != here)
        path.write_text(a_plan(("three", 2, [1]), folders=[there]))
        plan = ("--reassignment-json-file", str(path))
        begun = tool("kafka-reassign-partitions", *at, "--execute", *plan, "--replica-alter-log-dirs-throttle", "90000000")
        assert f"Successfully started moving log directory to {there} for replica three-2 with broker 1" in begun.out
        deadline = time.monotonic() + WITHIN_S
        while "in progress" in (done := ours("kafka-reassign-partitions", *at, "--verify", *plan)).out:
            assert time.monotonic() < deadline, done.out
        assert "Reassignment of replica three-2-1 completed successfully." in done.out
        said[tool] = (told(begun), told(tool("kafka-reassign-partitions", *at, "--verify", *plan)))
        said[tool] = json.loads(json.dumps(said[tool]).replace(there, "there").replace(here, "here"))
    assert said[ours] == said[theirs]
