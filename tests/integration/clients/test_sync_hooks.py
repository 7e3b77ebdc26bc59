"""Hooks of the blocking clients that raise, or that use a client themselves, on our broker and on Apache Kafka: nothing waits for ever."""

import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import pytest

from moldau import TopicPartition
from moldau.clients.consumer import RebalanceListener
from moldau.clients.errors import AuthenticationError, ClientError, FatalError
from moldau.errors import KafkaError
from moldau.net.sasl import OAuthBearer
from moldau.sync import Consumer, Producer, ShareConsumer
from moldau.testing.calls import Calls

pytestmark = pytest.mark.xdist_group("both brokers")

T = TypeVar("T")

WITHIN_S = 60.0


class OnPurpose(Exception):
    pass


def within(work: Callable[[], T]) -> T:
    """What `work` returns.  A call that waits for ever fails the test instead of holding it up."""
    found: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WITHIN_S)
    assert not thread.is_alive(), "the call does not return"
    if errors:
        raise errors[0]
    return found[0]


class Anywhere(Calls):
    """A running broker, for the calls that tests have."""

    def __init__(self, servers: str) -> None:
        self.servers = servers

    @property
    def bootstrap_servers(self) -> str:
        return self.servers


@pytest.fixture
def broker(bootstrap: str) -> Anywhere:
    return Anywhere(bootstrap)


@pytest.fixture
def topic(broker: Anywhere) -> str:
    name = f"t-{uuid.uuid4().hex[:12]}"
    broker.create_topic(name)
    return name


def refuses(*_: object) -> Any:
    raise OnPurpose


def refuses_bad(data: bytes) -> bytes:
    if data == b"bad":
        raise OnPurpose
    return data


def only_good(topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
    return 0 if value != b"bad" else refuses()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"partitioner": only_good}, ClientError),
        ({"key_serializer": refuses_bad}, OnPurpose),
        ({"value_serializer": refuses_bad}, OnPurpose),
    ],
    ids=["partitioner", "key serializer", "value serializer"],
)
def test_a_hook_of_a_producer_that_raises_costs_only_its_record(
    broker: Anywhere, topic: str, given: dict[str, Any], error: type[Exception]
) -> None:
    def work() -> None:
        with Producer(broker.bootstrap_servers, **given) as producer:
            first, second, third = (producer.send(topic, value, key=value) for value in (b"1", b"bad", b"3"))
            assert (first.result().offset, third.result().offset) == (0, 1)
            with pytest.raises(error):
                second.result()
            with pytest.raises(error):
                producer.send_many(topic, [b"bad"], keys=[b"bad"])

    within(work)


class Raising:
    on_send = on_acknowledgement = on_consume = on_commit = refuses


def test_interceptors_and_callbacks_that_raise_are_skipped(broker: Anywhere, topic: str) -> None:
    def work() -> list[bytes]:
        with Producer(broker.bootstrap_servers, interceptors=[Raising()]) as producer:
            producer.send(topic, b"1", on_delivery=refuses)
            producer.send(topic, b"2").result()
            producer.send_many(topic, [b"3"])
        given = {"group_id": topic, "topics": [topic], "auto_offset_reset": "earliest"}
        with Consumer(broker.bootstrap_servers, interceptors=[Raising()], **given) as consumer:
            found: list[bytes] = []
            for record in consumer:
                found.append(record.value)
                if len(found) == 3:
                    consumer.commit()
                    return found
        raise AssertionError

    assert within(work) == [b"1", b"2", b"3"]


@pytest.mark.parametrize("which", ["key_deserializer", "value_deserializer"])
def test_a_deserializer_that_raises_costs_one_record(broker: Anywhere, topic: str, which: str) -> None:
    def work() -> list[tuple[bytes, str]]:
        broker.produce(topic, [b"1", b"bad", b"3"], keys=[b"1", b"bad", b"3"])
        given: dict[str, Any] = {which: refuses_bad}
        with Consumer(broker.bootstrap_servers, **given) as consumer:
            consumer.assign({TopicPartition(topic, 0): 0})
            found: list[tuple[bytes, str]] = []
            for record in consumer:
                found.append((record.value, type(record.error).__name__))
                if len(found) == 3:
                    return found
        raise AssertionError

    assert within(work) == [(b"1", "NoneType"), (b"bad", "OnPurpose"), (b"3", "NoneType")]


