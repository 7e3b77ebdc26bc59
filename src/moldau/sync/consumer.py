"""● The blocking consumer."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from moldau.clients.consumer.consumer import Consumer as AsyncConsumer
from moldau.clients.consumer.consumer import Pattern
from moldau.clients.unpicklable import Unpicklable
from moldau.sync.portal import the_portal

if TYPE_CHECKING:
    from moldau.clients.connecting import Given
    from moldau.clients.consumer import Committed, RebalanceListener
    from moldau.clients.group_metadata import GroupMetadata
    from moldau.clients.records import ConsumerRecord, Records
    from moldau.types import TopicPartition


def _on_threads(listener: "RebalanceListener | None") -> "RebalanceListener | None":
    if listener is None:
        return None
    from moldau.sync.listener import ThreadListener

    return ThreadListener(listener)


class Consumer(Unpicklable):
    """`moldau.Consumer`, blocking.  One thread at a time may use it."""

    def __init__(
        self,
        servers: str | Sequence[str] | None = None,
        options: "Given | None" = None,
        *,
        topics: Sequence[str] | str | None = None,
        pattern: Pattern | None = None,
        listener: "RebalanceListener | None" = None,
        **given: Any,
    ) -> None:
        from moldau.sync.forgotten import Closing

        self._portal = the_portal()
        self._consumer = AsyncConsumer(servers, options, topics=topics, pattern=pattern, listener=_on_threads(listener), **given)
        self._closing = Closing(self, self._portal, self._consumer.close)

    def subscribe(
        self, topics: Sequence[str] | str | None = None, *, pattern: Pattern | None = None, listener: "RebalanceListener | None" = None
    ) -> None:
        """Subscribe as `moldau.Consumer.subscribe`.  A listener's plain methods run in a thread, and may use this consumer: to commit, not
        to poll.
        """
        self._portal.call(lambda: self._consumer.subscribe(topics, pattern=pattern, listener=_on_threads(listener)))

    def assign(self, partitions: "Iterable[TopicPartition] | Mapping[TopicPartition, int]") -> None:
        self._portal.run(self._consumer.assign(partitions))

    def unsubscribe(self) -> None:
        self._portal.run(self._consumer.unsubscribe())

    @property
    def assignment(self) -> "list[TopicPartition]":
        return self._consumer.assignment

    @property
    def positions(self) -> "dict[TopicPartition, int]":
        return self._portal.call(lambda: self._consumer.positions)

    def poll(self, timeout_s: float = 1.0, *, max_records: int | None = None) -> "list[Records]":
        return self._portal.run(self._consumer.poll(timeout_s, max_records=max_records), take_back=self._consumer.take_back)

    def __iter__(self) -> "Iterator[ConsumerRecord]":
        """Records one by one until the consumer is closed.  A record counts as done when the next one is asked for."""
        stream = self._portal.call(self._consumer.__aiter__)
        try:
            while True:
                try:
                    yield self._portal.run(stream.__anext__())
                except StopAsyncIteration:
                    return
                while (record := stream.at_hand()) is not None:
                    yield record
        finally:
            if not sys.is_finalizing():  # the loop's thread is gone then
                self._portal.call(stream.close)

    def pause(self, partitions: "Iterable[TopicPartition]") -> None:
        self._portal.call(lambda: self._consumer.pause(partitions))

    def resume(self, partitions: "Iterable[TopicPartition]") -> None:
        self._portal.call(lambda: self._consumer.resume(partitions))

    def seek(self, topic_partition: "TopicPartition", offset: int) -> None:
        self._portal.call(lambda: self._consumer.seek(topic_partition, offset))

    def seek_to_beginning(self, partitions: "Iterable[TopicPartition] | None" = None) -> None:
        self._portal.call(lambda: self._consumer.seek_to_beginning(partitions))

    def seek_to_end(self, partitions: "Iterable[TopicPartition] | None" = None) -> None:
        self._portal.call(lambda: self._consumer.seek_to_end(partitions))

    def seek_to_time(self, timestamp_ms: int, partitions: "Iterable[TopicPartition] | None" = None) -> None:
        self._portal.call(lambda: self._consumer.seek_to_time(timestamp_ms, partitions))

    def position(self, topic_partition: "TopicPartition", *, timeout_s: float | None = None) -> int:
        return self._portal.run(self._consumer.position(topic_partition, timeout_s=timeout_s))

    def lag(self, topic_partition: "TopicPartition") -> int | None:
        return self._portal.call(lambda: self._consumer.lag(topic_partition))

    def commit(self, offsets: "Mapping[TopicPartition, int | Committed] | None" = None) -> None:
        self._portal.run(self._consumer.commit(offsets))

    def committed(self, partitions: "Iterable[TopicPartition]") -> "dict[TopicPartition, Committed | None]":
        return self._portal.run(self._consumer.committed(partitions))

    def beginning_offsets(self, partitions: "Iterable[TopicPartition]") -> "dict[TopicPartition, int]":
        return self._portal.run(self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: "Iterable[TopicPartition]") -> "dict[TopicPartition, int]":
        return self._portal.run(self._consumer.end_offsets(partitions))

    def offsets_for_times(self, timestamps_ms: "Mapping[TopicPartition, int]") -> "dict[TopicPartition, int | None]":
        return self._portal.run(self._consumer.offsets_for_times(timestamps_ms))

    def partitions_for(self, topic: str) -> list[int]:
        return self._portal.run(self._consumer.partitions_for(topic))

    def group_metadata(self) -> "GroupMetadata":
        return self._portal.call(self._consumer.group_metadata)

    def metrics(self) -> dict[str, float]:
        return self._portal.call(self._consumer.metrics)

    def close(self) -> None:
        self._closing.done()
        self._portal.run(self._consumer.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
