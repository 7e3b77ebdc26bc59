"""What a Kafka user may do wrong is an error in words, on our broker and on Apache Kafka; never silence."""

import asyncio
import copy
import json
import pickle
import threading
from typing import Any

import pytest

from moldau import Admin, Consumer, Producer, ShareConsumer, TopicPartition, sync
from moldau.clients.admin import ConfigChange, ResourceType
from moldau.clients.consumer import Committed
from moldau.clients.errors import ClientError
from moldau.clients.share import Acknowledge, SharedRecord
from moldau.errors import ErrorCode, KafkaError

pytestmark = [pytest.mark.xdist_group("both brokers")]


async def test_a_poll_without_anything_to_read(bootstrap: str) -> None:
    async with Consumer(bootstrap, group_id="misuse") as consumer:
        with pytest.raises(ClientError, match="subscribe to topics, or assign"):
            await consumer.poll(0.1)
        with pytest.raises(ClientError, match="subscribe to topics, or assign"):
            await anext(aiter(consumer))
        await consumer.assign([])  # a share of the work that is empty
        assert await consumer.poll(0.1) == []
        await consumer.unsubscribe()
        with pytest.raises(ClientError, match="subscribe to topics, or assign"):
            await consumer.poll(0.1)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_subscription_to_what_cannot_be_a_topic(bootstrap: str, protocol: str) -> None:
    """librdkafka takes a name with ^ for a pattern: here it is `pattern=`."""
    async with Consumer(bootstrap, group_id=f"misuse-{protocol}", topics=["^misuse.*"], group_protocol=protocol) as consumer:
        with pytest.raises(KafkaError) as caught:
            await consumer.poll(30)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_a_share_group_of_what_cannot_be_a_topic(bootstrap: str) -> None:
    async with Producer(bootstrap) as producer:
        await producer.send("misuse-queue", b"x")
    async with Admin(bootstrap) as admin:
        await admin.configs.alter({(ResourceType.GROUP, "misuse-queue"): [ConfigChange("share.auto.offset.reset", "earliest")]})
    async with ShareConsumer(bootstrap, "misuse-queue", ["^misuse.*", "misuse-queue"]) as consumer:
        with pytest.raises(KafkaError, match=r"topic \^misuse") as caught:
            await consumer.poll(wait_s=30)
        assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert [one.record.value for one in await consumer.poll(wait_s=30)] == [b"x"]  # the other topic is read
        for _ in range(2):
            consumer.subscribe(["^misuse.*"])
            with pytest.raises(KafkaError, match=r"topic \^misuse"):
                await consumer.poll(wait_s=30)


async def test_two_static_members_of_one_name_in_the_consumer_protocol(bootstrap: str) -> None:
    given: dict[str, Any] = {"group_id": "misuse-static", "group_instance_id": "one", "group_protocol": "consumer"}
    async with Producer(bootstrap) as producer:
        await producer.send("misuse-static", b"x")
    async with Consumer(bootstrap, topics=["misuse-static"], auto_offset_reset="earliest", **given) as first:
        while not await first.poll():
            pass
        async with Consumer(bootstrap, topics=["misuse-static"], **given) as second:
            with pytest.raises(KafkaError) as caught:
                await second.poll(30)
            assert caught.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
            await first.commit()  # the first one is a member as before
    async with Consumer(bootstrap, topics=["misuse-static"], **given) as third:
        await third.poll(0.1)


