"""Clients of asyncio in a forked process: the parent's refuse to work, and disturb the parent in no way."""

import subprocess
import sys
from typing import Final

from moldau.testing.process import BrokerProcess

WITHIN_S: Final = 60

SCRIPT: Final = """
import asyncio, os, sys
from moldau import Admin, Consumer, Producer, ShareConsumer
from moldau.clients.errors import FatalError

servers, topic = sys.argv[1:]
made_before = Producer(servers)


async def refused(call):
    try:
        async with asyncio.timeout(10):
            await call
    except FatalError as error:
        assert "fork" in str(error), error
    else:
        raise AssertionError("it worked")


async def in_child(producer, consumer, sharing, admin):
    for call in (
        send(producer, topic),
        producer.send_many(topic, [b"never"]),
        producer.flush(),
        consumer.poll(),
        consumer.commit(),
        consumer.committed(consumer.assignment),
        consumer.unsubscribe(),
        read_one(consumer),
        sharing.poll(),
        sharing.commit(),
        admin.topics.list(),
        admin.describe_cluster(),
    ):
        await refused(call)
    async with asyncio.timeout(10):
        for one in (producer, consumer, sharing, admin):
            await one.close()
        async with made_before:
            await made_before.send(topic, b"child")


async def send(producer, topic):
    await producer.send(topic, b"never")


async def read_one(consumer):
    return await anext(aiter(consumer))


def child(clients):
    status = 1
    try:
        asyncio.run(in_child(*clients))
        status = 0
    finally:
        sys.stderr.flush()
        os._exit(status)


async def parent():
    async with (
        Producer(servers) as producer,
        Consumer(servers, group_id=topic, topics=[topic], auto_offset_reset="earliest") as consumer,
        ShareConsumer(servers, topic + "-shared", [topic]) as sharing,
        Admin(servers) as admin,
    ):
        await producer.send(topic, b"parent")
        for _ in range(3):
            producer.send(topic, b"parent")  # the lane of a run of plain records is open at the fork
        found = []
        while len(found) < 4:
            found += [value for records in await consumer.poll() for value in records.values]
        await sharing.poll(wait_s=0.1)
        await admin.topics.list()
        pid = os.fork()
        if pid == 0:
            child((producer, consumer, sharing, admin))
        status = await asyncio.to_thread(os.waitpid, pid, 0)
        assert os.waitstatus_to_exitcode(status[1]) == 0
        await producer.send(topic, b"parent")
        while len(found) < 6:
            found += [value for records in await consumer.poll() for value in records.values]
        await consumer.commit()
        await sharing.poll(wait_s=0.1)
        await admin.topics.list()
        assert sorted(found) == [b"child"] + [b"parent"] * 5, found


asyncio.run(parent())
"""


def test_a_client_that_was_used_before_the_fork_refuses_to_work_in_the_child(broker: BrokerProcess) -> None:
    command = [sys.executable, "-c", SCRIPT, broker.bootstrap_servers, "forked"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    assert done.returncode == 0, done.stderr
