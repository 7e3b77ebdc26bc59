"""Tiered storage as users meet it: stock clients over TCP, an object store in a folder or behind the S3 API, kill -9 as segments move."""

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import obstore
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from obstore.store import S3Store

from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.storage.tiered.objects import segment_id_in
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import console_consume, dump_log, formatted, offsets

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tiered")]

QUICK = {
    "remote.log.storage.system.enable": "true",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
    "rsm.config.chunk.size": str(256 << 10),
    "remote.log.manager.task.interval.ms": "200",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "0",
    "log.flush.offset.checkpoint.interval.ms": "500",
}
TIERED = {"remote.storage.enable": "true", "segment.bytes": str(1 << 20), "local.retention.bytes": "1", "retention.ms": "-1"}
RECORD = b"x" * 1000
FORMATTER = "org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde$RemoteLogMetadataFormatter"
WITHIN_S = 60.0
FIRST_MS = 1_700_000_000_000


def wait_until(what: Callable[[], object], text: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not what():
        assert time.monotonic() < deadline, text
        time.sleep(0.05)


def create(broker: BrokerProcess, topic: str, configs: Mapping[str, str] = TIERED) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.create_topics([NewTopic(topic, 1, 1, config=dict(configs))]).values():
        done.result()


def delete(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.delete_topics([topic]).values():
        done.result()


def produce(broker: BrokerProcess, topic: str, numbers: range) -> None:
    """Writes one record a second, by their timestamps."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 2, "batch.size": 50_000})
    for number in numbers:
        producer.produce(topic, b"%d " % number + RECORD, timestamp=FIRST_MS + 1000 * number)
        if number % 500 == 0:
            producer.flush()
    assert producer.flush(WITHIN_S) == 0


def consume(broker: BrokerProcess, topic: str, start: int, count: int, **options: object) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "auto.offset.reset": "error", **options})
    consumer.assign([Place(topic, 0, start)])
    found: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + WITHIN_S
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.2):
            assert message.error() is None, message.error()
            offset, value = message.offset(), message.value()
            assert offset is not None and isinstance(value, bytes)
            found.append((offset, value))
    consumer.close()
    return found


def numbers_in(found: list[tuple[int, bytes]]) -> list[int]:
    return [int(value.split()[0]) for _, value in found]


def local_segments(broker: BrokerProcess, topic: str) -> list[int]:
    return sorted(int(path.stem) for path in (broker.log_dir / f"{topic}-0").glob("*.log"))


def remote_segments(folder: Path) -> set[object]:
    return {segment_id_in(path.name) for path in folder.rglob("*.log")}


def offset_of(broker: BrokerProcess, topic: str, timestamp: int) -> int:
    asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    (answer,) = broker.ask(ListOffsetsRequest(replica_id=-1, topics=[asked], timeout_ms=30_000), version=11).topics[0].partitions
    assert answer.error_code == 0
    return answer.offset


def wait_until_moved(broker: BrokerProcess, topic: str) -> None:
    """Waits until all segments but the active one have moved.  A failure shows what the broker has said."""
    try:
        wait_until(lambda: len(local_segments(broker, topic)) == 1 and local_segments(broker, topic)[0] > 0, "local segments stay")
    except AssertionError as error:
        files = [(path.name, path.stat().st_size) for path in sorted((broker.log_dir / f"{topic}-0").glob("*.log"))]
        specials = [offset_of(broker, topic, special) for special in (-2, -4, -5, -6, -1)]
        raise AssertionError(f"{error}: {files}, offsets {specials}\n{broker.log_text[-3000:]}") from None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tier")


@pytest.fixture(scope="module")
def broker(folder: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=QUICK | {"rsm.config.storage.url": f"file://{folder}"}) as broker:
        yield broker


def test_older_records_leave_the_broker_and_are_read_all_the_same(broker: BrokerProcess, folder: Path) -> None:
    topic = "readings"
    create(broker, topic)
    produce(broker, topic, range(10_000))
    wait_until_moved(broker, topic)
    (local_start,) = local_segments(broker, topic)
    assert len(list(folder.glob(f"{topic}-0-*/*.log"))) >= 9
    assert numbers_in(consume(broker, topic, 0, 10_000)) == list(range(10_000))
    assert numbers_in(consume(broker, topic, 4321, 100, **{"max.partition.fetch.bytes": 1000}))[:100] == list(range(4321, 4421))
    for number in (0, 1, 5000, local_start - 1, local_start, 9_999):
        assert offset_of(broker, topic, FIRST_MS + 1000 * number - 1) == number
    assert [offset_of(broker, topic, special) for special in (-2, -4, -5, -6, -1)] == [0, local_start, local_start - 1, local_start, 10_000]
    assert offset_of(broker, topic, FIRST_MS + 10_000_000) == -1


def test_records_that_are_deleted_and_topics_leave_the_object_store(broker: BrokerProcess, folder: Path) -> None:
    topic = "short-lived"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    create(broker, topic)
    produce(broker, topic, range(5_000))
    wait_until_moved(broker, topic)
    objects = len(list(folder.glob(f"{topic}-0-*/*.log")))
    for done in admin.delete_records([Place(topic, 0, 2500)]).values():
        done.result()
    wait_until(lambda: len(list(folder.glob(f"{topic}-0-*/*.log"))) < objects - 1, "remote segments below the log's start stay")
    assert offset_of(broker, topic, -2) == 2500
    assert numbers_in(consume(broker, topic, 2500, 2500)) == list(range(2500, 5000))
    delete(broker, topic)
    wait_until(lambda: not list(folder.glob(f"{topic}-0-*/*")), "objects of a deleted topic stay")


def test_retention_reaches_over_both_tiers(broker: BrokerProcess, folder: Path) -> None:
    topic = "limited"
    create(broker, topic, TIERED | {"retention.bytes": str(3 << 20)})
    produce(broker, topic, range(8_000))
    wait_until(lambda: offset_of(broker, topic, -2) > 3_000, "nothing expires")
    wait_until_moved(broker, topic)  # the log's start goes on moving until then
    wait_until(lambda: 2 <= len(list(folder.glob(f"{topic}-0-*/*.log"))) <= 4, "expired segments stay")
    start = offset_of(broker, topic, -2)
    found = numbers_in(consume(broker, topic, start, 8_000 - start, **{"auto.offset.reset": "earliest"}))
    assert found == list(range(found[0], 8_000)), "all records that have not expired, while the last ones expire"
    assert start <= found[0] <= offset_of(broker, topic, -2)


def test_tiering_is_switched_off_only_with_the_data(broker: BrokerProcess, folder: Path) -> None:
    topic = "tried-out"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    create(broker, topic)
    produce(broker, topic, range(4_000))
    wait_until_moved(broker, topic)
    (local_start,) = local_segments(broker, topic)
    off = {**TIERED, "remote.storage.enable": "false"}
    for configs, is_taken in ((off, False), ({**off, "remote.log.delete.on.disable": "true"}, True)):
        (done,) = admin.alter_configs([ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=configs)]).values()
        error = done.exception()
        assert (error is None) is is_taken, error
        assert is_taken or "without deleting remote data" in str(error)
    wait_until(lambda: not list(folder.glob(f"{topic}-0-*/*")), "objects stay")
    assert offset_of(broker, topic, -2) == local_start
    assert numbers_in(consume(broker, topic, local_start, 4_000 - local_start)) == list(range(local_start, 4_000))


def test_read_committed_knows_what_was_aborted_long_ago(broker: BrokerProcess) -> None:
    topic = "payments"
    create(broker, topic)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "payments", "linger.ms": 2})
    producer.init_transactions()
    committed = []
    for round_number in range(12):
        producer.begin_transaction()
        for number in range(round_number * 500, round_number * 500 + 500):
            producer.produce(topic, b"%d " % number + RECORD)
        producer.flush()
        if round_number % 3 == 1:
            producer.abort_transaction()
        else:
            producer.commit_transaction()
            committed += list(range(round_number * 500, round_number * 500 + 500))
    wait_until_moved(broker, topic)
    assert numbers_in(consume(broker, topic, 0, len(committed), **{"isolation.level": "read_committed"})) == committed
    everything = consume(broker, topic, 0, 6_000, **{"isolation.level": "read_uncommitted"})
    assert numbers_in(everything) == list(range(6_000))


@pytest.mark.java
def test_kafkas_own_tools_read_what_is_remote_and_what_is_said_of_it(broker: BrokerProcess, folder: Path, tmp_path: Path) -> None:
    topic = "for-java"
    create(broker, topic)
    produce(broker, topic, range(3_000))
    wait_until_moved(broker, topic)
    lines = console_consume(broker.bootstrap, topic, count=3_000)
    assert [int(line.split()[0]) for line in lines] == list(range(3_000))
    assert offsets(broker.bootstrap, topic, "--time", "earliest-local") == {0: local_segments(broker, topic)[0]}
    assert offsets(broker.bootstrap, topic, "--time", "latest-tiered") == {0: local_segments(broker, topic)[0] - 1}
    for suffix in (".log", ".index", ".timeindex"):
        first = sorted(folder.glob(f"{topic}-0-*/*{suffix}"))[0]
        (tmp_path / f"{first.name.partition('-')[0]}{suffix}").write_bytes(first.read_bytes())
    dumped = dump_log(*sorted(tmp_path.glob("0*")))
    assert "isvalid: true" in dumped and "baseOffset: 0" in dumped and "mismatch" not in dumped.lower()
    said = formatted(broker.bootstrap, "__remote_log_metadata", FORMATTER)
    states = re.findall(r"topic-?\w*.*?for-java.*?state=(\w+)", said)
    assert {"COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED"} <= set(states), said[-2000:]


def test_a_broker_that_is_killed_while_it_copies_loses_and_leaks_nothing(tmp_path: Path) -> None:
    seed = 20261121
    choice, topic, count = random.Random(seed), "under-fire", 0
    options = QUICK | {"rsm.config.storage.url": f"file://{tmp_path}", "remote.log.manager.task.interval.ms": "20"}
    with BrokerProcess(properties=options) as broker:
        create(broker, topic)
        for _ in range(6):
            produce(broker, topic, range(count, count + 2_000))
            count += 2_000
            time.sleep(choice.random() * 0.12)
            broker.kill()
            broker.start()
        assert numbers_in(consume(broker, topic, 0, count)) == list(range(count))
        wait_until_moved(broker, topic)
        assert numbers_in(consume(broker, topic, 0, count)) == list(range(count))
        delete(broker, topic)
        wait_until(lambda: not list(tmp_path.glob(f"{topic}-0-*/*")), f"objects are left of seed {seed}")


def test_what_was_deleted_while_the_broker_was_down_goes_when_it_is_back(tmp_path: Path) -> None:
    topic = "deleted-late"
    with BrokerProcess(properties=QUICK | {"rsm.config.storage.url": f"file://{tmp_path}"}) as broker:
        create(broker, topic)
        produce(broker, topic, range(4_000))
        wait_until_moved(broker, topic)
        delete(broker, topic)
        broker.kill()
        broker.start()
        wait_until(lambda: not list(tmp_path.glob(f"{topic}-0-*/*")), "objects of a deleted topic stay")


def test_the_start_is_refused_without_a_store_and_where_tiered_topics_would_lose_it(tmp_path: Path) -> None:
    broker = BrokerProcess(properties=QUICK, directory=tmp_path / "broker")
    with pytest.raises(AssertionError, match=r"rsm\.config\.storage\.url.*say where segments go"):
        broker.start()
    broker.process = None
    broker.extra = QUICK | {"rsm.config.storage.url": f"file://{tmp_path}/tier"}
    broker.start()
    create(broker, "tiered")
    broker.stop()
    broker.extra = {}
    with pytest.raises(AssertionError, match="tiered keep older records in an object store"):
        broker.start()


def test_an_s3_server_is_as_good_as_a_folder() -> None:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"access_key_id": "me", "secret_access_key": "secret"}
    store = S3Store("tier", endpoint=f"http://{host}:{port}", region="eu-central-1", client_options={"allow_http": True}, **keys)  # type: ignore[arg-type]
    import boto3

    boto3.client(
        "s3", endpoint_url=f"http://{host}:{port}", region_name="eu-central-1", aws_access_key_id="me", aws_secret_access_key="secret"
    ).create_bucket(Bucket="tier", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"})
    options = {
        "rsm.config.storage.url": "s3://tier/cluster-1",
        "rsm.config.storage.s3.endpoint.url": f"http://{host}:{port}",
        "rsm.config.storage.s3.region": "eu-central-1",
        "rsm.config.storage.aws.access.key.id": "me",
        "rsm.config.storage.aws.secret.access.key": "secret",
    }
    try:
        with BrokerProcess(properties=QUICK | options) as broker:
            create(broker, "cold")
            produce(broker, "cold", range(4_000))
            wait_until_moved(broker, "cold")
            assert numbers_in(consume(broker, "cold", 0, 4_000)) == list(range(4_000))
            names = [found["path"] for page in obstore.list(store, prefix="cluster-1") for found in page]
            assert sum(name.endswith(".log") for name in names) >= 3
            delete(broker, "cold")
            wait_until(lambda: not [1 for page in obstore.list(store, prefix="cluster-1") for _ in page], "objects stay in the bucket")
    finally:
        server.stop()
