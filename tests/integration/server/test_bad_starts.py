"""A start that fails: one clear line, the way out, exit code 1, and nothing is lost."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.batch import batches
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.testing.child import BrokerFailed
from moldau.testing.process import BrokerProcess

pytestmark = pytest.mark.slow

NOW_MS = 1_750_000_000_000


def failed(broker: BrokerProcess) -> str:
    """The one line that a start ended with."""
    before = len(broker.log_text)
    broker.launch()
    with pytest.raises(BrokerFailed, match="ended with 1"):
        broker.wait_until_ready()
    broker.process = None
    said = [line for line in broker.log_text[before:].splitlines() if not line.startswith("[")]
    assert len(said) == 1, broker.log_text
    return said[0]


def create(broker: BrokerProcess, topic: str) -> None:
    made = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    assert broker.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), version=7).topics[0].error_code == 0


def produce(broker: BrokerProcess, topic: str, value: bytes) -> int:
    data = [PartitionProduceData(index=0, records=build_batch([NewRecord(NOW_MS, None, value)]))]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
    return broker.ask(request, version=9).responses[0].partition_responses[0].error_code


def record_count(broker: BrokerProcess, topic: str) -> int:
    wanted = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, session_epoch=-1, topics=[FetchTopic(topic=topic, partitions=wanted)])
    found = broker.ask(request, version=12).responses[0].partitions[0]
    assert found.error_code == 0
    data = memoryview(bytes(found.records or b""))  # type: ignore[arg-type]
    return sum(header.records_count for _, header in batches(data))


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    broker = BrokerProcess(directory=tmp_path / "broker")
    broker.prepare()
    return broker


def change(broker: BrokerProcess, **lines: str) -> None:
    with broker.properties_file.open("a", encoding="utf-8") as file:
        file.writelines(f"{key.replace('__', '.')}={value}\n" for key, value in lines.items())


def test_a_bad_value(broker: BrokerProcess) -> None:
    change(broker, num__partitions="many")
    said = failed(broker)
    assert "num.partitions" in said and "many" in said and "line" in said


def test_a_typo(broker: BrokerProcess) -> None:
    change(broker, log__retention__hour="1")
    assert "did you mean log.retention.hours?" in failed(broker)


def test_no_such_file(broker: BrokerProcess) -> None:
    broker.properties_file.unlink()
    assert "server.properties cannot be read" in failed(broker)


def test_a_busy_port(broker: BrokerProcess, tmp_path: Path) -> None:
    with BrokerProcess(directory=tmp_path / "other") as other:
        change(broker, listeners=f"PLAINTEXT://127.0.0.1:{other.port},CONTROLLER://127.0.0.1:{broker.controller_port}")
        said = failed(broker)
        assert str(other.port) in said and "listeners" in said
        create(other, "unharmed")


def test_a_folder_that_was_not_formatted(broker: BrokerProcess) -> None:
    shutil.rmtree(broker.log_dir)
    assert "moldau storage format" in failed(broker)


def test_a_folder_of_another_cluster(broker: BrokerProcess, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    shutil.copytree(broker.log_dir, foreign)
    meta = (foreign / "meta.properties").read_text(encoding="utf-8")
    lines = ["cluster.id=AnotherClusterAltogether" if line.startswith("cluster.id") else line for line in meta.splitlines()]
    (foreign / "meta.properties").write_text("\n".join(lines) + "\n", encoding="utf-8")
    change(broker, log__dirs=f"{broker.log_dir},{foreign}")
    said = failed(broker)
    assert "AnotherClusterAltogether" in said and "log.dirs" in said


def test_a_folder_of_another_node(broker: BrokerProcess) -> None:
    change(broker, node__id="7")
    assert "node.id=1" in failed(broker)


def test_a_second_start_on_the_same_folder_leaves_the_first_alone(broker: BrokerProcess, tmp_path: Path) -> None:
    broker.start()
    try:
        create(broker, "orders")
        assert produce(broker, "orders", b"one") == 0
        second = BrokerProcess(directory=tmp_path / "second", properties={"log.dirs": str(broker.log_dir)})
        second.directory.mkdir()
        lines = "".join(f"{key}={value}\n" for key, value in second.server_properties().items())
        second.properties_file.write_text(lines, encoding="utf-8")
        said = failed(second)
        assert "in use by another process" in said and str(broker.log_dir) in said
        assert produce(broker, "orders", b"two") == 0
        assert record_count(broker, "orders") == 2
        assert broker.stop() == 0
        broker.start()
        assert record_count(broker, "orders") == 2
    finally:
        broker.kill()


@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "meta.properties",
        "orders-0/leader-epoch-checkpoint",
        "orders-0/partition.metadata",
        "__cluster_metadata-0/quorum-state",
    ],
)
def test_garbage_in_a_file_names_the_file(broker: BrokerProcess, name: str) -> None:
    broker.start()
    create(broker, "orders")
    assert produce(broker, "orders", b"one") == 0
    assert broker.stop() == 0
    path = broker.log_dir / name
    good = path.read_bytes()
    path.write_bytes(b"\x00garbage\xff\n")
    assert str(path) in failed(broker)
    path.write_bytes(good)
    broker.start()
    assert record_count(broker, "orders") == 1
    broker.kill()


def test_a_torn_tail_is_cut_off_and_the_rest_is_there(broker: BrokerProcess) -> None:
    broker.start()
    create(broker, "orders")
    for number in range(5):
        assert produce(broker, "orders", b"%d" % number) == 0
    broker.kill()
    path = broker.log_dir / "orders-0" / "00000000000000000000.log"
    with path.open("ab") as file:
        file.write(bytes(build_batch([NewRecord(NOW_MS, None, b"never acknowledged")], base_offset=5))[:-3])
    broker.start()
    assert record_count(broker, "orders") == 5
    assert produce(broker, "orders", b"next") == 0
    assert record_count(broker, "orders") == 6
    broker.kill()


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("mount") is None, reason="a small disk of its own needs root and mount")
def test_a_full_disk_refuses_writes_and_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    try:
        broker = BrokerProcess(directory=tmp_path / "broker", properties={"log.dirs": str(disk / "data")})
        broker.start()
        create(broker, "orders")
        acknowledged = 0
        while produce(broker, "orders", b"x" * 500_000) == 0:
            acknowledged += 1
        assert acknowledged >= 5
        assert "No space left" in broker.log_text
        (disk / "data" / "orders-0").stat()
        subprocess.run(["mount", "-o", "remount,size=32m", str(disk)], check=True)
        if broker.process is not None and broker.process.poll() is not None:
            broker.process = None
            broker.start()
        assert produce(broker, "orders", b"again") == 0
        broker.kill()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)
