"""Our performance tools and verifiable clients beside Kafka's own: the same lines but for the measured figures, and the same exit codes."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.clients.admin import ConfigChange, ResourceType
from moldau.sync import Admin
from moldau.testing.process import BrokerProcess
from proof.kafka.twins import ours, theirs

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("perf-twins")]

DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}")
NUMBER = re.compile(r"-?\d+(\.\d+)?")
COUNT = 2000


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with BrokerProcess() as broker:
        sent = ours("kafka-producer-perf-test", *at(broker.bootstrap), *sending("read", "--record-size 50"))
        assert sent.exit_code == 0, sent
        with Admin(broker.bootstrap) as admin:
            for group in ("theirs", "ours"):
                admin.configs.alter({(ResourceType.GROUP, group): [ConfigChange("share.auto.offset.reset", "earliest")]})
        yield broker.bootstrap


def at(bootstrap: str) -> tuple[str, str]:
    return "--bootstrap-server", bootstrap


def sending(topic: str, more: str) -> list[str]:
    return ["--topic", topic, "--num-records", str(COUNT), "--throughput", "-1", *more.split()]


def shape(text: str) -> list[str]:
    """Lines with their figures replaced by their number of decimals."""

    def decimals(found: re.Match[str]) -> str:
        return f"<{len((found[1] or '.')[1:])}>"

    return [NUMBER.sub(decimals, DATE.sub("<date>", line)) for line in text.splitlines()]


@pytest.mark.parametrize(
    "more",
    [
        "--record-size 100",
        "--payload-monotonic",
        "--payload-monotonic --transaction-duration-ms 100",
        "--record-size 10 --warmup-records 1000",
        "--record-size 10 --producer-props acks=1 linger.ms=1",
        "--payload-file {file}",
    ],
)
def test_the_producer_prints_the_same_lines(bootstrap: str, more: str, tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text("one\ntwo\n")
    arguments = (*at(bootstrap), *sending("written", more.format(file=words)))
    expected, found = theirs("kafka-producer-perf-test", *arguments), ours("kafka-producer-perf-test", *arguments)
    assert found.exit_code == expected.exit_code == 0, found
    assert shape(found.out) == shape(expected.out)
    assert f"{COUNT} records sent, " in found.out


@pytest.mark.parametrize(
    "wrong",
    [
        "--topic t --throughput -1 --record-size 10",
        "--topic t --num-records 10 --throughput -1",
        "--topic t --num-records 10 --throughput -1 --record-size 0",
        "--topic t --num-records 10 --throughput -1 --record-size 5 --payload-monotonic",
        "--topic t --num-records 10 --throughput -1 --record-size 5 --warmup-records 10",
        "--topic t --num-records 10 --throughput -1 --record-size 5 --transaction-duration-ms 0",
    ],
)
def test_the_producer_refuses_the_same(bootstrap: str, wrong: str) -> None:
    arguments = (*at(bootstrap), *wrong.split())
    expected, found = theirs("kafka-producer-perf-test", *arguments), ours("kafka-producer-perf-test", *arguments)
    assert found.exit_code == expected.exit_code == 1
    assert found.err


@pytest.mark.parametrize("more", ["", "--hide-header", "--show-detailed-stats --reporting-interval 1", "--from-latest --timeout 1500"])
def test_the_consumer_prints_the_same_lines(bootstrap: str, more: str) -> None:
    arguments = (*at(bootstrap), "--topic", "read", "--num-records", str(COUNT), *more.split())
    expected, found = theirs("kafka-consumer-perf-test", *arguments), ours("kafka-consumer-perf-test", *arguments)
    assert found.exit_code == expected.exit_code == 0, found
    assert list(dict.fromkeys(shape(found.out))) == list(dict.fromkeys(shape(expected.out)))
    if not more:
        consumed = [text.splitlines()[1].split(", ")[slice(2, 5, 2)] for text in (expected.out, found.out)]
        assert consumed[0] == consumed[1] == [f"{COUNT * 50 / 1024 / 1024:.4f}", str(COUNT)]


@pytest.mark.parametrize("wrong", ["--topic t", "--num-records 5", "--topic t --num-records 5 --messages 5"])
def test_the_consumer_refuses_the_same(bootstrap: str, wrong: str) -> None:
    arguments = (*at(bootstrap), *wrong.split())
    expected, found = theirs("kafka-consumer-perf-test", *arguments), ours("kafka-consumer-perf-test", *arguments)
    assert found.exit_code == expected.exit_code == 1
    assert expected.err.splitlines()[0] in found.err


def test_the_share_consumer_prints_the_same_lines(bootstrap: str) -> None:
    arguments = (*at(bootstrap), "--topic", "read", "--num-records", str(COUNT), "--show-consumer-stats")
    expected = theirs("kafka-share-consumer-perf-test", *arguments, "--group", "theirs")
    found = ours("kafka-share-consumer-perf-test", *arguments, "--group", "ours")
    assert found.exit_code == expected.exit_code == 0, found
    assert shape(found.out) == shape(expected.out)


def events(text: str) -> list[dict[str, object]]:
    """The events without their times and without the throughput, which depends on time."""
    found = [json.loads(line) for line in text.splitlines()]
    for one in found:
        del one["timestamp"]
        one.pop("avg_throughput", None)
    return found


@pytest.mark.parametrize("more", ["", "--value-prefix 7 --repeating-keys 2", "--acks 1 --throughput 50 --message-create-time 1000"])
def test_the_verifiable_producer_tells_the_same(bootstrap: str, more: str) -> None:
    told = {}
    for name, run in (("theirs", theirs), ("ours", ours)):
        topic = f"verified-{name}-{abs(hash(more))}"
        ended = run("kafka-verifiable-producer", *at(bootstrap), "--topic", topic, "--max-messages", "5", *more.split())
        assert ended.exit_code == 0, ended
        told[name] = events(ended.out.replace(topic, "t"))
    assert told["ours"] == told["theirs"]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_verifiable_consumer_tells_the_same(bootstrap: str, protocol: str) -> None:
    told = {}
    for name, run in (("theirs", theirs), ("ours", ours)):
        arguments = ("--topic", "read", "--max-messages", "10", "--group-protocol", protocol, "--verbose")
        ended = run("kafka-verifiable-consumer", *at(bootstrap), *arguments, "--group-id", f"{name}-{protocol}")
        assert ended.exit_code == 0, ended
        told[name] = [one for one in events(ended.out) if one["name"] != "shutdown_requested"]
    assert [one["name"] for one in told["ours"]] == [one["name"] for one in told["theirs"]]
    assert told["ours"] == told["theirs"]
