"""A partition or a broker in trouble holds up nothing else, and is served again once its trouble is over."""

import asyncio

import pytest

from moldau.clients.consumer import Consumer
from moldau.clients.producer import Producer
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchRequest
from moldau.protocol.messages.metadata import MetadataRequest
from moldau.types import NO_LEADER, TopicPartition
from proof.clients.model import Seen, Verdict, World


def test_a_partition_without_a_leader_holds_up_no_other() -> None:
    world = World()
    world.cluster.create("t", 2)
    world.cluster.partition("t", 0).leader = NO_LEADER

    async def produce() -> list[float]:
        took_s = []
        async with world.connect() as cluster, Producer(cluster, clock=world.clock) as producer:
            stuck = producer.send("t", b"stuck", partition=0)
            for number in range(20):
                began = world.loop.time()
                await producer.send("t", b"%d" % number, partition=1)
                took_s.append(world.loop.time() - began)
            assert not stuck.done()
            world.cluster.move("t", 0, 1)
            await stuck
        return took_s

    took_s = world.run(produce())
    assert sorted(took_s)[len(took_s) // 2] < 0.05, took_s
    assert world.cluster.partition("t", 0).values == [b"stuck"]


def test_fetching_goes_on_after_trouble_while_a_leader_is_looked_for() -> None:
    """An error of the search for a leader is raised once; the next poll fetches again."""
    world = World()
    world.cluster.create("t", 1)
    trouble = {"metadata": False}

    def cruel(seen: Seen) -> Verdict | None:
        if not trouble["metadata"]:
            return None
        if isinstance(seen.request, FetchRequest):
            return Verdict(drop_before=True)
        if isinstance(seen.request, MetadataRequest):
            return Verdict(answer=seen.request.refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        return None

    world.cluster.rules.append(cruel)

    async def read() -> list[bytes | None]:
        async with (
            world.connect() as cluster,
            Producer(cluster, clock=world.clock) as producer,
            Consumer(cluster, fetch_max_wait_ms=100, clock=world.clock) as consumer,
        ):
            await consumer.assign({TopicPartition("t", 0): 0})
            assert await consumer.poll(0.2) == []
            trouble["metadata"] = True
            with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
                await until_it_raises(consumer)
            trouble["metadata"] = False
            await producer.send("t", b"after", partition=0)
            async with asyncio.timeout(30):
                while True:
                    try:
                        batches = await consumer.poll(1.0)
                    except KafkaError:
                        continue
                    if batches:
                        return [value for records in batches for value in records.values]

    assert world.run(read()) == [b"after"]


async def until_it_raises(consumer: Consumer) -> None:
    for _ in range(5):
        await consumer.poll(1.0)
