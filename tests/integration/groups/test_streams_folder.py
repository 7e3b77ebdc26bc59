"""A streams group goes on where it was when Apache Kafka takes over the folder, and when we take it back."""

from pathlib import Path
from typing import Any

import pytest

from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_groups import DeleteGroupsRequest
from moldau.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from moldau.testing.process import BrokerProcess
from proof.groups.topologies import spelled
from proof.kafka.apache import ApacheKafka
from proof.kafka.differential import RawClient
from tests.integration.groups.test_streams_tools import Program

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("groups")]

PROPERTIES = {"group.streams.initial.rebalance.delay.ms": "0"}
EVERYTHING = {"0": [0, 1, 2, 3], "1": [0, 1, 2, 3]}


def described(node: BrokerProcess | ApacheKafka, program: Program) -> tuple[str, int, dict[str, list[int]] | None]:
    """The group's state and epoch and its only member's tasks, once the coordinator has loaded its log."""
    program.client.close()
    program.client = RawClient(("127.0.0.1", node.port))
    program.settle()
    request = StreamsGroupDescribeRequest(group_ids=[program.group_id], include_authorized_operations=False)
    answer: Any = program.client.ask(request, 0)
    (group,) = answer.groups
    (member,) = group.members
    return group.group_state, group.group_epoch, spelled(member.assignment.active_tasks)


def test_kafka_goes_on_with_our_group_and_we_with_kafkas(tmp_path: Path) -> None:
    ours, kafka = BrokerProcess(directory=tmp_path, properties=PROPERTIES), ApacheKafka(directory=tmp_path, properties=PROPERTIES)
    kafka.port, kafka.controller_port = ours.port, ours.controller_port
    try:
        ours.start()
        client = RawClient(("127.0.0.1", ours.port))
        topic = CreatableTopic(name="lines", num_partitions=4, replication_factor=1, assignments=[], configs=[])
        client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        program, gone = Program(ours, "word-count", "lines"), Program(ours, "gone", "lines")
        gone.settle()
        gone.leave()
        answer: Any = client.ask(DeleteGroupsRequest(groups_names=["gone"]), 2)
        assert not answer.results[0].error_code
        state, epoch, held = described(ours, program)
        assert (state, held) == ("Stable", EVERYTHING)
        ours.stop()
        kafka.start()
        state, later, held = described(kafka, program)
        assert (state, held) == ("Stable", EVERYTHING)
        assert later == epoch + 1, "Kafka hashes topics in another way, so they count as changed once"
        kafka.stop()
        ours.start()
        assert described(ours, program) == ("Stable", later + 1, EVERYTHING)
    finally:
        ours.stop()
        kafka.stop()
