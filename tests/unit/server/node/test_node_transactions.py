"""Transactions on a whole node: verification, and the order of the batches that a producer has on the way."""

import asyncio
import random

import pytest

from moldau.errors import ErrorCode
from moldau.net.channel import Channel
from moldau.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from moldau.protocol.messages.end_txn import EndTxnRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from moldau.protocol.messages.init_producer_id import InitProducerIdRequest
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.testing.clock import EPOCH_MS
from tests.unit.server.node.one_node import World, create

SMALL_TRANSACTION_LOG = {
    "transaction__state__log__replication__factor": "1",
    "transaction__state__log__min__isr": "1",
    "transaction__state__log__num__partitions": "1",
}


async def init_producer(channel: Channel) -> tuple[int, int]:
    """The id and epoch of the transactional producer "copier", once its coordinator is there."""
    for _ in range(50):
        said = await channel.send(InitProducerIdRequest(transactional_id="copier", transaction_timeout_ms=60_000), 5)
        if said.error_code == ErrorCode.NONE:
            return said.producer_id, said.producer_epoch
        await channel.send(FindCoordinatorRequest(key_type=1, coordinator_keys=["copier"]))
        await asyncio.sleep(0.1)
    raise AssertionError(said)


@pytest.mark.parametrize("at_the_start", ["true", "false"])
def test_verification_of_transactions_can_be_switched_off_and_on_again(at_the_start: str) -> None:
    world, option = World(), "transaction.partition.verification.enable"
    world.up(transaction__partition__verification__enable=at_the_start)

    async def produce_without_adding(channel: Channel, producer_id: int) -> int:
        batch = build_batch(
            [NewRecord(EPOCH_MS, None, b"one")], producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
        )
        data = PartitionProduceData(index=0, records=memoryview(batch))
        topics = [TopicProduceData(name="orders", partition_data=[data])]
        request = ProduceRequest(transactional_id="copier", acks=1, timeout_ms=5000, topic_data=topics)
        return (await channel.send(request, 9)).responses[0].partition_responses[0].error_code

    async def change(channel: Channel, operation: int, value: str | None) -> None:
        changed = AlterableConfig(name=option, config_operation=operation, value=value)
        resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[changed])
        answer = await channel.send(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert answer.responses[0].error_code == ErrorCode.NONE

    async def dialogue(channel: Channel) -> list[int]:
        await create(channel, "orders")
        said = [await produce_without_adding(channel, 5)]
        for producer_id, value in ((6, "false"), (7, "true")):
            await change(channel, 0, value)
            said.append(await produce_without_adding(channel, producer_id))
        await change(channel, 1, None)
        return [*said, await produce_without_adding(channel, 8)]

    refused = ErrorCode.NOT_ENOUGH_REPLICAS  # clients of this version get this code: there is no coordinator that could be asked
    at_first = refused if at_the_start == "true" else ErrorCode.NONE
    assert world.talk(dialogue) == [at_first, ErrorCode.NONE, refused, at_first]


def test_the_broker_adds_partitions_also_where_verification_is_switched_off() -> None:
    """Clients of version 2 leave the adding to the broker: otherwise their transaction would never have begun."""
    world = World()
    world.up(transaction__partition__verification__enable="false", **SMALL_TRANSACTION_LOG)

    async def transaction(channel: Channel) -> list[int]:
        await create(channel, "orders")
        producer_id, epoch = await init_producer(channel)
        batch = build_batch(
            [NewRecord(EPOCH_MS, None, b"one")], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True
        )
        topics = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])]
        request = ProduceRequest(transactional_id="copier", acks=-1, timeout_ms=5000, topic_data=topics)
        produced = (await channel.send(request, 12)).responses[0].partition_responses[0].error_code
        end = EndTxnRequest(transactional_id="copier", producer_id=producer_id, producer_epoch=epoch, committed=True)
        return [produced, (await channel.send(end, 5)).error_code]

    assert world.talk(transaction) == [ErrorCode.NONE, ErrorCode.NONE]


def test_the_next_transaction_begins_with_the_last_marker_of_the_one_before() -> None:
    world = World()
    pauses = {"add__partitions__to__txn__retry__backoff__ms": "60000", "add__partitions__to__txn__retry__backoff__max__ms": "600000"}
    world.up(**pauses, **SMALL_TRANSACTION_LOG)
    world.files.slow_ms = 40  # the client's next request is there before the markers are on stable storage

    async def transactions(channel: Channel) -> float:
        await create(channel, "orders")
        producer_id, epoch = await init_producer(channel)
        began_s = asyncio.get_running_loop().time()
        for _ in range(20):
            batch = build_batch(
                [NewRecord(EPOCH_MS, None, b"one")], producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True
            )
            topics = [TopicProduceData(name="orders", partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])]
            produced = await channel.send(ProduceRequest(transactional_id="copier", acks=-1, timeout_ms=5000, topic_data=topics), 12)
            assert produced.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            end = EndTxnRequest(transactional_id="copier", producer_id=producer_id, producer_epoch=epoch, committed=True)
            ended = await channel.send(end, 5)
            assert ended.error_code == ErrorCode.NONE
            producer_id, epoch = ended.producer_id, ended.producer_epoch
        return asyncio.get_running_loop().time() - began_s

    assert world.talk(transactions) < 10, "nothing waits for the pause of 60 seconds"


@pytest.mark.parametrize("adds", [True, False], ids=["broker-adds", "client-adds"])
@pytest.mark.parametrize("seed", range(5))
def test_batches_that_a_producer_has_on_the_way_are_appended_in_their_order(seed: int, adds: bool) -> None:
    """Each request names other partitions, so some have to be verified and others not."""
    world = World()
    world.up(**SMALL_TRANSACTION_LOG)
    chance = random.Random(seed)

    async def transaction(channel: Channel) -> list[ErrorCode]:
        await create(channel, "orders", 6)
        producer_id, epoch = await init_producer(channel)
        if not adds:
            topic = AddPartitionsToTxnTopic(name="orders", partitions=list(range(6)))
            add = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="copier",
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=[topic],
            )
            added = await channel.send(add, 3)
            assert {each.partition_error_code for each in added.results_by_topic_v3_and_below[0].results_by_partition} == {ErrorCode.NONE}
        sequences = dict.fromkeys(range(6), 0)
        on_the_way = []
        for _ in range(8):
            parts = []
            for index in chance.sample(range(6), chance.randint(1, 4)):
                records = [NewRecord(EPOCH_MS, None, b"value")] * chance.randint(1, 3)
                batch = build_batch(
                    records, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequences[index], is_transactional=True
                )
                sequences[index] += len(records)
                parts.append(PartitionProduceData(index=index, records=memoryview(batch)))
            topics = [TopicProduceData(name="orders", partition_data=parts)]
            request = ProduceRequest(transactional_id="copier", acks=-1, timeout_ms=5000, topic_data=topics)
            on_the_way.append(channel.send(request, 12 if adds else 11))
            if chance.random() < 0.2:
                await asyncio.sleep(0.001)
        answers = await asyncio.gather(*on_the_way)
        return [ErrorCode.of(slot.error_code) for said in answers for topic in said.responses for slot in topic.partition_responses]

    assert set(world.talk(transaction)) == {ErrorCode.NONE}