async def test_a_refused_static_member_goes_on_when_the_other_one_is_gone(bootstrap: str) -> None:
    """A loop over the refused consumer, of asyncio or blocking, is begun again, and reads on."""
    given: dict[str, Any] = {
        "group_id": "misuse-again",
        "group_instance_id": "one",
        "group_protocol": "consumer",
        "topics": ["misuse-again"],
        "auto_offset_reset": "earliest",
    }
    async with Producer(bootstrap) as producer:
        await producer.send("misuse-again", b"x")

    def blocking(begun: threading.Event, free: threading.Event) -> bytes | None:
        with sync.Consumer(bootstrap, **given) as consumer:
            with pytest.raises(KafkaError, match="UNRELEASED"):
                next(iter(consumer))
            begun.set()
            free.wait()
            value: bytes | None = next(iter(consumer)).value
            return value

    async with Consumer(bootstrap, **given) as second:
        async with Consumer(bootstrap, **given) as first:
            await anext(aiter(first))
            with pytest.raises(KafkaError, match="UNRELEASED"):
                await anext(aiter(second))
        async for record in second:
            assert record.value == b"x"
            break
        begun, free = threading.Event(), threading.Event()
        third = asyncio.create_task(asyncio.to_thread(blocking, begun, free))
        await asyncio.to_thread(begun.wait)
        await second.close()
        free.set()
        assert await third == b"x"


@pytest.mark.parametrize(("offset", "error"), [(-1, ValueError), ("3", TypeError), (None, TypeError), (Committed(-5), ValueError)])
async def test_offsets_that_cannot_be_committed(bootstrap: str, offset: Any, error: type[Exception]) -> None:
    async with Consumer(bootstrap, group_id="misuse-commits") as consumer:
        with pytest.raises(error):
            await consumer.commit({TopicPartition("misuse", 0): offset})


async def test_calls_that_need_a_group(bootstrap: str) -> None:
    async with Consumer(bootstrap) as consumer:
        with pytest.raises(ClientError, match="give it a group_id"):
            await consumer.commit()
        with pytest.raises(ClientError, match="give it a group_id"):
            consumer.group_metadata()


@pytest.mark.parametrize("partitions", [[("misuse", 0)], ["misuse"], TopicPartition("misuse", 0)])
async def test_what_is_no_partition(bootstrap: str, partitions: Any) -> None:
    async with Consumer(bootstrap) as consumer:
        with pytest.raises(TypeError, match="is no TopicPartition"):
            await consumer.assign(partitions)


async def test_a_serializer_that_returns_text(bootstrap: str) -> None:
    async with Producer(bootstrap, value_serializer=json.dumps) as producer:
        with pytest.raises(TypeError, match="the value_serializer returned str"):
            producer.send("misuse", {"a": 1})


async def test_acknowledgements_that_cannot_be(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.configs.alter({(ResourceType.GROUP, "misuse-shared"): [ConfigChange("share.auto.offset.reset", "earliest")]})
    async with Producer(bootstrap) as producer:
        await producer.send("misuse-shared", b"x")
    async with ShareConsumer(bootstrap, "misuse-shared", ["misuse-shared"], share_acknowledgement_mode="explicit") as consumer:
        found: list[SharedRecord] = []
        while not found:
            found = await consumer.poll()
        wrong: Any
        for wrong in ("accept", 9, Acknowledge.GAP):
            with pytest.raises(ValueError, match=r"GAP|is not a valid"):
                consumer.acknowledge(found[0], wrong)
        consumer.acknowledge(found[0], Acknowledge.RELEASE)
        consumer.acknowledge(found[0], Acknowledge.ACCEPT)  # nothing was sent yet
        await consumer.commit()
        with pytest.raises(ClientError, match="has been acknowledged"):
            consumer.acknowledge(found[0], Acknowledge.ACCEPT)


@pytest.mark.parametrize("headers", ["ab", [("a",)], [("a", b"b", b"c")]])
async def test_headers_that_are_no_pairs(bootstrap: str, headers: Any) -> None:
    async with Producer(bootstrap) as producer:
        with pytest.raises(TypeError, match="pairs of a name and a value"):
            producer.send("misuse", b"x", headers=headers)


@pytest.mark.parametrize("kind", [Producer, Consumer, Admin, ShareConsumer, sync.Producer, sync.Consumer, sync.Admin, sync.ShareConsumer])
async def test_clients_are_not_pickled(kind: type[Any]) -> None:
    client = kind("localhost:1", **({"group_id": "one"} if "Share" in kind.__name__ else {}))
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=f"a {kind.__name__} cannot be pickled"):
            attempt(client)
