"""The fixtures for users, with clients that are not ours under test."""

import time
from typing import Any

import pytest
from confluent_kafka import Producer as Confluent

from moldau.errors import ErrorCode
from moldau.sync import Producer
from moldau.testing.embedded import EmbeddedBroker
from moldau.testing.faults import Faults

pytestmark = pytest.mark.slow


def confluent_sends(broker: EmbeddedBroker, topic: str, value: bytes, **options: Any) -> None:
    failures: list[object] = []
    producer = Confluent({"bootstrap.servers": broker.bootstrap_servers, **options})
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    assert producer.flush(60) == 0
    assert not failures


def test_a_retriable_error_is_tried_again(moldau_broker: EmbeddedBroker, moldau_topic: str, moldau_faults: Faults) -> None:
    before = moldau_faults.count("Produce")
    moldau_faults.fail("Produce", ErrorCode.NOT_ENOUGH_REPLICAS, times=2)
    confluent_sends(moldau_broker, moldau_topic, b"tea")
    assert moldau_faults.count("Produce") == before + 3
    moldau_broker.expect(moldau_topic, [b"tea"])


def test_a_lost_answer_costs_no_duplicate_with_idempotence(moldau_broker: EmbeddedBroker, moldau_topic: str, moldau_faults: Faults) -> None:
    moldau_faults.drop("Produce", after=True)
    confluent_sends(moldau_broker, moldau_topic, b"tea", **{"enable.idempotence": True})
    moldau_faults.drop("Produce", after=True)
    with Producer(moldau_broker.bootstrap_servers) as producer:
        producer.send(moldau_topic, b"cake").result(60)
    moldau_broker.expect(moldau_topic, [b"tea", b"cake"])


def test_a_broken_connection_and_a_late_answer(moldau_broker: EmbeddedBroker, moldau_topic: str, moldau_faults: Faults) -> None:
    moldau_faults.drop("Produce")
    moldau_faults.delay("Produce", 0.3)
    began = time.monotonic()
    confluent_sends(moldau_broker, moldau_topic, b"tea")
    assert time.monotonic() - began > 0.3
    moldau_broker.expect(moldau_topic, [b"tea"])


def test_time_moves(moldau_broker: EmbeddedBroker, moldau_faults: Faults) -> None:
    moldau_broker.create_topic("stamped-by-the-broker", configs={"message.timestamp.type": "LogAppendTime"})
    moldau_faults.move_time(hours=48)
    with Producer(moldau_broker.bootstrap_servers) as producer:
        stamped = producer.send("stamped-by-the-broker", b"x").result(60)
    assert stamped.timestamp / 1000 - time.time() > 47 * 3600


def test_a_restart_keeps_data_and_port() -> None:
    with EmbeddedBroker() as broker:
        broker.produce("kept", ["a", "b"], keys=["k", "k"])
        port = broker.port
        broker.restart()
        assert broker.port == port
        broker.expect("kept", [b"a", b"b"])
        assert [record.key for record in broker.consume("kept", 2)] == [b"k", b"k"]


def test_what_is_not_there_is_shown(moldau_broker: EmbeddedBroker, moldau_topic: str, moldau_faults: Faults) -> None:
    moldau_broker.produce(moldau_topic, [b"tea"])
    with pytest.raises(AssertionError, match="holds"):
        moldau_broker.expect(moldau_topic, [b"cake"], within_s=5)
    with pytest.raises(ValueError, match="nearest is 'Produce'"):
        moldau_faults.drop("Produse")


def test_expect_takes_text_and_a_slow_broker_fails_no_test(moldau_broker: EmbeddedBroker, moldau_topic: str, moldau_faults: Faults) -> None:
    moldau_broker.produce(moldau_topic, ["tea", "cake"])
    moldau_faults.delay("Fetch", 0.5, times=100)
    moldau_broker.expect(moldau_topic, ["tea", b"cake"])
    moldau_faults.clear()
    with pytest.raises(AssertionError, match="holds"):
        moldau_broker.expect(moldau_topic, ["tea"])
