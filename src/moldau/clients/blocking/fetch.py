"""● Reads a range of one partition, column by column: the next fetch is under way while the last one is decoded.

for columns in PartitionReader(cluster, topic_partition, topic_id, first, last).read(): ...
"""

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from moldau.clients.blocking.cluster import BlockingCluster
from moldau.clients.blocking.connection import Connection
from moldau.clients.fetched import visible_batches
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from moldau.protocol.records.batch import BatchHeader
from moldau.protocol.records.columns import RecordColumns, decode_columns
from moldau.types import ZERO_UUID, TopicPartition

FETCH_BYTES: Final = 8 * 1024 * 1024
FETCH_WAIT_MS: Final = 500
NAMES_TOPICS: Final = 12
PURPOSE: Final = "fetch"


class OffsetGone(Exception):
    """The offset lies outside the log: its records were deleted, or never existed."""

    def __init__(self, topic_partition: TopicPartition, offset: int) -> None:
        super().__init__(f"{topic_partition} has no offset {offset} any more")
        self.topic_partition = topic_partition
        self.offset = offset


class PartitionReader:
    """Reads from `position` (inclusive) up to `end` (exclusive), over a connection that it must not share meanwhile.

    A `topic_id` other than zero names the topic where the broker understands it.  If a topic was made anew under the same name, the read
    then fails with UNKNOWN_TOPIC_ID and never returns the new topic's records.
    """

    def __init__(
        self,
        cluster: BlockingCluster,
        topic_partition: TopicPartition,
        topic_id: UUID,
        position: int,
        end: int,
        *,
        read_committed: bool = False,
        fetch_bytes: int = FETCH_BYTES,
        fetch_wait_ms: int = FETCH_WAIT_MS,
    ) -> None:
        self.position = position
        self._cluster = cluster
        self._of = topic_partition
        self._topic_id = topic_id
        self._end = end
        self._read_committed = read_committed
        self._fetch_bytes = fetch_bytes
        self._fetch_wait_ms = fetch_wait_ms
        self._asked: tuple[Connection, int] | None = None

    def read(self) -> Iterator[RecordColumns]:
        """The columns of each batch, in order.  Errors: OffsetGone, KafkaError, OSError, CorruptBatch."""
        try:
            while self.position < self._end:
                first, batches = self._cluster.retrying(self._next)
                for columns in decode_columns(batches):
                    wanted = columns.between(first, self._end)
                    if len(wanted):
                        yield wanted
        finally:
            self._forget()

    def _next(self) -> tuple[int, list[tuple[BatchHeader, memoryview]]]:
        """The next fetched batches: where they begin, and the bytes that are visible from there."""
        answer = self._answer()
        visible = visible_batches(self._of, answer, self.position, read_committed=self._read_committed)
        if visible.next_offset == self.position:
            self._see_that_more_will_come(answer)
        first, self.position = self.position, visible.next_offset
        if self.position < self._end:
            self._ask_ahead()
        return first, visible.batches

    def _see_that_more_will_come(self, answer: PartitionData) -> None:
        """Raise if `end` lies beyond the leader's log: the end is that of another log, and waiting for it could last for ever."""
        if answer.high_watermark < self._end and answer.high_watermark >= 0 and self.position >= answer.high_watermark:
            raise OffsetGone(self._of, self._end - 1)

    def _answer(self) -> PartitionData:
        if self._asked is None or self._asked[1] != self.position or self._asked[0].is_closed:
            self._ask()
        assert self._asked is not None
        connection, self._asked = self._asked[0], None
        response = connection.receive(extra_s=self._fetch_wait_ms / 1000)
        assert isinstance(response, FetchResponse)
        code = ErrorCode.of(response.error_code)
        answer = next((one for topic in response.responses for one in topic.partitions), None)
        if answer is not None and answer.error_code:
            code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetGone(self._of, self.position)
        if code or answer is None:
            raise KafkaError(code or ErrorCode.UNKNOWN_SERVER_ERROR, f"fetch from {self._of}: {code.text}")
        return answer

    def _ask_ahead(self) -> None:
        """Send the next fetch ahead of time.  An error here is ignored: it comes back when the answer is wanted."""
        try:
            self._ask()
        except (OSError, KafkaError):
            self._forget()

    def _ask(self) -> None:
        self._forget()
        connection = self._cluster.to_leader(self._of, PURPOSE)
        version = connection.version_of(FetchRequest)
        if self._topic_id == ZERO_UUID:
            version = min(version, NAMES_TOPICS)
        partition = FetchPartition(partition=self._of.partition, fetch_offset=self.position, partition_max_bytes=self._fetch_bytes)
        request = FetchRequest(
            max_wait_ms=self._fetch_wait_ms,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=int(self._read_committed),
            topics=[FetchTopic(topic=self._of.topic, topic_id=self._topic_id, partitions=[partition])],
        )
        connection.post(request, version=version)
        self._asked = (connection, self.position)

    def _forget(self) -> None:
        """Drop the fetch in flight, and with it the connection."""
        if self._asked is not None:
            self._asked[0].close()
            self._asked = None
