"""● Our own client as a member of a simulated queue's group: `clients/share/consumer.py`, one life after the other."""

import asyncio
import random
from contextlib import suppress
from typing import Final

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.share import Acknowledge, ShareConsumer, ShareConsumerOptions
from moldau.errors import ErrorCode, KafkaError
from moldau.net.transport import Network
from moldau.types import TopicPartition
from proof.shares.clients import BROKER, GROUP, PORT, TOPIC, Place, QueueClient, QueueNotes, Where

LIFE_S: Final = 20.0
"""The average length of a life."""
CLOSES_WITHIN_S: Final = 10.0
EXPECTED: Final = (OSError, Unreachable, KafkaError, TimeoutError)
"""The errors that a client may see while faults strike.  It then begins again."""


class QueueConsumer(QueueClient):
    def __init__(self, number: int, network: Network, notes: QueueNotes, choice: random.Random) -> None:
        super().__init__(number, network, notes, choice)
        self._lives = 0
        self._said: dict[Place, tuple[Acknowledge, Where]] = {}

    async def run(self, until_s: float) -> None:
        while self._loop.time() < until_s and not self.is_done():
            self._lives += 1
            with suppress(*EXPECTED):
                await self._live(until_s)
            await asyncio.sleep(0.1)

    def is_done(self) -> bool:
        return self.is_calm and self.notes.is_empty

    async def _live(self, until_s: float) -> None:
        cluster = Cluster.connect(f"{BROKER}:{PORT}", network=self._network, client_id=f"consumer-{self._lives}")
        options = ShareConsumerOptions(share_acknowledgement_mode="explicit", max_poll_records=self.choice.choice((1, 10, 100)))
        self._said = {}
        member_id = f"consumer-{self.number}-{self._lives}"
        consumer = ShareConsumer(cluster, GROUP, [TOPIC], options, self._acknowledged, member_id)
        until_s = min(until_s, self._loop.time() + self.choice.expovariate(1 / LIFE_S))
        try:
            while self._loop.time() < until_s and not self.is_done():
                await self._take_some(consumer)
                if self.choice.random() < 0.5:
                    await consumer.commit()
            if self.choice.random() < 0.5:
                async with asyncio.timeout(CLOSES_WITHIN_S):
                    await consumer.close()
        finally:
            consumer.abort()
            cluster.close()

    async def _take_some(self, consumer: ShareConsumer) -> None:
        for shared in await consumer.poll(wait_s=0.5):
            record = shared.record
            where = record.partition, record.offset, int.from_bytes(record.value or b"", "big")
            self.notes.delivered(where, shared.delivery_count, shared.asked_at)
            self.notes.done["delivered to our client"] += 1
            is_released = not self.is_calm and self.choice.random() < 0.2
            kind = Acknowledge.RELEASE if is_released else Acknowledge.ACCEPT
            self._said[where[:2]] = (kind, where)
            if kind is Acknowledge.ACCEPT:
                self.notes.in_doubt[where][self.number] = self._loop.time()
            consumer.acknowledge(shared, kind)

    def _acknowledged(self, partition: TopicPartition, offsets: list[int], code: ErrorCode) -> None:
        for offset in offsets:
            kind, where = self._said.get((partition.partition, offset), (None, None))
            if kind is not Acknowledge.ACCEPT or where is None:
                continue
            # An error leaves the acceptance in doubt: the client sends it again after a broken connection, and the first may have arrived.
            if code is ErrorCode.NONE:
                self.notes.accepted(where, self._loop.time())
