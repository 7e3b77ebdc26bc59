"""● The deliveries of a `send_many` whose interceptors hear the end of each record (KIP-42)."""

import asyncio
from collections.abc import Sequence
from typing import Any

from moldau.clients.producer.delivery import Deliveries, DeliveryPart, RecordMetadata
from moldau.clients.producer.outgoing import OutgoingRecord, acknowledged
from moldau.errors import KafkaError
from moldau.types import TopicPartition


class WatchedDeliveries(Deliveries):
    """See the module.  `records`: as the interceptors left them, by their numbers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, interceptors: Sequence[Any], records: Sequence[OutgoingRecord]) -> None:
        super().__init__(loop)
        self._interceptors = interceptors
        self._records = records
        self._unsent = dict.fromkeys(range(len(records)))

    def part(self, numbers: range | list[int]) -> DeliveryPart:
        for number in numbers:
            del self._unsent[number]
        return super().part(numbers)

    def ended(
        self, part: DeliveryPart, topic_partition: TopicPartition, base_offset: int, timestamp: int | None, error: KafkaError | None
    ) -> None:
        for place, number in enumerate(part.numbers):
            record = self._records[number]
            where = None
            if error is None:
                sent_at = timestamp if timestamp is not None else record.timestamp_ms or 0
                offset = base_offset + place if base_offset >= 0 else -1
                where = RecordMetadata(topic_partition.topic, topic_partition.partition, offset, sent_at)
            acknowledged(self._interceptors, where, error, record.headers)
        super().ended(part, topic_partition, base_offset, timestamp, error)

    def give_up(self, error: BaseException) -> None:
        """Tell the interceptors the end of the records that are not sent."""
        unsent, self._unsent = self._unsent, {}
        for number in unsent:
            acknowledged(self._interceptors, None, error, self._records[number].headers)
