"""● The mail service: letters for what happens to orders and claims, one for each thing and state.

    topic → letters → the journal: not sent yet? → mail server: 250 → journal → one transaction: topic of mails, offsets

Killed at any place, it begins again at its offsets and sends what neither the journal nor the topic knows.  One gap is left: between the
server's 250 and the journal's line in the same thread.  SMTP has no way to ask whether a letter was taken (RFC 1047), so a letter of that
gap is sent again, with the same Message-ID, the same date and the same text.  None is lost.
"""

import asyncio
import json
import logging
import zlib
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import Final

from moldau import Consumer, Producer, TopicPartition
from moldau.clients.records import ConsumerRecord
from moldau.clock import Clock
from moldau.shop.again import for_ever
from moldau.shop.follow import Follower, Positions, resume
from moldau.shop.made_topics import make_topics
from moldau.shop.mails.journal import Journal
from moldau.shop.mails.letters import Letter, burger_letter, order_letter
from moldau.shop.mails.postman import Postman
from moldau.shop.settings import Settings

LOG: Final = logging.getLogger(__name__)
JOURNAL: Final = "mails.db"
CONNECTIONS: Final = 4
MOST_AT_ONCE: Final = 400
POLL_S: Final = 1.0


class Mails:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._name = f"{settings.prefix}{settings.name}-mails"
        self._host = settings.sender.rpartition("@")[2] or "moldau.example"

    async def run(self) -> None:
        """Runs for ever.  Errors: Fenced, when another mail service with this name has begun."""
        await for_ever("mails", self._serve)

    async def _serve(self, well: Callable[[], None]) -> None:
        await make_topics(self._settings)
        settings = self._settings
        given = {**settings.security, "isolation.level": "read_committed", "enable.auto.commit": "false", "auto.offset.reset": "earliest"}
        async with AsyncExitStack() as stack:
            # The producer comes first: it ends the transaction that an earlier service left open.
            options = {**settings.security, "transactional.id": self._name}
            producer = await stack.enter_async_context(Producer(settings.servers, options))
            journal = Journal(settings.folder / JOURNAL)
            stack.callback(journal.close)
            await self._take_over(journal)
            consumer = await stack.enter_async_context(Consumer(settings.servers, {**given, "group.id": self._name}))
            await resume(consumer, [settings.orders.orders, settings.topics.claims])
            postmen = [Postman(settings.smtp, settings.sender, journal) for _ in range(CONNECTIONS)]
            for postman in postmen:
                stack.callback(postman.hang_up)
                stack.callback(postman.stopping.set)
            well()
            while True:
                polled = await consumer.poll(POLL_S, max_records=MOST_AT_ONCE)
                records = [record for batch in polled for record in batch]
                if records:
                    await self._deliver(records, postmen, producer)

    async def _take_over(self, journal: Journal) -> None:
        settings = self._settings
        try:
            await self._read_on(journal)
        except Positions:
            LOG.warning("topic %s was made anew, and the journal is", settings.topics.mails)
            journal.clear()
            await self._read_on(journal)

    async def _read_on(self, journal: Journal) -> None:
        settings = self._settings
        async with Follower(settings.servers, settings.topics.mails, settings.security, journal.positions()) as follower:
            async for batch in follower.batches():
                letters = [
                    (bytes(one.key).decode(), str(json.loads(one.value)["outcome"])) for one in batch.records if one.key and one.value
                ]
                journal.take_over(letters, {one.partition: offset for one, offset in batch.positions.items()})
                if batch.is_at_end:
                    return

    async def _deliver(self, records: Sequence[ConsumerRecord], postmen: Sequence[Postman], producer: Producer) -> None:
        rounds: list[list[Letter]] = [[] for _ in postmen]
        seen: set[str] = set()
        for record in records:
            letter = self._letter(record)
            if letter is not None and letter.message_id not in seen:
                seen.add(letter.message_id)
                rounds[zlib.crc32(letter.about.encode("utf-8", "replace")) % len(postmen)].append(letter)
        outcomes = await _by_threads(postmen, rounds)
        async with producer.transaction():
            for letter, outcome in (one for found in outcomes for one in found):
                value = {"about": letter.about, "state": letter.state, "to": letter.to, "subject": letter.subject, "outcome": outcome}
                producer.send(
                    self._settings.topics.mails,
                    json.dumps(value, separators=(",", ":")).encode(),
                    key=letter.message_id.encode(),
                    timestamp_ms=self._clock.now_ms(),
                )
            offsets = {TopicPartition(one.topic, one.partition): one.offset + 1 for one in records}
            await producer.send_offsets(offsets, self._name)

    def _letter(self, record: ConsumerRecord) -> Letter | None:
        if record.value is None:
            return None
        if record.topic == self._settings.orders.orders:
            return order_letter(bytes(record.value), record.timestamp, self._host)
        return burger_letter(bytes(record.value), record.timestamp, self._host, self._settings.url)


async def _by_threads(postmen: Sequence[Postman], rounds: Sequence[Sequence[Letter]]) -> list[list[tuple[Letter, str]]]:
    """Each postman delivers its letters in a thread.  When cancelled, this ends once each letter under way is answered and noted."""
    works = [asyncio.to_thread(postman.deliver, letters) for postman, letters in zip(postmen, rounds, strict=True) if letters]
    work = asyncio.gather(*works)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        for postman in postmen:
            postman.stopping.set()
        await work
        raise
