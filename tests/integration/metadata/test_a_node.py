"""One node as a process: topics that come to be when they are asked for, metadata after kills, and a folder of an old release."""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.testing.child import CLUSTER_ID
from moldau.testing.process import BrokerProcess
from proof.kafka.differential import RawClient

pytestmark = pytest.mark.slow

WITHIN_S = 60.0
KNOWN_TO_3_3 = {
    ("REGISTER_BROKER_RECORD", "1"),
    ("BROKER_REGISTRATION_CHANGE_RECORD", "1"),
    *((f"{name}_RECORD", "0") for name in ("FEATURE_LEVEL", "NO_OP", "TOPIC", "PARTITION", "PARTITION_CHANGE")),
}


def ask(broker: BrokerProcess, *names: str, may_create: bool = True) -> dict[str | None, tuple[int, int]]:
    """Error code and number of partitions of each topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=may_create)
    answer: MetadataResponse = broker.ask(request, version=12)
    return {topic.name: (topic.error_code, len(topic.partitions)) for topic in answer.topics}


def create(broker: BrokerProcess, name: str) -> int:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return broker.ask(CreateTopicsRequest(topics=[topic]), version=7).topics[0].error_code


def until_there(broker: BrokerProcess, name: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while (found := ask(broker, name, may_create=False)) != {name: (0, 3)}:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def test_topics_come_to_be_when_they_are_asked_for() -> None:
    unknown, invalid = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION
    with BrokerProcess(properties={"num.partitions": "3"}) as broker:
        assert ask(broker, "orders", may_create=False) == {"orders": (unknown, 0)}
        assert ask(broker, "orders", "a b") == {"orders": (unknown, 0), "a b": (invalid, 0)}, "the answer that creates it does not know it"
        until_there(broker, "orders")
        assert ask(broker, "a.b") == {"a.b": (unknown, 0)}
        until_there(broker, "a.b")
        assert ask(broker, "a_b") == {"a_b": (invalid, 0)}, "the name collides, so it is refused"
        assert broker.ask(MetadataRequest(topics=None), version=12).topics[0].name == "orders", "a request for all topics creates nothing"


def test_every_acknowledged_change_outlives_kills() -> None:
    with BrokerProcess() as broker:
        there: set[str] = set()
        for number in range(12):
            assert create(broker, f"t{number}") == 0
            there.add(f"t{number}")
            if number % 3 == 2:
                gone = f"t{number - 1}"
                answer = broker.ask(DeleteTopicsRequest(topic_names=[gone], timeout_ms=5000), version=4)
                assert answer.responses[0].error_code == 0
                there.remove(gone)
                broker.kill()
                broker.start()
            found = {topic.name for topic in broker.metadata().topics if topic.error_code == 0}
            assert found == there


class OldFolder(BrokerProcess):
    """A folder as Kafka 3.3 formatted it: with its level of metadata, voters by their addresses, and no id of the folder."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory=directory)
        self.extra["controller.quorum.voters"] = f"1@127.0.0.1:{self.controller_port}"

    def format_folder(self) -> None:
        format_command = ("storage", "format", "-t", CLUSTER_ID, "-c", str(self.properties_file), "--release-version", "3.3")
        subprocess.run([sys.executable, "-m", "moldau.tools.cli.main", *format_command], check=True, timeout=WITHIN_S)
        self.identity.write_text("".join(line for line in self.identity.open() if not line.startswith("directory.id")))

    @property
    def identity(self) -> Path:
        return self.log_dir / "meta.properties"


def test_a_folder_of_an_old_release_is_served_in_what_that_release_knows(tmp_path: Path) -> None:
    with OldFolder(tmp_path) as broker:
        named = broker.identity.read_text()
        assert "directory.id=" in named and create(broker, "orders") == 0
        joining = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=0, subscribed_topic_names=["orders"])
        assert broker.ask(joining, version=1).error_code == ErrorCode.UNSUPPORTED_VERSION, "group.version is 0"
        broker.stop()
        broker.start()
        assert ask(broker, "orders") == {"orders": (0, 1)}
        broker.stop()
        assert broker.identity.read_text() == named
        log = broker.log_dir / "__cluster_metadata-0" / "00000000000000000000.log"
        dump = [sys.executable, "-m", "moldau.tools.cli.main", "kafka-dump-log", "--cluster-metadata-decoder", "--files", str(log)]
        printed = subprocess.run(dump, capture_output=True, text=True, check=True, timeout=WITHIN_S).stdout
        written = set(re.findall(r'"type":"(\w+)","version":(\d+)', printed))
        assert ("TOPIC_RECORD", "0") in written and written <= KNOWN_TO_3_3, written - KNOWN_TO_3_3


def test_the_controllers_listener_tells_its_controllers() -> None:
    with BrokerProcess() as broker:
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
        answer = RawClient(("127.0.0.1", broker.controller_port)).ask(request, 1)
        assert isinstance(answer, DescribeClusterResponse)
        assert [(one.broker_id, one.port) for one in answer.brokers] == [(1, broker.controller_port)]
        assert answer.controller_id == 1
