"""kill -9 under load, again and again: no acknowledged record is lost, and Kafka's tools find the files sound."""

import time
from pathlib import Path

import pytest

from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.testing.process import BrokerProcess
from proof.kafka import apache as kafka
from proof.storage.acknowledged import AcknowledgedLoad, read_back

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("kill")]

TOPIC = "under-fire"
PARTITIONS = 3
KILLS = 20
LOAD_S = 0.4
WITHIN_S = 60.0


def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    with BrokerProcess(directory=tmp_path, properties={"log.segment.bytes": str(1 << 20)}) as broker:
        made = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
        assert broker.ask(CreateTopicsRequest(topics=[made], timeout_ms=10_000), version=7).topics[0].error_code == 0
        load = AcknowledgedLoad(broker.bootstrap, TOPIC, PARTITIONS, {"message.timeout.ms": 120_000})
        for _ in range(KILLS):
            before = len(load.acknowledged)
            deadline = time.monotonic() + WITHIN_S
            while len(load.acknowledged) < before + 200 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(LOAD_S)
            broker.kill()
            broker.start()
        assert load.finish() == 0
        assert load.failures == []
        assert len(load.acknowledged) > KILLS * 200
        found = {(one.partition(), one.offset()): one.value() for one in read_back(broker.bootstrap, TOPIC, PARTITIONS)}
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
