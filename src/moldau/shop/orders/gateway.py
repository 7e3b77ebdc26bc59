"""● The gateway: orders that anybody sent to one topic, each moved once to where the checks look for it.

A producer keys a record as it likes and writes one; the checks need an order by its customer and a stock request by its store.  Both
records, the dead letters and the gateway's own offsets are one transaction.
"""

import logging
from collections.abc import Callable
from typing import Final

from moldau import Consumer, Producer, TopicPartition
from moldau.clients.records import ConsumerRecord
from moldau.clock import Clock
from moldau.pipelines.strict import Malformed
from moldau.shop.again import for_ever
from moldau.shop.follow import resume
from moldau.shop.made_topics import make_topics
from moldau.shop.orders.requests import order_in, records_of
from moldau.shop.settings import Settings

LOG: Final = logging.getLogger(__name__)
POLL_S: Final = 1.0
MOST_A_TRANSACTION: Final = 2_000


class Gateway:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._name = f"{settings.prefix}{settings.name}-gateway"

    async def run(self) -> None:
        """Runs for ever.  Errors: Fenced, when another gateway with this name has begun."""
        await for_ever("the gateway", self._move)

    async def _move(self, well: Callable[[], None]) -> None:
        await make_topics(self._settings)
        settings = self._settings
        given = {**settings.security, "isolation.level": "read_committed", "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
        # The producer comes first: it ends the transaction that an earlier gateway left open, and with it the earlier gateway's offsets.
        async with (
            Producer(settings.servers, {**settings.security, "transactional.id": self._name}) as producer,
            Consumer(settings.servers, {**given, "group.id": self._name}) as consumer,
        ):
            # Partitions are assigned by hand: the group only keeps offsets, so nothing waits for the session of a killed gateway to end.
            await resume(consumer, [settings.topics.requests])
            partitions = len(await consumer.partitions_for(settings.orders.orders))
            well()
            while True:
                polled = await consumer.poll(POLL_S, max_records=MOST_A_TRANSACTION)
                records = [record for batch in polled for record in batch]
                if not records:
                    continue
                async with producer.transaction():
                    for record in records:
                        self._send(producer, record, partitions)
                    offsets = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
                    await producer.send_offsets(offsets, self._name)

    def _send(self, producer: Producer, record: ConsumerRecord, partitions: int) -> None:
        try:
            order, extras = order_in(record.value)
        except Malformed as malformed:
            source = f"{record.topic}-{record.partition}@{record.offset}"
            headers = [*record.headers, ("reason", malformed.reason.encode()), ("source", source.encode())]
            producer.send(self._settings.orders.dead_letters, record.value, key=record.key, headers=headers)
            return
        for one in records_of(order, self._settings.orders, partitions, self._clock.now_ms(), extras):
            producer.send(one.topic, one.value, key=one.key, partition=one.partition, timestamp_ms=one.timestamp_ms)
