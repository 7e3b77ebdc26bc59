"""◇ Chooses the partition queue of a record: by number, by key, by a partitioner, or the one with the least on its way."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from moldau.clients.cluster import Cluster
from moldau.clients.errors import ClientError, error_of
from moldau.clients.options import OptionError
from moldau.clients.producer.accumulator import PartitionQueue
from moldau.clients.producer.batch import RECORD_OVERHEAD
from moldau.clients.producer.delivery import Token
from moldau.clients.producer.options import ProducerOptions
from moldau.clients.producer.outgoing import Piece, pieces
from moldau.clients.producer.partitioners import Partitioner, StickyPartitioner, partition_for_key, partitioner_of
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.column_builder import Columns
from moldau.types import NO_LEADER

UNAVAILABLE: Final = float("inf")

Queue = PartitionQueue[Token]


class Placement:
    """Chooses queues.  `queues`: for each topic that may be written to, its queues by partition.  Errors: OptionError."""

    def __init__(self, cluster: Cluster, options: ProducerOptions, draw: Callable[[], float]) -> None:
        self.queues: dict[str, list[Queue]] = {}
        self._cluster = cluster
        self._options = options
        try:
            self._partitioner = partitioner_of(options.partitioner, draw)
        except ValueError as error:
            raise OptionError(str(error)) from None
        self._sticky = StickyPartitioner(options.batch_size, is_adaptive=options.partitioner_adaptive_partitioning_enable)
        self._moves_on = not options.linger_ms and options.transactional_id is None
        """Whether a record without a key leaves a partition with nothing on its way.

        One that is sent when the last has been acknowledged has a batch to itself in any partition.  A broker stalls less when its files
        take turns.  A transaction would pay for each further partition.
        """
        self._ignores_keys = options.partitioner_ignore_keys or options.partitioner == "uniform_sticky"

    def partition_of(self, topic: str, key: bytes | None, value: bytes | None, size: int, queues: Sequence[Queue]) -> int:
        """The partition of a record.  Errors: ClientError for a function of the user's that raises, or chooses none of the partitions."""
        if self._partitioner is not None:
            return self._chosen(self._partitioner, topic, key, value, len(queues))
        if key is not None and not self._ignores_keys:
            return partition_for_key(key, len(queues))
        if self._moves_on:
            current = self._sticky.used(topic)
            if 0 <= current < len(queues) and queues[current].is_idle:
                self.leave(topic, queues)
        index = self._sticky.stay(topic, size, len(queues))
        return index if index >= 0 else self._sticky.partition(topic, size, len(queues), self._load_of(topic, queues))

    @staticmethod
    def _chosen(partitioner: Partitioner, topic: str, key: bytes | None, value: bytes | None, partition_count: int) -> int:
        try:
            index = partitioner(topic, key, value, partition_count)
        except Exception as error:
            raise ClientError(ErrorCode.INVALID_REQUEST, f"the partitioner failed: {error!r}") from error
        if type(index) is not int or not 0 <= index < partition_count:
            detail = f"the partitioner chose partition {index!r} of topic {topic}, which has {partition_count}"
            raise ClientError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail)
        return index

    def room(self, topic: str) -> int:
        """How many bytes of records without a key go where the last one went.  0: each is placed by itself."""
        return self._sticky.room(topic) if self._partitioner is None else 0

    def filled(self, topic: str, size: int) -> None:
        """Note that records of `size` bytes went there."""
        self._sticky.filled(topic, size)

    def _load_of(self, topic: str, queues: Sequence[Queue]) -> Callable[[int], float]:
        leaders = self._cluster.view.leaders

        def load(partition: int) -> float:
            if leaders.get(queues[partition].topic_partition, NO_LEADER) == NO_LEADER:
                return UNAVAILABLE
            return queues[partition].buffered_bytes

        return load

    def is_free(self, key: bytes | None) -> bool:
        """Whether the record may go to any partition."""
        return self._partitioner is None and (key is None or self._ignores_keys)

    def leave(self, topic: str, queues: Sequence[Queue]) -> None:
        """Choose another partition for records without a key: the present one takes nothing now."""
        self._sticky.leave(topic, len(queues), self._load_of(topic, queues))

    def error_of(self, topic: str) -> KafkaError | None:
        """The reason why a topic cannot be written to and waiting will not help; None if there is none."""
        code = self._cluster.view.error_of(topic)
        if code is None or code is ErrorCode.NONE or code.retriable:
            return None
        return error_of(code, f"topic {topic}: {code.text}")

    def parts_of(self, topic: str, queues: Sequence[Queue], columns: Columns, partition: int | None) -> Iterator[tuple[Queue, Piece]]:
        """The pieces of `columns` with their queues.

        Each piece fits into a batch.  Errors: ClientError for a record that no batch takes.
        """
        keys = columns.keys
        if partition is not None:
            yield from ((queues[partition], piece) for piece in self._pieces(range(len(columns.values)), columns))
            return
        if self._partitioner is None and (keys is None or self._ignores_keys):
            # A batch at a time goes to the partition with the least on its way.
            for piece in self._pieces(range(len(columns.values)), columns):
                self.leave(topic, queues)
                index = self._sticky.partition(topic, piece[2], len(queues), self._load_of(topic, queues))
                yield queues[index], piece
            return
        chosen: dict[int, list[int]] = {}
        for number, value in enumerate(columns.values):
            key = None if keys is None else keys[number]
            size = RECORD_OVERHEAD + len(key or b"") + len(value or b"")
            chosen.setdefault(self.partition_of(topic, key, value, size, queues), []).append(number)
        for index, numbers_of in chosen.items():
            yield from ((queues[index], piece) for piece in self._pieces(numbers_of, columns))

    def _pieces(self, numbers: range | list[int], columns: Columns) -> Iterator[Piece]:
        return pieces(numbers, columns, batch_bytes=self._options.batch_size, max_request_bytes=self._options.max_request_size)
