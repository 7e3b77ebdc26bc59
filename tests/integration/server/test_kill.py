"""kill -9 under load, again and again: nothing that was acknowledged is lost, and Kafka's tools find the files sound."""

import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.testing import kafka
from moldau.testing.process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("kill")]

TOPIC = "under-fire"
PARTITIONS = 3
KILLS = 20
LOAD_S = 0.4
WITHIN_S = 60.0


class Load:
    """An idempotent producer that never stops; it knows what was acknowledged, by partition and offset."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 1,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            if len(self._producer) < 2000:
                self._producer.produce(TOPIC, b"value %d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
                number += 1
            self._producer.poll(0 if len(self._producer) < 2000 else 0.01)

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and offset is not None and isinstance(value, bytes)
        self.acknowledged[partition, offset] = value

    def finish(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(WITHIN_S) == 0


def read_everything(bootstrap: str) -> dict[tuple[int, int], bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: dict[tuple[int, int], bytes] = {}
    ended: set[int] = set()
    deadline = time.monotonic() + WITHIN_S
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        for message in consumer.consume(5000, 0.5):
            partition, offset, value = message.partition(), message.offset(), message.value()
            if message.error() is not None:
                ended.add(partition)
            else:
                found[partition, offset] = value
    consumer.close()
    assert len(ended) == PARTITIONS, "a partition was not read to its end"
    return found


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    with BrokerProcess(directory=tmp_path, properties={"log.segment.bytes": str(1 << 20)}) as broker:
        made = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
        assert broker.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), version=7).topics[0].error_code == 0
        load = Load(broker.bootstrap)
        for _ in range(KILLS):
            before = len(load.acknowledged)
            deadline = time.monotonic() + WITHIN_S
            while len(load.acknowledged) < before + 200 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(LOAD_S)
            broker.kill()
            broker.start()
        load.finish()
        assert load.failures == []
        assert len(load.acknowledged) > KILLS * 200
        found = read_everything(broker.bootstrap)
        missing = {place: value for place, value in load.acknowledged.items() if found.get(place) != value}
        assert not missing, f"{len(missing)} of {len(load.acknowledged)} acknowledged records are lost, {list(missing.items())[:3]}"
        assert len(set(found.values())) == len(found), "a record is there twice"
        assert broker.stop() == 0
        for partition in range(PARTITIONS):
            folder = broker.log_dir / f"{TOPIC}-{partition}"
            logs, indexes = sorted(folder.glob("*.log")), sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
            assert "isvalid: false" not in kafka.dump_log(*logs)
            checked = kafka.dump_log(*indexes, arguments=["--index-sanity-check"])
            assert checked.count("passed sanity check") == len(indexes)
