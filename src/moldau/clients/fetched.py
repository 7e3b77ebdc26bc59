"""◇ The batches of one partition's part of a Fetch response that a consumer sees.

Control records are left out; with read_committed the records of aborted transactions are, too.  A transaction of `producer_id` that the
response lists as aborted covers its records from `first_offset` up to its ABORT marker.

Source: CompletedFetch.java, KIP-98.  `records.py` gives asyncio's consumers their records of the same answer.
"""

from typing import NamedTuple

from moldau.clients.aborted import Aborted
from moldau.protocol.messages.fetch import PartitionData
from moldau.protocol.records.batch import BatchHeader, CorruptBatch, batches, verify_crc
from moldau.types import TopicPartition


class VisibleBatches(NamedTuple):
    """Whole batches that a consumer sees; the first may begin before the offset asked for."""

    batches: list[tuple[BatchHeader, memoryview]]
    next_offset: int
    """The next offset to fetch; it lies beyond the last record if a consumer does not see what follows."""


def visible_batches(
    topic_partition: TopicPartition, answer: PartitionData, fetch_offset: int, *, read_committed: bool = False, check_crc: bool = True
) -> VisibleBatches:
    """The batches of one answer that a consumer sees.  Errors: CorruptBatch."""
    view = memoryview(answer.records) if isinstance(answer.records, bytes | bytearray | memoryview) else memoryview(b"")
    aborted = Aborted(answer.aborted_transactions or ()) if read_committed else None
    found: list[tuple[BatchHeader, memoryview]] = []
    next_offset = fetch_offset
    for position, header in batches(view):
        if check_crc and not verify_crc(view, position, header):
            raise CorruptBatch(f"{topic_partition}: the batch at offset {header.base_offset} does not match its CRC")
        next_offset = max(next_offset, header.next_offset)
        batch = view[position : position + header.size]
        if aborted is not None and aborted.covers(header, batch):
            continue
        if not header.is_control:
            found.append((header, batch))
    return VisibleBatches(found, next_offset)
