"""● The part of a fetch that is in remote storage: read partition by partition beside the loop, answered in time.

If the object store is slow, the reader gets an empty answer and comes again; the records are in the cache by then.
Source: DelayedRemoteFetch; KIP-405.  Called by `handlers/fetch.py`.
"""

import asyncio
from collections.abc import Sequence

from moldau.errors import ErrorCode
from moldau.protocol.messages.fetch import AbortedTransaction, PartitionData
from moldau.replication.partition import Isolation, Partition, refused_partition
from moldau.server.requests.broker import Broker
from moldau.server.requests.fetch_session import Spot
from moldau.server.tier.manager import RemoteLogManager
from moldau.storage.tiered.reader import RemoteData

Results = list[tuple[Spot, PartitionData]]


async def read_remote(
    broker: Broker, remote: RemoteLogManager, results: Results, max_bytes: int, isolation: Isolation, *, is_first: bool
) -> Results:
    """`results` with remote records in place of the error OFFSET_MOVED_TO_TIERED_STORAGE, `max_bytes` of them.

    The first batch of all comes whole however large it is when `is_first`: nothing else is in the response.
    """
    with_aborted = isolation is Isolation.COMMITTED_TRANSACTIONS
    wanted: list[tuple[int, Spot, Partition, asyncio.Task[RemoteData | ErrorCode]]] = []
    for number, (spot, found) in enumerate(results):
        partition = broker.replicas.hosted.get((spot.topic, spot.partition))
        if found.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE and partition is not None:
            reading = remote.read(
                partition,
                spot.fetch_offset,
                min(spot.max_bytes, max_bytes),
                min_one_batch=is_first and not wanted,
                with_aborted=with_aborted,
            )
            wanted.append((number, spot, partition, asyncio.get_running_loop().create_task(reading)))
    tasks = [task for _, _, _, task in wanted]
    try:
        await _all_done(tasks, remote.fetch_max_wait_ms)
    finally:
        for task in tasks:
            task.cancel()  # its request to the object store goes on
    answered, left = list(results), max_bytes
    for number, spot, partition, task in wanted:
        found = _answer(partition, task, left if number != wanted[0][0] or not is_first else None, with_aborted=with_aborted)
        left = max(0, left - len(found.records or b""))
        answered[number] = spot, found
    return answered


async def _all_done(tasks: Sequence["asyncio.Task[RemoteData | ErrorCode]"], max_wait_ms: int) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + max_wait_ms / 1000
    for task in tasks:
        with_time = asyncio.timeout_at(end)
        try:
            async with with_time:
                await asyncio.shield(task)
        except TimeoutError:
            if with_time.expired():
                return
            raise


def _answer(partition: Partition, task: "asyncio.Task[RemoteData | ErrorCode]", left: int | None, *, with_aborted: bool) -> PartitionData:
    """The records that have come, if they take at most `left` bytes; otherwise they are in the cache for the next fetch."""
    data = task.result() if task.done() and not task.cancelled() else RemoteData(memoryview(b""))
    if isinstance(data, ErrorCode):
        return refused_partition(partition.topic_partition.partition, data)
    log = partition.log
    return PartitionData(
        partition_index=partition.topic_partition.partition,
        error_code=0,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        aborted_transactions=[AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset) for each in data.aborted]
        if with_aborted
        else None,
        records=data.records if left is None or len(data.records) <= left else b"",
    )
