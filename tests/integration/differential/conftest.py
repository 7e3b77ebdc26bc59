"""Apache Kafka and one of our brokers, side by side."""

from collections.abc import Iterator

import pytest

from moldau.testing.process import BrokerProcess
from proof.kafka.apache import ApacheKafka
from proof.kafka.differential import Differential

PROPERTIES = {
    "auto.create.topics.enable": "false",
    "log.retention.hours": "100",
    "num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "group.max.size": "3",
    "group.consumer.max.size": "3",
    "group.consumer.assignment.interval.ms": "0",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.max.size": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}


@pytest.fixture(scope="session")
def both() -> Iterator[Differential]:
    with ApacheKafka(properties=PROPERTIES) as kafka, BrokerProcess(properties=PROPERTIES) as broker:
        differential = Differential(ours=("127.0.0.1", broker.port), theirs=("127.0.0.1", kafka.port))
        yield differential
        differential.close()
