"""One folder, two brokers in turn, stopped or killed: Apache Kafka starts on our folder, we start on Kafka's, its tools read ours."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka, Tool, java_command, run_tool
from proof.kafka.differential import RawClient

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("folders")]

METADATA = "__cluster_metadata-0"


class Pair:
    """Our broker and Apache Kafka, with the same folder and the same ports."""

    def __init__(self, directory: Path) -> None:
        self.ours = BrokerProcess(directory=directory)
        self.kafka = ApacheKafka(directory=directory)
        self.kafka.port, self.kafka.controller_port = self.ours.port, self.ours.controller_port
        self.log_dir = self.ours.log_dir

    @property
    def client(self) -> RawClient:
        return RawClient(("127.0.0.1", self.ours.port))

    def stop(self) -> None:
        self.ours.stop()
        self.kafka.stop()

    def create(self, name: str, partitions: int, **configs: str) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
        )
        answer = self.client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        assert answer.topics[0].error_code == 0, answer  # type: ignore[union-attr]

    def delete(self, name: str) -> None:
        answer = self.client.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 4)
        assert answer.responses[0].error_code == 0, answer  # type: ignore[union-attr]

    def produce(self, topic: str, text: str) -> int:
        batch = build_batch([NewRecord(1_700_000_000_000, None, text.encode())])
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
        answer = self.client.ask(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
        partition = answer.responses[0].partition_responses[0]  # type: ignore[union-attr]
        assert partition.error_code == 0, answer
        return int(partition.base_offset)

    def topics(self) -> dict[str, int]:
        """How many partitions each topic has, without internal topics; all of them have a leader."""
        answer = self.client.ask(MetadataRequest(topics=None), 12)
        assert isinstance(answer, MetadataResponse)
        for topic in answer.topics:
            assert all(partition.leader_id == 1 and partition.error_code == 0 for partition in topic.partitions), topic
        return {topic.name or "": len(topic.partitions) for topic in answer.topics if not topic.is_internal}

    def topic_id(self, name: str) -> object:
        return self.client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics[0].topic_id  # type: ignore[union-attr]

    def config(self, topic: str, key: str) -> str | None:
        resource = DescribeConfigsResource(resource_type=2, resource_name=topic, configuration_keys=[key])
        answer = self.client.ask(DescribeConfigsRequest(resources=[resource]), 4)
        return answer.results[0].configs[0].value  # type: ignore[union-attr,no-any-return]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    made.stop()


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
def test_kafka_starts_on_our_folder_and_we_on_its(pair: Pair, is_clean: bool) -> None:
    pair.ours.start()
    pair.create("orders", 3, retention_ms="77000")
    pair.create("gone", 1)
    pair.delete("gone")
    assert pair.produce("orders", "by us") == 0
    orders = pair.topic_id("orders")
    pair.ours.stop() if is_clean else pair.ours.kill()

    pair.kafka.start()
    assert pair.topics() == {"orders": 3}
    assert pair.topic_id("orders") == orders and pair.config("orders", "retention.ms") == "77000"
    assert pair.produce("orders", "by Kafka") == 1
    pair.create("payments", 2, cleanup_policy="compact")
    pair.kafka.stop() if is_clean else pair.kafka.kill()

    pair.ours.start()
    assert pair.topics() == {"orders": 3, "payments": 2}
    assert pair.topic_id("orders") == orders and pair.config("payments", "cleanup.policy") == "compact"
    assert pair.produce("orders", "by us again") == 2
    assert pair.kafka.offsets("orders")[0] == 3


def test_its_tools_read_our_metadata(pair: Pair) -> None:
    pair.ours.start()
    pair.create("orders", 2, retention_ms="77000")
    pair.ours.stop()
    log = pair.log_dir / METADATA / "00000000000000000000.log"
    printed = run_tool(Tool.DUMP_LOG, "--cluster-metadata-decoder", "--files", str(log))
    assert "LeaderChange" in printed and "KRaftVoters" in printed and '"name":"orders"' in printed and "isvalid: false" not in printed
    first = pair.log_dir / METADATA / "00000000000000000000-0000000000.checkpoint"
    assert "SnapshotFooter" in run_tool(Tool.DUMP_LOG, "--cluster-metadata-decoder", "--files", str(first))
    assert {"0", "1"} <= set(shell(pair.log_dir, "ls", "/image/topics/byName/orders").split())
    assert "77000" in shell(pair.log_dir, "cat", "/image/configs/TOPIC:orders/retention.ms")


def shell(log_dir: Path, *command: str) -> str:
    """What MetadataShell prints of the newest log segment of a folder.

    The shell waits until the file is read, not until its image is published.  A command that comes in between finds nothing and is asked
    again.
    """
    arguments = java_command(Tool.METADATA_SHELL, "--snapshot", str(log_dir / METADATA / "00000000000000000000.log"), *command)
    for _ in range(10):
        done = subprocess.run(arguments, capture_output=True, timeout=180, check=False)
        assert done.returncode == 0, done.stderr.decode()
        if "no such file or directory" not in done.stdout.decode().lower():
            break
    return done.stdout.decode()
