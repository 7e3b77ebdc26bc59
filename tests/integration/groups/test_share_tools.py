"""Kafka's share-group tool and ours on our broker: the same lines; Kafka's formatter and dump tool on our `__share_group_state`."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from moldau.protocol.messages import alter_share_group_offsets as alter
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from moldau.testing.process import BrokerProcess
from moldau.tools.cli.main import main
from proof.kafka.apache import Tool, formatted_objects, run_tool
from proof.kafka.differential import RawClient

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("groups")]

SHARE_TOOL = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SHARE_STATE_FORMATTER = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"
WITHIN_S = 120.0


class Member:
    """Sends the heartbeats of a share consumer; reads nothing."""

    def __init__(self, broker: BrokerProcess, group_id: str) -> None:
        self.client = RawClient(("127.0.0.1", broker.port))
        self.group_id = group_id
        self.epoch = 0

    def beat(self, *names: str) -> int:
        """Sends a heartbeat; returns how many partitions the member has."""
        request = ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id="member-of-" + self.group_id[:20], member_epoch=self.epoch, subscribed_topic_names=list(names)
        )
        answer: Any = self.client.ask(request, 1)
        if answer.error_code:  # the coordinator's topic is being made
            return 0
        self.epoch = answer.member_epoch
        return sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)

    def settle(self, count: int, *names: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while self.beat(*names) != count:
            assert time.monotonic() < deadline, "no assignment"
            time.sleep(0.5)


@pytest.fixture
def groups(broker: BrokerProcess, topic: str) -> Iterator[tuple[str, str, Member]]:
    """A group with a member, and a group without members that has offsets."""
    busy, idle = f"busy-{topic}", f"idle-{topic}"
    member = Member(broker, busy)
    member.client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[busy]), 6)  # the broker creates the topic of groups
    member.settle(4, topic)
    partitions = [alter.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=0) for index in range(3)]
    topics = [alter.AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)]
    answer: Any = member.client.ask(alter.AlterShareGroupOffsetsRequest(group_id=idle, topics=topics), 0)
    assert not answer.error_code
    yield busy, idle, member
    member.client.close()


def lines(text: str) -> list[str]:
    """The lines, sorted: Kafka's rows come in the order of its hash maps."""
    return sorted(line for line in text.splitlines() if line.strip())


def test_our_tool_prints_what_kafkas_prints(
    broker: BrokerProcess, groups: tuple[str, str, Member], topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    busy, idle, member = groups
    for command in (
        "--list --state",
        f"--describe --group {busy}",
        f"--describe --group {idle} --verbose",
        f"--describe --group {busy} --group {idle} --members --verbose",
        f"--describe --group {busy} --state",
        f"--describe --group {idle} --state --verbose",
        "--describe --group nosuch",
        f"--reset-offsets --group {idle} --topic {topic}:0,3 --to-latest --dry-run",
        f"--reset-offsets --group {idle} --all-topics --to-earliest --execute",
        f"--reset-offsets --group {busy} --all-topics --to-earliest --execute",
        f"--delete --group nosuch --group {busy}",
    ):
        arguments = ["--bootstrap-server", broker.bootstrap, *command.split()]
        member.beat(topic)  # keeps the session: Java takes its time
        theirs = run_tool(SHARE_TOOL, *arguments, check=False)
        capsys.readouterr()
        main(["kafka-share-groups", *arguments])
        assert lines(capsys.readouterr().out) == lines(theirs), command
    printed = run_tool(SHARE_TOOL, "--bootstrap-server", broker.bootstrap, "--delete-offsets", "--group", idle, "--topic", topic)
    assert [line.split() for line in lines(printed)] == [["TOPIC", "STATUS"], [topic, "Successful"]]
    assert main(["kafka-share-groups", "--bootstrap-server", broker.bootstrap, "--delete", "--group", idle]) == 0
    assert capsys.readouterr().out == f"Deletion of requested share groups ('{idle}') was successful.\n"


def test_kafkas_tools_read_our_state_topic(broker: BrokerProcess, groups: tuple[str, str, Member]) -> None:
    busy, idle, _ = groups
    segments = sorted(broker.log_dir.glob("__share_group_state-*/*.log"))
    printed = run_tool(Tool.DUMP_LOG, "--share-group-state-decoder", "--files", ",".join(map(str, segments)))
    assert f'"groupId":"{busy}"' in printed
    assert '"snapshotEpoch":0' in printed
    assert "Error" not in printed
    found = formatted_objects(broker.bootstrap, "__share_group_state", SHARE_STATE_FORMATTER)
    of_idle = [one for one in found if one["key"]["data"]["groupId"] == idle]
    assert {one["key"]["data"]["partition"] for one in of_idle} == {0, 1, 2}
    assert all(one["value"]["data"]["startOffset"] == 0 for one in of_idle)
