"""One node as a process: topics that come to be when they are asked for, metadata after kills, and starts that cannot be."""

import subprocess
import sys
import time

import pytest

from moldau.errors import ErrorCode
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.testing.child import BrokerFailed
from moldau.testing.differential import RawClient
from moldau.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

WITHIN_S = 60.0


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
        assert ask(broker, "orders", "a b") == {"orders": (unknown, 0), "a b": (invalid, 0)}, "in the answer that creates it"
        until_there(broker, "orders")
        assert ask(broker, "a.b") == {"a.b": (unknown, 0)}
        until_there(broker, "a.b")
        assert ask(broker, "a_b") == {"a_b": (invalid, 0)}, "it collides, so it cannot be"
        assert broker.ask(MetadataRequest(topics=None), version=12).topics[0].name == "orders", "to ask for all creates nothing"


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


def test_the_controllers_listener_tells_its_controllers() -> None:
    with BrokerProcess() as broker:
        request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=2)
        answer = RawClient(("127.0.0.1", broker.controller_port)).ask(request, 1)
        assert isinstance(answer, DescribeClusterResponse)
        assert [(one.broker_id, one.port) for one in answer.brokers] == [(1, broker.controller_port)]
        assert answer.controller_id == 1


def test_a_quorum_of_several_controllers_is_refused_with_the_way_out() -> None:
    broker = BrokerProcess()
    others = ",".join(f"{number}@127.0.0.1:{broker.controller_port + number}:{'A' * 20}{'Q' * 2}" for number in (2, 3))
    own = f"1@127.0.0.1:{broker.controller_port}:5L6g3nShT-eMCtK--X86sw"
    broker.directory.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{key}={value}\n" for key, value in broker.server_properties().items())
    broker.properties_file.write_text(lines, encoding="utf-8")
    command = [sys.executable, "-m", "moldau.tools.cli.main", "storage", "format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c"]
    done = subprocess.run(
        [*command, str(broker.properties_file), "--initial-controllers", f"{own},{others}"], capture_output=True, check=False, timeout=30
    )
    assert done.returncode == 0, done.stderr.decode()
    with pytest.raises(BrokerFailed, match="the quorum has the controllers 1, 2, 3: several of them are not served yet"):
        broker.start()
