"""● Writes the end of a transaction into every partition that the transaction touched, and tells the coordinator when all partitions have
it.  A marker is tried again until its partition has it, because only then the transaction is over.  A deleted partition needs none.  A
closed shard of the coordinator waits no longer: the next coordinator sends the markers again, and a marker written twice does no harm.

A partition that another broker leads gets its marker by WriteTxnMarkers, one request for all partitions of a broker.

Source: TransactionMarkerChannelManager, KafkaApis.handleWriteTxnMarkersRequest; KIP-98, 1228.  Called by `coordinators.py` and by the
handler of WriteTxnMarkers.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

from moldau.background import in_background
from moldau.clock import Clock
from moldau.coordinator.outcome import ProducerIdAndEpoch
from moldau.coordinator.txn.coordinator import Markers
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from moldau.protocol.records.control import build_end_txn_marker
from moldau.replication.manager import ReplicaManager
from moldau.replication.partition import ALL_IN_SYNC, Partition
from moldau.replication.waits import ProduceWait
from moldau.server.coordinators.log import Slot
from moldau.server.peers.brokers import Brokers, by_leader
from moldau.server.requests.pieces import in_pieces
from moldau.storage.producers.state import AppendOrigin
from moldau.storage.validator import AppendFailure
from moldau.types import TopicPartition

LOG: Final = logging.getLogger(__name__)

RETRY_BACKOFF_MS: Final = 100
FINAL_REFUSALS: Final = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})
"""Refusals after which the marker is of the past: the partition has seen a later epoch of the producer or of the coordinator."""

SETTLED: Final = FINAL_REFUSALS | {ErrorCode.NONE}

AppendedMarker = Callable[[TopicPartition, ProducerIdAndEpoch, bool], None]


class MarkerWriter:
    """See the module.  `on_appended` is called when a marker is in a log, before the next append there."""

    def __init__(
        self,
        replicas: ReplicaManager,
        brokers: Brokers,
        clock: Clock,
        exists: Callable[[TopicPartition], bool],
        on_appended: AppendedMarker,
    ) -> None:
        self._brokers: Final = brokers
        self._replicas: Final = replicas
        self._clock: Final = clock
        self._exists: Final = exists
        self._on_appended: Final = on_appended
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, markers: Markers, coordinator_epoch: int, *, is_wanted: Callable[[], bool], on_done: Callable[[], None]) -> None:
        """Write all markers.  `is_wanted` turns false when the coordinator has moved; `on_done` is called once, when all are written."""
        task = in_background(self._write_all(markers, coordinator_epoch, is_wanted, on_done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _write_all(
        self, markers: Markers, coordinator_epoch: int, is_wanted: Callable[[], bool], on_done: Callable[[], None]
    ) -> None:
        waiting = sorted(markers.partitions)
        while waiting and is_wanted():
            try:
                codes = await self._write_once(waiting, markers, coordinator_epoch)
            except Exception:  # the transaction must end: the producer's next transaction waits for that
                LOG.exception("a mistake of ours, while markers of producer %d are written", markers.producer.producer_id)
                codes = {}
            waiting = [partition for partition in waiting if codes.get(partition) not in SETTLED]
            if waiting:
                await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
        if is_wanted():
            on_done()

    async def _write_once(
        self, waiting: Sequence[TopicPartition], markers: Markers, coordinator_epoch: int
    ) -> dict[TopicPartition, ErrorCode]:
        """Write all markers at the same time: each waits for a disk or a broker of its own, and the client for the last of them."""
        here, elsewhere = by_leader(waiting, self._brokers.leader_of, self._replicas.local_id)
        distant = [asyncio.ensure_future(self._ask(*each, markers, coordinator_epoch)) for each in elsewhere.items()]
        outcomes = await in_pieces(self._clock, lambda partition: self._write(partition, markers, coordinator_epoch), here)
        codes = dict(zip(here, await settled_codes(outcomes), strict=True))
        for told in await asyncio.gather(*distant):
            codes |= told
        return codes

    async def _ask(
        self, broker_id: int, partitions: Sequence[TopicPartition], markers: Markers, coordinator_epoch: int
    ) -> dict[TopicPartition, ErrorCode]:
        """Send markers to another broker.  Partitions that its answer leaves out are asked for again."""
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        marker = WritableTxnMarker(
            producer_id=markers.producer.producer_id,
            producer_epoch=markers.producer.epoch,
            transaction_result=markers.is_commit,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()],
            coordinator_epoch=coordinator_epoch,
            transaction_version=markers.client_version,
        )
        try:
            response = await self._brokers.ask(broker_id, WriteTxnMarkersRequest(markers=[marker]))
        except (OSError, KafkaError) as error:
            LOG.info("broker %d has no markers of producer %d yet: %s", broker_id, markers.producer.producer_id, error)
            return {}
        return {
            TopicPartition(topic.name, each.partition_index): ErrorCode.of(each.error_code)
            for answered in response.markers
            for topic in answered.topics
            for each in topic.partitions
        }

    def _write(self, topic_partition: TopicPartition, markers: Markers, coordinator_epoch: int) -> "ErrorCode | asyncio.Future[ErrorCode]":
        """Write one marker.  NONE when nothing is left to do for the partition.  Errors: those of `append`."""
        partition = self._replicas.hosted.get(topic_partition)
        if partition is None or not partition.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if self._exists(topic_partition) else ErrorCode.NONE
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        code = self.append(
            partition,
            markers.producer,
            is_commit=markers.is_commit,
            coordinator_epoch=coordinator_epoch,
            transaction_version=markers.client_version,
            on_acknowledged=partial(settle, done),
        )
        return done if code is None else code

    def append(
        self,
        partition: Partition,
        producer: ProducerIdAndEpoch,
        *,
        is_commit: bool,
        coordinator_epoch: int,
        transaction_version: int,
        on_acknowledged: Callable[[ErrorCode], None],
    ) -> ErrorCode | None:
        """Append one marker.  None: `on_acknowledged` gets the outcome later; otherwise it is known now.

        Errors: those of `Partition.append`, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED.
        """
        now_ms = self._clock.now_ms()
        batch = build_end_txn_marker(
            is_commit=is_commit,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now_ms,
        )
        result = partition.append(
            batch, acks=ALL_IN_SYNC, now_ms=now_ms, origin=AppendOrigin.COORDINATOR, transaction_version=transaction_version
        )
        if isinstance(result, AppendFailure):
            LOG.info("%s: marker of producer %s was not written: %s", partition.topic_partition, producer, result.detail)
            return result.error
        self._on_appended(partition.topic_partition, producer, is_commit)
        if result.last_offset < partition.acknowledged_offset:
            return ErrorCode.NONE
        slot = Slot()
        wait = ProduceWait(lambda: on_acknowledged(ErrorCode.of(slot.error_code)))
        partition.await_acknowledgement(result.last_offset + 1, wait, slot)
        return None


def settle(done: "asyncio.Future[ErrorCode]", code: ErrorCode) -> None:
    if not done.done():
        done.set_result(code)


async def settled_codes(outcomes: "Iterable[ErrorCode | asyncio.Future[ErrorCode]]") -> list[ErrorCode]:
    """The outcomes of appends, at once or when it is known whether they are durable."""
    return [await outcome if isinstance(outcome, asyncio.Future) else outcome for outcome in outcomes]
