"""A move under kafka-reassign-partitions --throttle keeps its rate, lets producers through, and finishes; --verify takes the limit away."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from moldau.testing.cluster import Cluster
from proof.kafka.apache import Tool, run_tool
from proof.kafka.twins import ours

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

WITHIN_S = 90.0
RATE = 2_000_000
SIZE = 12_000_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, properties={"default.replication.factor": "2", "min.insync.replicas": "1"}) as started:
        yield started


def filled(cluster: Cluster, plan: Path) -> AdminClient:
    """A topic on brokers 1 and 2 with `SIZE` bytes, and a plan that takes it to 3 and 2."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("orders", 1, replica_assignment=[[1, 2]])])["orders"].result(WITHIN_S)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 20})
    for _ in range(SIZE // 10_000):
        producer.produce("orders", b"x" * 10_000)
        producer.poll(0)
    assert producer.flush(WITHIN_S) == 0
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [3, 2]}]}))
    return admin


def replicas_of(cluster: Cluster) -> tuple[list[int], list[int]]:
    (partition,) = cluster.metadata("orders").topics[0].partitions
    return partition.replica_nodes, partition.isr_nodes


def limits(admin: AdminClient) -> dict[str, str]:
    """The throttles that are set, on the topic and on all brokers."""
    resources = [ConfigResource(ResourceType.TOPIC, "orders"), *(ConfigResource(ResourceType.BROKER, str(each)) for each in (1, 2, 3))]
    found = {}
    for resource in resources:
        (described,) = admin.describe_configs([resource]).values()
        entries = described.result(WITHIN_S).items()
        found |= {f"{resource.name} {key}": entry.value for key, entry in entries if "throttled" in key and entry.value}
    return found


def test_a_throttled_move_keeps_its_rate_and_finishes(cluster: Cluster, tmp_path: Path) -> None:
    admin = filled(cluster, tmp_path / "plan.json")
    given = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(tmp_path / "plan.json"))
    began_s = time.monotonic()
    said = ours("kafka-reassign-partitions", *given, "--execute", "--throttle", str(RATE)).out
    assert f"The inter-broker throttle limit was set to {RATE} B/s" in said
    assert {value for key, value in limits(admin).items() if key.endswith("rate")} == {str(RATE)}
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    slowest_s = 0.0
    while replicas_of(cluster)[0] != [3, 2]:
        sent_s = time.monotonic()
        producer.produce("orders", b"meanwhile")
        assert producer.flush(WITHIN_S) == 0
        slowest_s = max(slowest_s, time.monotonic() - sent_s)
        assert time.monotonic() - began_s < WITHIN_S
    took_s = time.monotonic() - began_s
    assert took_s > SIZE / RATE - 2, "the move keeps its rate, though a second's worth may go at once"
    assert took_s < 3 * SIZE / RATE, "the move is not much slower than its rate"
    assert slowest_s < 5, "producers do not wait for the move"
    said = ours("kafka-reassign-partitions", *given, "--verify").out
    assert "Reassignment of partition orders-0 is completed." in said
    assert limits(admin) == {}


def test_the_limit_stays_while_another_plan_moves(cluster: Cluster, tmp_path: Path) -> None:
    admin = filled(cluster, tmp_path / "plan.json")
    at = ("--bootstrap-server", cluster.bootstrap)
    moving, done = (("--reassignment-json-file", str(tmp_path / f"{name}.json")) for name in ("plan", "done"))
    assert ours("kafka-topics", *at, "--create", "--topic", "resting", "--replica-assignment", "1:2").exit_code == 0
    row = {"topic": "resting", "partition": 0, "replicas": [1, 2]}
    (tmp_path / "done.json").write_text(json.dumps({"version": 1, "partitions": [row]}))
    assert ours("kafka-reassign-partitions", *at, *moving, "--execute", "--throttle", "1000").exit_code == 0
    said = ours("kafka-reassign-partitions", *at, *done, "--verify").out
    assert "Reassignment of partition resting-0 is completed." in said and "Clearing" not in said
    assert {value for key, value in limits(admin).items() if key.endswith("rate")} == {"1000"}
    assert ours("kafka-reassign-partitions", *at, *moving, "--cancel").exit_code == 0
    assert limits(admin) == {}


@pytest.mark.java
def test_kafkas_tool_raises_the_limit_of_a_move_and_takes_it_away(cluster: Cluster, tmp_path: Path) -> None:
    admin = filled(cluster, tmp_path / "plan.json")
    given = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(tmp_path / "plan.json"))
    reassign = Tool.REASSIGN
    run_tool(reassign, *given, "--execute", "--throttle", "1000")
    assert "orders-0: replicas: 3,2,1. adding: 3. removing: 1." in run_tool(reassign, "--bootstrap-server", cluster.bootstrap, "--list")
    assert "is still in progress" in run_tool(reassign, *given, "--verify")
    assert {value for key, value in limits(admin).items() if key.endswith("rate")} == {"1000"}
    run_tool(reassign, *given, "--execute", "--additional", "--throttle", "100000000")
    began_s = time.monotonic()
    while replicas_of(cluster) != ([3, 2], [2, 3]) and replicas_of(cluster) != ([3, 2], [3, 2]):
        assert time.monotonic() - began_s < WITHIN_S
    run_tool(reassign, *given, "--verify")
    assert limits(admin) == {}