class Listener(RebalanceListener):
    """Tries to poll in an assignment, and raises there; commits in a revocation."""

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.heard: list[str] = []

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        assert self.consumer is not None
        try:
            self.consumer.poll(0)
        except KafkaError as error:
            self.heard.append(error.detail or "")
        raise OnPurpose

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        assert self.consumer is not None
        self.consumer.commit(dict.fromkeys(partitions, 1))
        found = self.consumer.committed(partitions)
        self.heard.append(f"committed {[one.offset for one in found.values() if one is not None]}")


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_listener_may_use_its_consumer_and_one_that_raises_is_heard(broker: Anywhere, topic: str, protocol: str) -> None:
    listener = Listener()

    def work() -> None:
        broker.produce(topic, [b"1"])
        given = {"group_id": topic, "auto_offset_reset": "earliest", "group_protocol": protocol}
        with Consumer(broker.bootstrap_servers, topics=[topic], listener=listener, **given) as consumer:
            listener.consumer = consumer
            found: list[bytes] = []
            raised = 0
            while not found:
                try:
                    found += [record.value for records in consumer.poll(1) for record in records]
                except OnPurpose:
                    raised += 1
            assert raised
            consumer.unsubscribe()

    within(work)
    assert listener.heard == ["a rebalance listener cannot poll: poll waits for it", "committed [1]"]


def test_a_delivery_callback_that_waits_for_its_producer_is_refused(broker: Anywhere, topic: str) -> None:
    errors: list[BaseException] = []
    sent: list[Any] = []

    def work() -> None:
        with Producer(broker.bootstrap_servers) as producer:

            def on_delivery(where: object, error: object) -> None:
                sent.append(producer.send(topic, b"again"))  # a callback may send
                try:
                    producer.flush()
                except FatalError as refusal:
                    errors.append(refusal)

            producer.send(topic, b"1", on_delivery=on_delivery).result()
            assert sent[0].result().offset == 1

    within(work)
    assert "callback" in str(errors[0])


def test_a_future_that_is_cancelled_holds_nothing_up(broker: Anywhere, topic: str) -> None:
    """The loop is held up by the first record's serializer, so that the second is cancelled before it is on its way."""
    held, goes_on = threading.Event(), threading.Event()

    def slow(value: bytes) -> bytes:
        if value == b"1":
            held.set()
            assert goes_on.wait(WITHIN_S)
        return value

    def work() -> None:
        with Producer(broker.bootstrap_servers, value_serializer=slow) as producer:
            first = producer.send(topic, b"1")
            assert held.wait(WITHIN_S)
            second, third = producer.send(topic, b"2"), producer.send(topic, b"3")
            assert second.cancel()
            goes_on.set()
            assert first.result().offset == 0
            assert third.result().offset == 1
            with pytest.raises(CancelledError):
                second.result()

    within(work)


@pytest.mark.parametrize("kind", ["producer", "consumer", "share consumer"])
def test_a_provider_of_tokens_that_raises_is_heard(broker: Anywhere, topic: str, kind: str) -> None:
    given: dict[str, Any] = {"sasl": OAuthBearer(refuses)}

    def work() -> None:
        if kind == "producer":
            with Producer(broker.bootstrap_servers, **given) as producer:
                producer.send(topic, b"1").result()
        elif kind == "consumer":
            with Consumer(broker.bootstrap_servers, **given) as consumer:
                consumer.assign({TopicPartition(topic, 0): 0})
                while True:
                    consumer.poll(5)
        else:
            with ShareConsumer(broker.bootstrap_servers, topic, [topic], **given) as sharing:
                while True:
                    sharing.poll(wait_s=5)

    with pytest.raises(AuthenticationError, match="OnPurpose"):
        within(work)


FORKED = """
import os, sys
from moldau.sync import Producer
from moldau.clients.errors import FatalError
servers, topic = sys.argv[1:]
inherited = Producer(servers)
inherited.send(topic, b"parent").result(30)
child = os.fork()
if child == 0:
    status = 1
    try:
        try:
            inherited.send(topic, b"never")
        except FatalError as error:
            assert "fork" in str(error)
            with Producer(servers) as own:
                own.send(topic, b"child").result(30)
            status = 0
    finally:
        os._exit(status)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
inherited.send(topic, b"parent").result(30)
inherited.close()
"""


def test_a_forked_process_makes_clients_of_its_own(broker: Anywhere, topic: str) -> None:
    command = [sys.executable, "-c", FORKED, broker.bootstrap_servers, topic]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
    assert [record.value for record in broker.consume(topic, 3)] == [b"parent", b"child", b"parent"]
