"""Kafka's own copier, producer and consumer for system tests, under SIGKILL of the broker and of the copier: everything once and in order.

COPIER_RECORDS=100000 makes it the long run that the documentation reports.
"""

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moldau.coordinator.txn.state import TransactionState
from moldau.testing.process import BrokerProcess
from proof.kafka.apache import formatted_objects, java_command, run_tool

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("copier")]

RECORDS = int(os.environ.get("COPIER_RECORDS", "3000"))
WITHIN_S = 400 + RECORDS / 100
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"
TOPICS = "org.apache.kafka.tools.TopicCommand"
TRANSACTION_LOG_FORMATTER = "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"


class Watched:
    """One of Kafka's programs that says on every line of its output, in JSON, how far it is."""

    def __init__(self, main_class: str, *arguments: str) -> None:
        self.lines: list[dict[str, object]] = []
        self.process = subprocess.Popen(java_command(main_class, *arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.other: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.other.append(line)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()

    def end(self, within_s: float) -> int:
        code = self.process.wait(within_s)
        self._reader.join()
        return code

    @property
    def processed(self) -> int:
        return int(self.lines[-1].get("totalProcessed", 0)) if self.lines else 0  # type: ignore[call-overload]

    def wait_for(self, processed: int, deadline: float) -> bool:
        """Waits until so much is processed; returns False if the program has ended before."""
        while self.processed < processed:
            assert time.monotonic() < deadline, f"{self.processed} of {processed} processed; {self.other[-20:]}"
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        return True


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties={"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}) as one:
        yield one


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    """Starts programs; none outlives the test."""
    running: list[Watched] = []

    def start(*command: str) -> Watched:
        running.append(Watched(*command))
        return running[-1]

    yield start
    for one in running:
        one.kill()


def consumed(watch: Callable[..., Watched], broker: BrokerProcess, folder: Path) -> list[tuple[int, str]]:
    """(offset, value) of each record that a reader of committed records gets from the output."""
    config = folder / "consumer.properties"
    config.write_text("isolation.level=read_committed\n")
    consumer = watch(
        CONSUMER,
        *("--bootstrap-server", broker.bootstrap, "--topic", "output", "--group-id", "readers", "--reset-policy", "earliest"),
        *("--max-messages", str(RECORDS), "--verbose", "--command-config", str(config)),
    )
    assert consumer.end(WITHIN_S) == 0, consumer.other[-20:]
    return [(int(line["offset"]), str(line["value"])) for line in consumer.lines if line.get("name") == "record_data"]  # type: ignore[call-overload]


def test_a_copy_is_exact_whatever_is_killed(watch: Callable[..., Watched], broker: BrokerProcess, tmp_path: Path) -> None:
    at = ("--bootstrap-server", broker.bootstrap)
    for topic in ("input", "output"):
        run_tool(TOPICS, *at, "--create", "--topic", topic, "--partitions", "1")
    producer = watch(PRODUCER, *at, "--topic", "input", "--max-messages", str(RECORDS), "--throughput", "-1")
    assert producer.end(WITHIN_S) == 0, producer.other[-20:]
    size = max(10, RECORDS // 200)
    copier_command = (
        *("--broker-list", broker.bootstrap, "--input-topic", "input", "--input-partition", "0", "--output-topic", "output"),
        *("--transactional-id", "copier", "--consumer-group", "copiers", "--transaction-size", str(size)),
        *("--transaction-timeout", "20000", "--enable-random-aborts"),
    )
    deadline = time.monotonic() + WITHIN_S
    kills = ["copier", "broker"] * max(1, RECORDS // 10_000)
    step = RECORDS // (2 * len(kills))  # the copier goes on while its victim falls and rises: half of the way is left for that
    copier, since = watch(COPIER, *copier_command), 0
    struck = []
    for victim in kills:
        if not copier.wait_for(since + step, deadline):
            break
        struck.append(victim)
        if victim == "broker":
            since = copier.processed
            broker.kill()
            broker.start()
        else:
            copier.kill()
            copier, since = watch(COPIER, *copier_command), 0
    assert copier.end(deadline - time.monotonic()) == 0, copier.other[-20:]
    assert struck == kills, "the copy was over before everything was killed"
    found = consumed(watch, broker, tmp_path)
    assert [value for _, value in found] == [str(number) for number in range(RECORDS)]
    assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})


def test_kafka_reads_our_transaction_log(broker: BrokerProcess) -> None:
    """After the copy, Kafka reads the log by the console consumer's formatter and from the files."""
    records = formatted_objects(broker.bootstrap, "__transaction_state", TRANSACTION_LOG_FORMATTER)
    assert {record["key"]["data"]["transactionalId"] for record in records} == {"copier"}
    assert len(records) > 20
    log = broker.log_dir / "__transaction_state-0" / "00000000000000000000.log"
    dumped = run_tool("org.apache.kafka.tools.DumpLogSegments", "--transaction-log-decoder", "--files", str(log))
    states = {TransactionState(int(number)) for number in re.findall(r'"transactionStatus":(\d)', dumped)}
    assert states == set(TransactionState) - {TransactionState.DEAD}, dumped[-2000:]
    assert '"transactionalId":"copier"' in dumped
