"""Share consumers on our broker and on Apache Kafka: who is handed a record, how often, and what an acknowledgement does."""

import asyncio
import uuid
from collections.abc import Sequence

import pytest

from moldau import Admin, NewTopic, Producer, ShareConsumer, TopicPartition, sync
from moldau.clients.admin.configs import ConfigChange
from moldau.clients.admin.values import ResourceType
from moldau.clients.share import Acknowledge, SharedRecord
from moldau.errors import ErrorCode

pytestmark = pytest.mark.xdist_group("both brokers")

WITHIN_S = 60.0
DELIVERIES = 3


@pytest.fixture
async def jobs(bootstrap: str) -> str:
    """A topic of one partition, and a share group of the same name that reads it from its beginning."""
    name = f"jobs-{uuid.uuid4().hex[:12]}"
    async with Admin(bootstrap) as admin:
        await admin.topics.create([NewTopic(name, 1)])
        wanted = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": str(DELIVERIES)}
        answers = await admin.configs.alter({(ResourceType.GROUP, name): [ConfigChange(*one) for one in wanted.items()]})
        assert set(answers.values()) == {None}
    return name


async def send(bootstrap: str, jobs: str, values: Sequence[bytes]) -> None:
    async with Producer(bootstrap) as producer:
        await (await producer.send_many(jobs, values))


async def take(consumer: ShareConsumer, count: int) -> list[SharedRecord]:
    found: list[SharedRecord] = []
    async with asyncio.timeout(WITHIN_S):
        while len(found) < count:
            found += await consumer.poll()
    return found


def deliveries(found: Sequence[SharedRecord]) -> dict[bytes | None, int]:
    return {shared.record.value: shared.delivery_count for shared in found}


async def test_polls_and_commits_accept_what_the_last_poll_returned(bootstrap: str, jobs: str) -> None:
    values = [b"%d" % number for number in range(5)]
    await send(bootstrap, jobs, values)
    async with ShareConsumer(bootstrap, jobs, [jobs]) as consumer:
        assert deliveries(await take(consumer, 5)) == dict.fromkeys(values, 1)
        await send(bootstrap, jobs, [b"next"])
        assert deliveries(await take(consumer, 1)) == {b"next": 1}
    async with ShareConsumer(bootstrap, jobs, jobs) as consumer:
        assert deliveries(await take(consumer, 1)) == {b"next": 2}, "the close accepts nothing"
        await consumer.commit()
    await send(bootstrap, jobs, [b"last"])
    async with ShareConsumer(bootstrap, jobs, jobs) as consumer:
        assert deliveries(await take(consumer, 1)) == {b"last": 1}


async def test_each_acknowledgement_does_its_own(bootstrap: str, jobs: str) -> None:
    told: dict[int, ErrorCode] = {}

    def on_acknowledged(one: TopicPartition, offsets: list[int], code: ErrorCode) -> None:
        assert one == TopicPartition(jobs, 0)
        told.update(dict.fromkeys(offsets, code))

    await send(bootstrap, jobs, [b"accepted", b"released", b"rejected", b"renewed"])
    async with ShareConsumer(
        bootstrap, jobs, [jobs], on_acknowledged=on_acknowledged, share_acknowledgement_mode="explicit", fetch_max_wait_ms=200
    ) as consumer:
        accepted, released, rejected, renewed = await take(consumer, 4)
        consumer.acknowledge(accepted, Acknowledge.ACCEPT)
        consumer.acknowledge(released, Acknowledge.RELEASE)
        consumer.acknowledge(rejected, Acknowledge.REJECT)
        consumer.acknowledge(renewed, Acknowledge.RENEW)
        await consumer.commit()
        assert told == dict.fromkeys(range(4), ErrorCode.NONE)
        consumer.acknowledge(renewed, Acknowledge.ACCEPT)
        for delivery in (2, 3):
            (again,) = await take(consumer, 1)
            assert (again.record.value, again.delivery_count) == (b"released", delivery)
            consumer.acknowledge(again, Acknowledge.RELEASE)
            await consumer.commit()
        await send(bootstrap, jobs, [b"last"])
        (last,) = await take(consumer, 1)
        assert deliveries([last]) == {b"last": 1}, "a record is delivered three times at most"
        consumer.acknowledge(last, Acknowledge.ACCEPT)


async def test_two_members_share_a_partition(bootstrap: str, jobs: str) -> None:
    """Each takes one record at a time, while the other holds one."""
    await send(bootstrap, jobs, [b"%d" % number for number in range(6)])
    given = {"max_poll_records": 1, "share_acquire_mode": "record_limit", "share_acknowledgement_mode": "explicit"}
    async with ShareConsumer(bootstrap, jobs, [jobs], **given) as one, ShareConsumer(bootstrap, jobs, [jobs], **given) as other:
        found: list[SharedRecord] = []
        for _ in range(3):
            for consumer in (one, other):
                found += await take(consumer, 1)
            for consumer, shared in zip((one, other), found[-2:], strict=True):
                consumer.acknowledge(shared, Acknowledge.ACCEPT)
                await consumer.commit()
    assert deliveries(found) == {b"%d" % number: 1 for number in range(6)}


async def test_a_member_that_leaves_gives_its_records_back(bootstrap: str, jobs: str) -> None:
    await send(bootstrap, jobs, [b"a", b"b"])
    async with ShareConsumer(bootstrap, jobs, [jobs], share_acknowledgement_mode="explicit") as consumer:
        first, _ = await take(consumer, 2)
        consumer.acknowledge(first, Acknowledge.ACCEPT)
    async with ShareConsumer(bootstrap, jobs, [jobs]) as consumer:
        assert deliveries(await take(consumer, 1)) == {b"b": 2}
        await consumer.unsubscribe()
        assert not consumer.assignment
        consumer.subscribe(jobs)
        assert deliveries(await take(consumer, 1)) == {b"b": 3}


def test_without_a_loop(bootstrap: str, jobs: str) -> None:
    with sync.Producer(bootstrap) as producer:
        producer.send_many(jobs, [b"a", b"b"])
    with sync.ShareConsumer(bootstrap, jobs, [jobs], share_acknowledgement_mode="explicit") as consumer:
        found: list[SharedRecord] = []
        while len(found) < 2:
            found += consumer.poll()
        assert deliveries(found) == {b"a": 1, b"b": 1}
        for shared, kind in zip(found, (Acknowledge.RELEASE, Acknowledge.ACCEPT), strict=True):
            consumer.acknowledge(shared, kind)
        consumer.commit()
        (again,) = consumer.poll(wait_s=WITHIN_S)
        assert deliveries([again]) == {b"a": 2}
        consumer.acknowledge(again, Acknowledge.ACCEPT)
