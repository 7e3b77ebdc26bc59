"""The texts that kafka-consumer-groups --reset-offsets takes."""

from pathlib import Path
from typing import Any

import pytest

from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.protocol.wire import Request
from moldau.tools.cli.kafka.group_tools.reset import (
    ResetRefused,
    existing_partitions,
    parse_datetime,
    parse_duration,
    parse_topic,
    read_plan,
)
from moldau.types import TopicPartition


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("PT1H", 3_600_000), ("P1D", 86_400_000), ("P1DT2H3M4.5S", 93_784_500), ("PT-5M", -300_000), ("-PT5M", -300_000), ("pt1s", 1_000)],
)
def test_durations(text: str, expected_ms: int) -> None:
    assert parse_duration(text) == expected_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1H", "PT1D", "PT1X"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ResetRefused):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("1970-01-01T00:00:01.500", 1_500), ("1970-01-01T00:00:01.500Z", 1_500), ("1970-01-01T01:00:00.000+01:00", 0)],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, expected_ms: int) -> None:
    assert parse_datetime(text) == expected_ms


def test_topics() -> None:
    assert parse_topic("t") == ("t", None)
    assert parse_topic("t:0,2") == ("t", [0, 2])
    with pytest.raises(ResetRefused):
        parse_topic("t:a")


class Broker:
    """Leads partition 0 of each topic; nobody leads partition 1."""

    is_closed = False
    retire_at = float("inf")

    def version_of(self, request: type[Request[Any]]) -> int:
        return request.VERSIONS[-1]

    def close(self) -> None:
        pass

    async def send(self, request: Any, version: int | None = None, *, timeout_s: float) -> Any:
        partitions = [
            MetadataResponsePartition(
                error_code=code,
                partition_index=index,
                leader_id=leader,
                leader_epoch=1,
                replica_nodes=[1],
                isr_nodes=[],
                offline_replicas=[],
            )
            for index, (leader, code) in enumerate(((1, ErrorCode.NONE), (-1, ErrorCode.LEADER_NOT_AVAILABLE)))
        ]
        topics = [MetadataResponseTopic(error_code=0, name=one.name, partitions=partitions) for one in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="h", port=1)], topics=topics, cluster_id="c", controller_id=1
        )


async def test_partitions_that_nobody_leads_are_not_reset() -> None:
    async def connect(host: str, port: int) -> Any:
        return Broker()

    async with Cluster([("h", 1)], connect) as cluster:
        assert await existing_partitions(cluster, ["t:0"]) == [TopicPartition("t", 0)]
        for topics in (["t"], ["t:0", "t:1"]):
            with pytest.raises(KafkaError, match='The partitions "t-1" have no leader'):
                await existing_partitions(cluster, topics)
        with pytest.raises(KafkaError, match='The partitions "t-7" do not exist'):
            await existing_partitions(cluster, ["t:1,7"])


def test_a_plan_for_one_group_needs_no_name(tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("t,0,5\nt,1,7\n\n")
    assert read_plan(str(plan), "g", is_single=True) == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7}
    with pytest.raises(ResetRefused):
        read_plan(str(plan), "g", is_single=False)


def test_a_plan_for_several_groups_names_them(tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("g,t,0,5\nother,t,0,7\n")
    assert read_plan(str(plan), "g", is_single=False) == {TopicPartition("t", 0): 5}
    assert read_plan(str(plan), "unknown", is_single=False) is None
