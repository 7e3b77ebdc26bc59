"""Nobody can read these records; the batch has a good header and CRC.  A leader that does not look inside takes it from a client."""

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from crc32c import crc32c

from moldau.errors import ErrorCode
from moldau.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from moldau.protocol.records.batch import CRC_START, HEADER_SIZE
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.compression import Codec
from moldau.replication.share.decision import DeadRange, DeathCause
from moldau.server.handlers.list_offsets import list_offsets
from moldau.server.peers.brokers import NoBrokers
from moldau.server.share.dead_letters import DeadLetters
from moldau.server.share.partitions import HeldKey, SharedPartition, SharePartitions
from moldau.server.tier.metadata import _Reader
from moldau.storage.log import AppendResult
from moldau.testing.loop import SimLoop
from moldau.types import REMOTE_LOG_METADATA_TOPIC

NOW_MS = 1_700_000_000_000


def unreadable(codec: Codec) -> memoryview:
    batch = build_batch([NewRecord(NOW_MS, None, b"x" * 50)], codec=codec)
    for position in range(HEADER_SIZE, len(batch)):
        batch[position] = 0xFF
    batch[CRC_START - 4 : CRC_START] = crc32c(memoryview(batch)[CRC_START:]).to_bytes(4, "big")
    return memoryview(batch)


def append(partition: Any, *batches: memoryview) -> None:
    partition.log.configure(dataclasses.replace(partition.log.config, record_validation="header"))
    for batch in batches:
        assert isinstance(partition.append_from_client(batch, acks=1, now_ms=NOW_MS), AppendResult)
    partition.log.flush()


@pytest.mark.parametrize("codec", Codec)
async def test_a_search_by_time_says_that_they_are_corrupt(harness: Any, codec: Codec) -> None:
    append(harness.lead("t"), unreadable(codec))
    append(harness.lead("t", 1), memoryview(build_batch([NewRecord(NOW_MS, None, b"good")])))
    asked = [ListOffsetsPartition(partition_index=index, timestamp=1) for index in (0, 1)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])
    response = await harness.call(list_offsets, request)
    bad, good = response.topics[0].partitions
    assert (bad.error_code, good.error_code, good.offset) == (ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE, 0)


def test_a_dead_letter_of_them_has_no_copy(harness: Any, batch_of: Callable[..., memoryview]) -> None:
    source = harness.lead("t")
    append(source, batch_of(b"a"), unreadable(Codec.GZIP), batch_of(b"b"))
    copies = SimLoop().run_until_complete(_copies(harness, source))
    assert {offset: value for offset, (_, value) in copies.items()} == {0: b"a", 2: b"b"}


async def _copies(harness: Any, source: Any) -> dict[int, Any]:
    letters = DeadLetters(
        config=harness.broker.shares._config,
        replicas=harness.broker.replicas,
        clock=harness.clock,
        files=harness.files,
        group_values=lambda _: {},
        topic_of=lambda _: None,
        brokers=NoBrokers(),
        create_topic=None,  # type: ignore[arg-type]
    )
    return await letters._copies(source, [DeadRange(0, 2, 1, DeathCause.REJECTED)])  # type: ignore[return-value]


def test_a_share_group_that_begins_by_time_begins_with_them(harness: Any, batch_of: Callable[..., memoryview]) -> None:
    partition = harness.lead("t")
    append(partition, unreadable(Codec.GZIP), batch_of(b"a"))
    shares = SharePartitions(
        config=harness.broker.shares._config,
        replicas=harness.broker.replicas,
        clock=harness.clock,
        states=None,  # type: ignore[arg-type]
        group_values=lambda _: {"share.auto.offset.reset": "by_duration:P1D"},
    )
    assert shares._first_offset(SharedPartition(HeldKey("g", "t", 0), partition)) == 0


async def test_those_in_the_topic_of_remote_metadata_are_passed_over(harness: Any, batch_of: Callable[..., memoryview]) -> None:
    topic = harness.lead(REMOTE_LOG_METADATA_TOPIC)
    append(topic, unreadable(Codec.GZIP), batch_of(b"means nothing either"))
    reader = _Reader(topic, lambda _: True)
    async with asyncio.timeout(60):
        await reader.loaded.wait()
    assert reader.next_offset == 2
    reader.stop(ErrorCode.NONE)
