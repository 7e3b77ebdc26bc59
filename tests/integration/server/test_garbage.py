"""The objects of a request are gone with its answer.

The collector runs after tens of thousands of new objects.  Records in a cycle of references would stay until then, 100 MiB a request.
The test looks in a process of its own (this file as a program), where there is no other garbage.
"""

import gc
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.testing.embedded import EmbeddedBroker

ROUNDS = 5
WITHIN_S = 30
PROCESS_WITHIN_S = 180
Step = Callable[[], None]


@pytest.fixture(scope="module")
def found() -> Mapping[str, Mapping[str, int]]:
    """The objects that only the collector could free, for each step: their kinds and how many."""
    done = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=PROCESS_WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    kinds: Mapping[str, Mapping[str, int]] = json.loads(done.stdout)
    return kinds


@pytest.mark.parametrize("done", ["produce", "transaction", "fetch and commit", "fetch and commit (KIP-848)", "share fetch"])
def test_an_answered_request_leaves_nothing_to_the_collector(found: Mapping[str, Mapping[str, int]], done: str) -> None:
    ours = {kind: count for kind, count in found[done].items() if kind.startswith("moldau.") or kind == "builtins.memoryview"}
    assert not ours, found[done]


def garbage_of(step: Step) -> Mapping[str, int]:
    for _ in range(ROUNDS):  # until there are connections, metadata, coordinators
        step()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    for _ in range(ROUNDS):
        step()
    gc.collect()
    gc.set_debug(0)
    kinds = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
    gc.garbage.clear()
    gc.enable()
    return kinds


def steps(bootstrap: str) -> Mapping[str, Step]:
    options = {"bootstrap.servers": bootstrap}
    producer = Producer({**options, "acks": "all"})
    transactional = Producer({**options, "transactional.id": "t"})
    transactional.init_transactions(WITHIN_S)
    sharing = ShareConsumer({**options, "group.id": "shared"})
    sharing.subscribe(["events"])

    def produce() -> None:
        producer.produce("events", b"x" * 1000)
        assert producer.flush(WITHIN_S) == 0

    def transact() -> None:
        transactional.begin_transaction()
        transactional.produce("events", b"x" * 1000)
        transactional.commit_transaction(WITHIN_S)

    def consume(protocol: str) -> Step:
        group = {"group.id": protocol, "group.protocol": protocol, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({**options, **group, "fetch.wait.max.ms": 20})
        consumer.subscribe(["events"])

        def step() -> None:
            produce()
            message = consumer.poll(WITHIN_S)
            assert message is not None
            while message is not None:
                assert message.error() is None
                message = consumer.poll(0.1)
            consumer.commit(asynchronous=False)

        return step

    def share() -> None:
        """The share group begins with records that come after it was joined, and is told of the records of each round with the next."""
        produce()
        while not sharing.poll(0.2):
            produce()

    return {
        "produce": produce,
        "transaction": transact,
        "fetch and commit": consume("classic"),
        "fetch and commit (KIP-848)": consume("consumer"),
        "share fetch": share,
    }


def main() -> None:
    with EmbeddedBroker(properties={"log.flush.policy": "ack"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("events", 1, 1)])["events"].result(WITHIN_S)
        sys.stdout.write(json.dumps({name: garbage_of(step) for name, step in steps(broker.bootstrap_servers).items()}))


if __name__ == "__main__":
    main()
