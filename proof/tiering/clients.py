"""● Producers, transactions and readers of a simulated tiered partition.  Their answers go into the model.

A producer tries a batch again, with the same sequence, until the batch is acknowledged.  So a replica that forgot its producers' batches
would store the batch twice, or refuse it.  A reader reads everything from a leader, across both tiers, as the broker's fetch does.
"""

import asyncio
import random
from typing import Final

from moldau.errors import ErrorCode
from moldau.protocol.records.batch import batches
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.protocol.records.control import build_end_txn_marker
from moldau.replication.partition import ALL_IN_SYNC, Isolation
from moldau.replication.waits import ProduceWait
from moldau.server.coordinators.log import Slot
from moldau.storage.log import AppendResult
from moldau.storage.producers.state import AppendOrigin
from moldau.storage.validator import AppendFailure, Unexamined
from moldau.types import FileSlice
from proof.tiering.cluster import TierBroker, TierCluster
from proof.tiering.model import Seen, seen_in

PATIENCE_S: Final = 0.8
READS_AGAIN: Final = 200
READ_BYTES: Final = 900
REFUSED_FOR_GOOD: Final = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)


class Refused(Exception):
    """A leader refused a batch because it does not know the producer's state.  Its log starts at `log_start_offset`."""

    def __init__(self, detail: str, log_start_offset: int) -> None:
        super().__init__(detail)
        self.log_start_offset: Final = log_start_offset


async def acknowledged(cluster: TierCluster, batch: bytes, origin: AppendOrigin, choice: random.Random) -> None:
    """Send a batch again and again until it is acknowledged.  Errors: Refused."""
    while True:
        await asyncio.sleep(choice.random() * 0.03)
        # Brokers that believe that they lead: the present leader, or a former one that has not heard of the election.
        candidates = [broker for broker in cluster.brokers.values() if broker.is_up and broker.is_ready and broker.partition.is_leader]
        if candidates and await _try(cluster, choice.choice(candidates), batch, origin):
            return


async def _try(cluster: TierCluster, broker: TierBroker, batch: bytes, origin: AppendOrigin) -> bool:
    partition, machine = broker.partition, broker.machine
    content = bytearray(batch)
    now_ms = cluster.clock.now_ms()
    result: AppendResult | AppendFailure | Unexamined
    if origin is AppendOrigin.CLIENT:
        result = partition.append_from_client(content, acks=ALL_IN_SYNC, now_ms=now_ms)
    else:
        result = partition.append(content, acks=ALL_IN_SYNC, now_ms=now_ms, origin=origin)
    assert not isinstance(result, Unexamined), "what is written here is light"
    if isinstance(result, AppendFailure):
        if result.error in REFUSED_FOR_GOOD and broker is cluster.leader:
            raise Refused(f"{broker!r}: {result.detail}", broker.log.log_start_offset)
        return False
    records = [] if result.is_duplicate else list(seen_in(content))
    slot, done = Slot(), asyncio.Event()
    if not partition.await_acknowledgement(result.last_offset + 1, ProduceWait(done.set), slot):
        try:
            await asyncio.wait_for(done.wait(), PATIENCE_S)
        except TimeoutError:
            return False
    if slot.error_code or not machine.is_alive:
        return False
    cluster.count("repeated" if result.is_duplicate else "acknowledged")
    if result.is_duplicate:
        known = [cluster.model.records.get(offset) for offset in range(result.first_offset, result.last_offset + 1)]
        sent = [each.value for each in seen_in(batch)]
        if any(seen is not None and seen.value != value for seen, value in zip(known, sent, strict=False)):
            cluster.model.violated(f"{broker!r} takes {sent} for what stands at offset {result.first_offset}: {known}")
    cluster.model.was_acknowledged(records)
    return True


async def produce(cluster: TierCluster, producer_id: int, choice: random.Random, until_s: float) -> None:
    """Produce idempotently, or in transactions if the producer's number is odd."""
    sequence, epoch, number = 0, 0, 0
    is_transactional = producer_id % 2 == 1
    while cluster.loop.time() < until_s:
        try:
            for _ in range(choice.randrange(1, 4)):
                values = [
                    b"%d of producer %d" % (number + each, producer_id) + b"." * choice.randrange(60)
                    for each in range(choice.randrange(1, 4))
                ]
                number += len(values)
                batch = build_batch(
                    [NewRecord(cluster.clock.now_ms(), b"k", value) for value in values],
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    base_sequence=sequence,
                    is_transactional=is_transactional,
                )
                await acknowledged(cluster, bytes(batch), AppendOrigin.CLIENT, choice)
                sequence += len(values)
            if is_transactional:
                await end_transaction(cluster, producer_id, epoch, choice)
        except Refused as reason:
            if not cluster.done.get("unclean elections") and cluster.model.knows_producer(producer_id, reason.log_start_offset):
                cluster.model.violated(f"a producer is not known any more: {reason}")
            # The producer begins again with a new epoch, and first aborts its open transaction.
            epoch, sequence = epoch + 1, 0
            if is_transactional:
                await end_transaction(cluster, producer_id, epoch, choice, is_commit=False)
        await asyncio.sleep(choice.random() * 0.1)
    if is_transactional:
        await end_transaction(cluster, producer_id, epoch + 1, choice, is_commit=False)


