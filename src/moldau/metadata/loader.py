"""● Turns committed records into images, and publishes them to the parts of the node.

    raft/driver.py ─ committed batches ─▶ Loader ─ delta, image ─▶ publishers, in the order in which they were added

The loader is the raft driver's listener.  Records between BeginTransaction and EndTransaction take effect together, when the transaction
ends; the records of an aborted one never do.  A snapshot comes to publishers as a delta too, at the start and in mid-life.  Nothing is
published before everything that lay in the log at the start is loaded: the first delta holds all of it.

The loader also knows when a snapshot is due (metadata.log.max.record.bytes.between.snapshots, metadata.log.max.snapshot.interval.ms), and
has it written.

Source: MetadataLoader, SnapshotGenerator; KIP-630, 868.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from moldau.background import in_background
from moldau.clock import Clock
from moldau.metadata.delta import Delta, replay
from moldau.metadata.image import EMPTY, MetadataImage
from moldau.metadata.records import METADATA_RECORDS, AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from moldau.protocol.wire import StoredRecord
from moldau.raft.driver import RaftDriver
from moldau.raft.listener import CommittedBatch
from moldau.types import OffsetAndEpoch

LOG: Final = logging.getLogger(__name__)

Publisher = Callable[[Delta, MetadataImage], None]


class LeadershipListener(Protocol):
    """The controller, which learns of changes of leadership."""

    def leader_changed(self, leader_id: int, epoch: int) -> None: ...


class Loader:
    """See the module.  `image` is the latest committed image that this node knows."""

    def __init__(self, clock: Clock) -> None:
        self.image: MetadataImage = EMPTY
        self.leadership: LeadershipListener | None = None
        self._clock: Final = clock
        self._published: MetadataImage = EMPTY
        self._publishers: list[Publisher] = []
        self._transaction: list[StoredRecord] | None = None
        self._is_loading = True
        self._snapshot_ms = clock.monotonic_ms()
        self._snapshot_task: asyncio.Task[None] | None = None

    @property
    def has_open_transaction(self) -> bool:
        """Whether the log ends inside a transaction: its records are held back until it ends or is aborted."""
        return self._transaction is not None

    def add_publisher(self, publisher: Publisher) -> None:
        """Add a publisher.  It is called with everything that is there now, and from then on with every change."""
        self._publishers.append(publisher)
        if self._published is not EMPTY:
            publisher(Delta.between(EMPTY, self._published), self._published)

    # What the driver tells

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Sequence[bytes]) -> None:
        decoded = [METADATA_RECORDS.decode(record) for record in records]
        self.image = replay(EMPTY, decoded, offset=snapshot_id.offset - 1, epoch=snapshot_id.epoch, timestamp_ms=timestamp_ms)
        self._transaction = None
        if not self._is_loading:
            self._publish(Delta.between(self._published, self.image))

    def committed(self, batches: Sequence[CommittedBatch]) -> None:
        delta = Delta(self.image)
        for batch in batches:
            for value in batch.records:
                self._take(delta, METADATA_RECORDS.decode(value))
        last = batches[-1]
        self.image = delta.apply(offset=last.next_offset - 1, epoch=last.epoch, timestamp_ms=last.timestamp_ms)
        if not self._is_loading:
            self._publish(delta)

    def caught_up(self) -> None:
        """Publish everything that was there before this node came as one change, and from then on each change."""
        if self._is_loading:
            self._is_loading = False
            self._publish(Delta.between(self._published, self.image))

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """Pass on that a leader changed.  If this node leads, everything before its epoch is loaded."""
        if self.leadership is not None:
            self.leadership.leader_changed(leader_id, epoch)

    def _take(self, delta: Delta, record: StoredRecord) -> None:
        match record:
            case BeginTransactionRecord():
                self._transaction = []
            case AbortTransactionRecord():
                self._transaction = None
            case EndTransactionRecord():
                waiting, self._transaction = self._transaction or [], None
                for one in waiting:
                    delta.replay(one)
            case _ if self._transaction is not None:
                self._transaction.append(record)
            case _:
                delta.replay(record)

    def _publish(self, delta: Delta) -> None:
        self._published = self.image
        for publisher in self._publishers:
            publisher(delta, self.image)

    # Snapshots

    def maybe_snapshot(self, driver: RaftDriver) -> None:
        """Begin to write a snapshot if one is due.  There is one at a time, and none while a transaction is open."""
        if self._snapshot_task is not None and not self._snapshot_task.done():
            return
        if self._transaction is not None or self.image.offset < 0 or driver.bytes_since_snapshot == 0:
            return
        interval_ms = driver.config.max_snapshot_interval_ms
        elapsed_ms = self._clock.monotonic_ms() - self._snapshot_ms
        is_due = driver.bytes_since_snapshot >= driver.config.max_bytes_between_snapshots or 0 < interval_ms <= elapsed_ms
        if is_due:
            self._snapshot_task = in_background(self.write_snapshot(driver), name="metadata snapshot")

    async def write_snapshot(self, driver: RaftDriver) -> None:
        """Write a snapshot of the present image.  A disk that refuses is logged; the log then stays until a later snapshot."""
        self._snapshot_ms = self._clock.monotonic_ms()
        image = self.image
        try:
            await driver.write_snapshot(OffsetAndEpoch(image.offset + 1, image.epoch), image.timestamp_ms, image.encoded)
        except OSError as error:
            LOG.error(
                "the metadata snapshot below offset %d cannot be written, the log stays until a later one is: %s", image.offset + 1, error
            )

    async def stop(self) -> None:
        """Wait until a snapshot that is being written is finished."""
        if self._snapshot_task is not None:
            await asyncio.gather(self._snapshot_task, return_exceptions=True)
