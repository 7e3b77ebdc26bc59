"""Kafka's own tools move replicas between several folders while a producer writes."""

import json
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.testing.process import BrokerProcess
from proof.kafka.apache import Tool, run_tool
from proof.storage.acknowledged import read_back

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("folders")]

PARTITIONS = 2
WITHIN_S = 60.0


def folders_of(broker: BrokerProcess) -> dict[str, tuple[str, bool]]:
    """The folder of each partition, as kafka-log-dirs tells it, and whether the partition is on its way there."""
    printed = run_tool(Tool.LOG_DIRS, "--bootstrap-server", broker.bootstrap, "--describe", "--topic-list", "orders")
    told = json.loads(printed.splitlines()[-1])
    return {
        partition["partition"]: (folder["logDir"], partition["isFuture"])
        for folder in told["brokers"][0]["logDirs"]
        for partition in folder["partitions"]
    }


def test_kafkas_tools_move_replicas_between_folders_under_load(tmp_path: Path) -> None:
    folders = [str(tmp_path / name) for name in ("one", "two")]
    with BrokerProcess(directory=tmp_path / "broker", properties={"log.dirs": ",".join(folders)}) as broker:
        run_tool(Tool.TOPICS, "--bootstrap-server", broker.bootstrap, "--create", "--topic", "orders", "--partitions", str(PARTITIONS))
        before = folders_of(broker)
        assert sorted(before.values()) == [(folder, False) for folder in folders]
        stop, acknowledged = threading.Event(), []

        def produce() -> None:
            producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "linger.ms": 1})
            number = 0
            while not stop.is_set():
                producer.produce(
                    "orders",
                    b"%d" % number,
                    partition=number % PARTITIONS,
                    on_delivery=lambda error, message: acknowledged.append((error, message.value())),
                )
                number += 1
                producer.poll(0.001)
            producer.flush(WITHIN_S)

        thread = threading.Thread(target=produce)
        thread.start()
        try:
            plan = tmp_path / "plan.json"
            moved = [
                {
                    "topic": "orders",
                    "partition": number,
                    "replicas": [1],
                    "log_dirs": [next(folder for folder in folders if folder != before[f"orders-{number}"][0])],
                }
                for number in range(PARTITIONS)
            ]
            plan.write_text(json.dumps({"version": 1, "partitions": moved}), encoding="utf-8")
            reassign = ("--bootstrap-server", broker.bootstrap, "--reassignment-json-file", str(plan))
            said = run_tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *reassign, "--execute")
            assert said.count("Successfully started moving log directory") == PARTITIONS, said
            deadline = time.monotonic() + WITHIN_S
            while True:
                said = run_tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", *reassign, "--verify")
                if "still in progress" not in said or time.monotonic() > deadline:
                    break
            for number in range(PARTITIONS):
                assert f"Reassignment of replica orders-{number}-1 completed successfully." in said, said
        finally:
            stop.set()
            thread.join()
        after = folders_of(broker)
        assert {partition: folder for partition, (folder, _) in after.items()} == {
            f"orders-{one['partition']}": one["log_dirs"][0]
            for one in moved  # type: ignore[index]
        }
        assert not [error for error, _ in acknowledged if error is not None]
        broker.kill()
        broker.start()
        assert folders_of(broker) == after
        found = {message.value() for message in read_back(broker.bootstrap, "orders", PARTITIONS)}
        assert found == {value for _, value in acknowledged}