async def end_transaction(
    cluster: TierCluster, producer_id: int, epoch: int, choice: random.Random, *, is_commit: bool | None = None
) -> None:
    marker = build_end_txn_marker(
        is_commit=choice.random() < 0.6 if is_commit is None else is_commit,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=1,
        timestamp_ms=cluster.clock.now_ms(),
    )
    await acknowledged(cluster, bytes(marker), AppendOrigin.COORDINATOR, choice)


# Reading


class LeaderChanged(Exception):
    """The broker that was read leads no more, so its records are not judged."""


async def read_all(cluster: TierCluster, broker: TierBroker) -> bool:
    """Hold everything that the leader `broker` shows to both kinds of reader against the model.  Returns False if it stopped leading."""
    try:
        cluster.model.starts(repr(broker), broker.log.log_start_offset)
        stable_end = broker.log.last_stable_offset  # its markers are all below the present high watermark
        start, end, chunks = await _read(cluster, broker, Isolation.HIGH_WATERMARK, broker.log.high_watermark)
        cluster.model.served(repr(broker), start, end, [record for _, found, _ in chunks for record in found if record.offset >= start])
        start, end, chunks = await _read(cluster, broker, Isolation.COMMITTED_TRANSACTIONS, stable_end)
        cluster.model.served_committed(repr(broker), start, end, _not_aborted(start, chunks))
    except LeaderChanged:
        return False
    cluster.count("read whole")
    return True


Chunk = tuple[int, list[Seen], list[tuple[int, int]]]
"""The offset of a fetch, its records, and the aborted transactions in its answer: producer id and first offset."""


async def _read(cluster: TierCluster, broker: TierBroker, isolation: Isolation, limit: int) -> tuple[int, int, list[Chunk]]:
    """Start, end, and the chunks between them.  Chunks that were read before the start rose are there, too.  Errors: LeaderChanged."""
    partition, epoch = broker.partition, broker.partition.leader_epoch
    start, end = partition.log.log_start_offset, min(partition.end_for(isolation), limit)
    offset, chunks, patience = start, list[Chunk](), READS_AGAIN
    while offset < end:
        content, aborted, code = await _read_once(broker, offset, isolation)
        if cluster.leader is not broker or partition.leader_epoch != epoch:
            raise LeaderChanged
        if partition.log.log_start_offset > start:  # the leader let records go meanwhile: read from its new start on
            start = partition.log.log_start_offset
            if offset < start:
                offset, chunks = start, []
                continue
        whole = [header for _, header in batches(memoryview(content))]
        if not whole:
            patience -= 1
            if not patience:
                cluster.model.violated(f"{broker!r} shows nothing at offset {offset}: {code.name}")
                raise LeaderChanged
            await asyncio.sleep(0.02)
            continue
        records = [record for record in seen_in(content[: sum(header.size for header in whole)]) if offset <= record.offset < end]
        chunks.append((offset, records, aborted))
        offset = whole[-1].next_offset
    return start, end, chunks


async def _read_once(broker: TierBroker, offset: int, isolation: Isolation) -> tuple[bytes, list[tuple[int, int]], ErrorCode]:
    """Read as the fetch handler does, also records that are in remote storage only."""
    partition = broker.partition
    found = partition.read(offset, READ_BYTES, isolation, min_one_batch=True)
    code = ErrorCode.of(found.error_code)
    if code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
        with_aborted = isolation is Isolation.COMMITTED_TRANSACTIONS
        data = await broker.remote.read(partition, offset, READ_BYTES, min_one_batch=True, with_aborted=with_aborted)
        if isinstance(data, ErrorCode):
            return b"", [], data
        broker.cluster.count("remote reads")
        return bytes(data.records), [(each.producer_id, each.first_offset) for each in data.aborted], ErrorCode.NONE
    content = found.records.read() if isinstance(found.records, FileSlice) else bytes(found.records or b"")
    return content, [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()], code


def _not_aborted(start: int, chunks: list[Chunk]) -> list[tuple[int, bytes]]:
    """(offset, value) of the records that a client keeps: it filters each answer by the list of aborted transactions in it."""
    kept: list[tuple[int, bytes]] = []
    for _, records, told in chunks:
        waiting, aborted = sorted(told, key=lambda each: each[1]), set[int]()
        for record in records:
            while waiting and waiting[0][1] <= record.offset:
                aborted.add(waiting.pop(0)[0])
            if record.is_marker:
                if record.is_abort:
                    aborted.discard(record.producer_id)
            elif not (record.is_transactional and record.producer_id in aborted) and record.offset >= start:
                kept.append((record.offset, record.value))
    return kept
