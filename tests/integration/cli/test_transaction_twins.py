"""`moldau kafka-transactions` beside Kafka's own, on a broker of ours: the same lines and the same exit codes."""

import asyncio
import re
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from moldau.clients.cluster import Cluster
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.testing.process import BrokerProcess
from proof.kafka import twins

pytestmark = [pytest.mark.slow, pytest.mark.java]

TOOL = "kafka-transactions"
MOVING = re.compile(r"(?<=\t)(\d{3,6}) *(?=\t)")
"""How long a transaction has been open.  Producer ids and epochs have fewer digits here, timestamps have more."""
KEPT: list[Producer] = []
"""A producer that is garbage-collected would abort its open transaction."""
ADDS_NO_PARTITIONS = 11
"""The last version of Produce whose clients add partitions to their transactions themselves."""


def theirs(*arguments: str) -> tuple[int, list[str], list[str]]:
    return lines(twins.theirs(TOOL, *arguments))


def ours(*arguments: str) -> tuple[int, list[str], list[str]]:
    return lines(twins.ours(TOOL, *arguments))


def lines(ended: twins.Ended) -> tuple[int, list[str], list[str]]:
    return ended.exit_code, ended.out.splitlines(), [line for line in ended.err.splitlines() if line]


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    """A broker with transactions that are open, one that committed, one that aborted, and one that hangs."""
    options = {"transaction.state.log.num.partitions": "1", "transaction.partition.verification.enable": "false"}
    with BrokerProcess(properties=options) as one:
        admin = AdminClient({"bootstrap.servers": one.bootstrap})
        for future in admin.create_topics([NewTopic("orders", 2, 1), NewTopic("stuck", 1, 1)]).values():
            future.result(30)
        for name, end in (("done", Producer.commit_transaction), ("undone", Producer.abort_transaction), ("open", None), ("victim", None)):
            producer = Producer({"bootstrap.servers": one.bootstrap, "transactional.id": name, "transaction.timeout.ms": 900_000})
            producer.init_transactions(30)
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce("orders", name.encode(), partition=partition)
            producer.flush(30)
            if end is not None:
                end(producer)
            KEPT.append(producer)
        asyncio.run(hang(one))
        yield one
        KEPT.clear()


async def hang(broker: BrokerProcess) -> None:
    """Writes a transactional record of a producer that no coordinator knows, as a late record was before KIP-890."""
    record = NewRecord(time.time_ns() // 1_000_000 - 20 * 60_000, None, b"late")
    batch = build_batch([record], producer_id=77, producer_epoch=3, base_sequence=0, is_transactional=True)
    data = PartitionProduceData(index=0, records=memoryview(batch))
    async with Cluster.connect(broker.bootstrap) as cluster:
        topics = [TopicProduceData(name="stuck", partition_data=[data])]
        request = ProduceRequest(transactional_id="gone", acks=-1, timeout_ms=5000, topic_data=topics)
        response = await (await cluster.any_channel()).send(request, ADDS_NO_PARTITIONS)
    assert response.responses[0].partition_responses[0].error_code == 0, response


@pytest.mark.parametrize(
    "command",
    [
        "list",
        "list --duration-filter 0",
        "list --duration-filter 100000000",
        "list --transactional-id-pattern .*done",
        "describe --transactional-id open",
        "describe --transactional-id done",
        "describe --transactional-id nobody",
        "describe-producers --topic orders --partition 0",
        "describe-producers --topic orders --partition 1 --broker-id 1",
        "find-hanging --topic orders",
        "find-hanging --topic stuck",
        "find-hanging --topic stuck --max-transaction-timeout 100000",
        "find-hanging --broker-id 1 --max-transaction-timeout 0",
        "find-hanging",
        "find-hanging --broker-id 1 --partition 0",
        "abort --topic orders --partition 0",
        "abort --topic orders --partition 0 --producer-id 5",
        "abort --topic orders --partition 0 --producer-id 5 --producer-epoch 0",
        "abort --topic orders --partition 0 --start-offset 12345",
    ],
)
def test_same_lines(broker: BrokerProcess, command: str) -> None:
    at = ("--bootstrap-server", broker.bootstrap)
    expected, found = theirs(*at, *command.split()), ours(*at, *command.split())
    assert found[0] == expected[0], "\n".join(found[2])
    assert [MOVING.sub("…", line) for line in found[1]] == [MOVING.sub("…", line) for line in expected[1]]
    assert found[2] == expected[2]


def test_what_is_open_is_aborted_in_one_partition_by_each(broker: BrokerProcess) -> None:
    at = ("--bootstrap-server", broker.bootstrap)
    for tool, partition in ((theirs, "0"), (ours, "1")):
        where = ("--topic", "orders", "--partition", partition)
        rows = [line.split() for line in ours(*at, "describe-producers", *where)[1][1:]]
        last = max(int(row[5]) for row in rows if row[5] != "None")
        assert tool(*at, "abort", *where, "--start-offset", str(last)) == (0, [], [])
        after = [line.split() for line in ours(*at, "describe-producers", *where)[1][1:]]
        assert str(last) not in [row[5] for row in after]


def test_a_transactional_id_is_terminated_by_each(broker: BrokerProcess) -> None:
    at = ("--bootstrap-server", broker.bootstrap)
    for tool, transactional_id in ((theirs, "open"), (ours, "victim")):
        assert tool(*at, "forceTerminateTransaction", "--transactionalId", transactional_id) == (0, [], [])
        row = ours(*at, "describe", "--transactional-id", transactional_id)[1][1].split()
        assert (row[3], row[4], row[5]) == ("2", "Empty", "30000")
