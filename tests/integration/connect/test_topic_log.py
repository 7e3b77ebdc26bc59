"""A followed topic: reading to its end waits for transactions that are open there."""

import asyncio

import pytest

from moldau.clients.admin import Admin, NewTopic
from moldau.clients.connecting import cluster_of
from moldau.clients.options import ClientOptions
from moldau.clients.producer import Producer
from moldau.connect.store.topic_log import TopicLog
from moldau.testing.process import BrokerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
LONG_ENOUGH_S = 3.0


async def test_reading_to_the_end_waits_for_an_open_transaction_and_misses_nothing_behind_it() -> None:
    replayed: list[bytes | None] = []
    async with BrokerProcess() as broker, cluster_of(broker.bootstrap, ClientOptions()) as cluster:
        async with Admin(cluster) as admin:
            await admin.topics.create([NewTopic("t", 1, 1)])
        async with (
            Producer(cluster) as plain,
            Producer(broker.bootstrap, transactional_id="open") as slow,
            Producer(broker.bootstrap, transactional_id="done") as quick,
        ):
            log = TopicLog(cluster.sibling(), plain, "t", lambda _, key, value: replayed.append(value))
            await log.start()
            await slow.begin_transaction()
            await slow.send("t", b"aborted")
            async with quick.transaction():
                quick.send("t", b"committed")
            reading = asyncio.create_task(log.read_to_end())
            done, _ = await asyncio.wait([reading], timeout=LONG_ENOUGH_S)
            assert not done, "it returned before the committed record could be read"
            await slow.abort_transaction()
            async with asyncio.timeout(60):
                await reading
            await log.close()
    assert replayed == [b"committed"]
