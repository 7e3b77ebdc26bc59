"""Kafka's streams-group tool and ours on our broker: the same lines; Kafka's dump tool on a streams group's records."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from moldau.testing.process import BrokerProcess
from moldau.tools.cli.main import main
from proof.groups.topologies import subtopology, topology
from proof.kafka.apache import Tool, run_tool
from proof.kafka.differential import RawClient

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("groups")]

STREAMS_TOOL = "org.apache.kafka.tools.streams.StreamsGroupCommand"
WITHIN_S = 60.0


class Program:
    """Sends the heartbeats of a streams thread; computes nothing."""

    def __init__(self, broker: BrokerProcess, group_id: str, topic: str) -> None:
        self.client = RawClient(("127.0.0.1", broker.port))
        self.group_id = group_id
        self.topology = topology(
            subtopology("0", [topic], sinks=[f"{group_id}-repartition"]),
            subtopology("1", repartition=[f"{group_id}-repartition"], changelogs=[f"{group_id}-counts-changelog"]),
        )
        self.member_id = f"member-of-{group_id[:20]}"

    def beat(self) -> Any:
        """Joins anew every time, because the answer then has all tasks."""
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=0,
            endpoint_information_epoch=0,
            topology=self.topology,
            process_id="process",
            rebalance_timeout_ms=60_000,
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            client_tags=[],
        )
        return self.client.ask(request, 0)

    def settle(self) -> None:
        self.client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id]), 6)  # the broker creates the topic of groups
        deadline = time.monotonic() + WITHIN_S
        while not (answer := self.beat()).active_tasks:
            assert time.monotonic() < deadline, answer
            time.sleep(0.2)

    def leave(self) -> None:
        leaving = StreamsGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=-1, endpoint_information_epoch=0
        )
        answer: Any = self.client.ask(leaving, 0)
        assert not answer.error_code, answer

    def commit(self, topic: str, *partitions: int) -> None:
        asked = [OffsetCommitRequestPartition(partition_index=index, committed_offset=0, committed_metadata="") for index in partitions]
        request = OffsetCommitRequest(
            group_id=self.group_id,
            member_id="",
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=asked)],
        )
        answer: Any = self.client.ask(request, 9)
        assert not any(one.error_code for one in answer.topics[0].partitions), answer


@pytest.fixture
def programs(broker: BrokerProcess, topic: str) -> Iterator[tuple[Program, Program]]:
    """A program that runs, and a program that is stopped and has offsets."""
    busy, idle = Program(broker, f"busy-{topic}", topic), Program(broker, f"idle-{topic}", topic)
    for each in (busy, idle):
        each.settle()
    idle.leave()
    idle.commit(topic, 0, 1, 3)
    yield busy, idle
    busy.client.close()
    idle.client.close()


def lines(text: str) -> list[str]:
    """The lines, sorted: Kafka's rows come in the order of its hash maps."""
    return sorted(line for line in text.splitlines() if line.strip())


def test_our_tool_prints_what_kafkas_prints(
    broker: BrokerProcess, programs: tuple[Program, Program], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    busy, idle = (each.group_id for each in programs)
    for command in (
        "--list --state",
        f"--describe --group {busy} --group {idle} --verbose",
        f"--describe --group {busy} --group {idle} --members --verbose",
        f"--describe --group {busy} --group {idle} --state --verbose",
        "--describe --group nosuch",
        f"--reset-offsets --group {idle} --group {busy} --all-input-topics --to-latest --dry-run",
        f"--reset-offsets --group {idle} --input-topic {topic}:0,3 --shift-by 1 --execute --export",
        f"--delete-offsets --group {idle} --input-topic {topic}:0,3",
        f"--delete --group nosuch --group {busy}",
    ):
        arguments = ["--bootstrap-server", broker.bootstrap, *command.split()]
        programs[0].beat()  # keeps the session: Java takes its time
        theirs = run_tool(STREAMS_TOOL, *arguments, check=False)
        capsys.readouterr()
        if "delete-offsets" in command:
            programs[1].commit(topic, 0, 3)  # Kafka's tool has deleted these offsets
        main(["kafka-streams-groups", *arguments])
        assert lines(capsys.readouterr().out) == lines(theirs), command
    arguments = ["--bootstrap-server", broker.bootstrap, "--delete", "--group", idle, "--delete-all-internal-topics"]
    assert main(["kafka-streams-groups", *arguments]) == 0
    assert capsys.readouterr().out == (
        f"Deletion of requested streams groups ('{idle}') was successful.\n"
        f"Deletion of associated internal topics of the streams groups ('{idle}') was successful.\n"
    )
    assert main(["groups", "members", busy, "--bootstrap-server", broker.bootstrap]) == 0
    assert f"{topic}:0,1,2,3" in capsys.readouterr().out


def test_kafkas_dump_tool_reads_a_streams_groups_records(broker: BrokerProcess, programs: tuple[Program, Program]) -> None:
    segments = sorted(broker.log_dir.glob("__consumer_offsets-*/*.log"))
    printed = run_tool(Tool.DUMP_LOG, "--offsets-decoder", "--files", ",".join(map(str, segments)))
    of_group = [line for line in printed.splitlines() if f'"groupId":"{programs[0].group_id}"' in line]
    kinds = {json.loads(line.split(" key: ")[1].split(" payload: ")[0])["type"] for line in of_group}
    assert kinds == {"17", "19", "20", "21", "22", "23"}
    assert '"subtopologyId":"1","partitions":[0,1,2,3],"assignmentEpochs":' in printed
