"""● Writes whole record batches of many partitions, in order.  Each leader has one request under way while the next batches are made.

    writer = BatchWriter(cluster, producer)
    writer.add(TopicPartition("orders", 0), encoded)        # may write
    placed = writer.flush()                                 # all are acknowledged; tells what was written where

A batch is sent until it is acknowledged; its sequence numbers keep the log from having it twice.
"""

from collections import deque
from typing import Final, NamedTuple, cast

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.connection import Connection
from moldau.clients.blocking.transactions import ADDS_PARTITIONS_ITSELF, TransactionalProducer
from moldau.clients.view import Node
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from moldau.protocol.records.batch import read_header
from moldau.protocol.records.builder import stamp_producer
from moldau.types import TopicPartition

NAMES_TOPICS: Final = 12
ADDS_SINCE: Final = 12
REQUEST_BYTES: Final = 4 * 1024 * 1024
PENDING_BYTES: Final = 16 * 1024 * 1024
ALL_IN_SYNC: Final = -1
WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
PURPOSE: Final = "produce"


class Placed(NamedTuple):
    """The records that one writer has in one partition.  Their count gives the next sequence number."""

    next_sequence: int
    records: int


class BatchWriter:
    """Writes the batches of one producer.

    `sequences`: the next sequence number of each partition.  A new epoch begins at 0.
    """

    def __init__(
        self,
        cluster: BlockingCluster,
        producer: TransactionalProducer,
        *,
        timeout_ms: int = 30_000,
        sequences: dict[TopicPartition, int] | None = None,
    ) -> None:
        self._cluster = cluster
        self._producer = producer
        self._timeout_ms = timeout_ms
        self._sequences = dict(sequences or {})
        self._records: dict[TopicPartition, int] = {}
        self._pending: dict[TopicPartition, deque[bytearray]] = {}
        self._pending_bytes = 0
        self._under_way: dict[Node, tuple[Connection, list[TopicPartition]]] = {}

    def add(self, topic_partition: TopicPartition, batch: bytearray) -> None:
        """Take one batch; this may write to a broker.

        `batch`: whole and transactional, without a producer's stamp yet.  Errors: KafkaError, OSError.
        """
        header = read_header(batch)
        assert header.is_transactional, "the batch has to be transactional: other records would be visible before the transaction's end"
        sequence = self._sequences.get(topic_partition, 0)
        stamp_producer(batch, self._producer.producer_id, self._producer.epoch, sequence)
        self._sequences[topic_partition] = sequence + header.records_count
        self._records[topic_partition] = self._records.get(topic_partition, 0) + header.records_count
        self._pending.setdefault(topic_partition, deque()).append(batch)
        self._pending_bytes += len(batch)
        if self._pending_bytes >= REQUEST_BYTES and not self._under_way:
            self._send()
        while self._pending_bytes >= PENDING_BYTES:
            self._round()

    def flush(self) -> dict[TopicPartition, Placed]:
        """Wait until every batch is acknowledged.  Errors: KafkaError, OSError."""
        while self._pending or self._under_way:
            self._round()
        return {one: Placed(self._sequences[one], count) for one, count in self._records.items()}

    def _round(self) -> None:
        if self._under_way:
            self._settle()
        if self._pending:
            self._send()

    def _send(self) -> None:
        """Send the oldest batch of each partition.  A batch that cannot leave now is tried again when its answer is due."""
        by_node: dict[Node, list[TopicPartition]] = {}
        sizes: dict[Node, int] = {}
        for one, batches in self._pending.items():
            leader = self._cluster.view.leader_of(one)
            if leader is None:
                leader = self._cluster.retrying(lambda one=one: self._cluster.leader_of(one))  # type: ignore[misc]
            if sizes.get(leader, 0) < REQUEST_BYTES:
                by_node.setdefault(leader, []).append(one)
                sizes[leader] = sizes.get(leader, 0) + len(batches[0])
        for node, partitions in by_node.items():
            try:
                self._under_way[node] = (self._post(node, partitions), partitions)
            except OSError:
                for one in partitions:
                    self._repeat(one)

    def _post(self, node: Node, partitions: list[TopicPartition]) -> Connection:
        connection = self._cluster.to_node(node, PURPOSE)
        topics: dict[str, list[PartitionProduceData]] = {}
        for one in partitions:
            data = PartitionProduceData(index=one.partition, records=memoryview(self._pending[one][0]))
            topics.setdefault(one.topic, []).append(data)
        newest = NAMES_TOPICS if self._producer.transaction_version >= ADDS_PARTITIONS_ITSELF else ADDS_SINCE - 1
        request = ProduceRequest(
            transactional_id=self._producer.transactional_id,
            acks=ALL_IN_SYNC,
            timeout_ms=self._timeout_ms,
            topic_data=[TopicProduceData(name=name, partition_data=of) for name, of in topics.items()],
        )
        connection.post(request, version=min(connection.version_of(ProduceRequest), newest))
        return connection

    def _settle(self) -> None:
        under_way, self._under_way = self._under_way, {}
        for connection, partitions in under_way.values():
            try:
                codes = _codes(cast(ProduceResponse, connection.receive(extra_s=self._timeout_ms / 1000)))
            except OSError:
                codes = {}
            for one in partitions:
                code, message = codes.get(one, (ErrorCode.NETWORK_EXCEPTION, None))
                if code in WRITTEN:
                    self._done(one)
                elif code.retriable:
                    self._repeat(one)
                else:
                    raise _refused(one, code, message, len(self._pending[one][0]))

    def _repeat(self, one: TopicPartition) -> None:
        """Send the oldest batch of one partition alone, until it is acknowledged."""

        def attempt() -> None:
            node = self._cluster.leader_of(one)
            response = cast(ProduceResponse, self._post(node, [one]).receive(extra_s=self._timeout_ms / 1000))
            code, message = _codes(response)[one]
            if code not in WRITTEN:
                raise _refused(one, code, message, len(self._pending[one][0]))

        self._cluster.retrying(attempt)
        self._done(one)

    def _done(self, one: TopicPartition) -> None:
        batches = self._pending[one]
        self._pending_bytes -= len(batches.popleft())
        if not batches:
            del self._pending[one]


def _codes(response: ProduceResponse) -> dict[TopicPartition, tuple[ErrorCode, str | None]]:
    return {
        TopicPartition(topic.name, one.index): (ErrorCode.of(one.error_code), one.error_message)
        for topic in response.responses
        for one in topic.partition_responses
    }


def _refused(one: TopicPartition, code: ErrorCode, message: str | None, size: int) -> KafkaError:
    hint = f" (a batch of {size} bytes)" if code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE) else ""
    return KafkaError(code, f"write to {one}: {message or code.text}{hint}")
