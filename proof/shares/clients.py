"""● The clients of a simulated queue, and the answers that they got: a producer, and members of a share group that make requests by hand.

A member fetches with and without a strict limit.  It accepts most records and releases some, with its next fetch or in a request of their
own.  At times it goes, with or without a word.
"""

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from moldau.errors import ErrorCode, KafkaError
from moldau.net.channel import Channel
from moldau.net.framing import ReceiveBuffers
from moldau.net.transport import Network
from moldau.protocol.messages import share_acknowledge as ack
from moldau.protocol.messages import share_fetch as fetch
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.replication.share.in_flight import AcknowledgeType
from moldau.testing.clock import EPOCH_MS

BROKER, PORT = "broker", 9092
PARTITIONS: Final = 2
TOPIC: Final = "queue"
GROUP: Final = "workers"
GROUP_RESOURCE: Final = 32
TIMEOUT_S: Final = 10.0
THINK_S: Final = 0.5
HEARTBEAT_S: Final = 2.0
DELIVERIES: Final = 10
LEAVE_EPOCH: Final = -1
Place = tuple[int, int]
"""(partition, offset)"""
Where = tuple[int, int, int]
"""(partition, offset, value).  A power failure may take an unacknowledged record, and then another value may get its offset."""
Said = dict[Where, AcknowledgeType]


@dataclass(slots=True)
class QueueNotes:
    """The answers that all clients got."""

    topic_id: UUID | None = None
    sent: dict[Place, int] = field(default_factory=dict)
    """Place → the value whose send was acknowledged."""
    tried: set[int] = field(default_factory=set)
    accepted_s: dict[Where, float] = field(default_factory=dict)
    """The time at which the acceptance of a record was confirmed."""
    in_doubt: dict[Where, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    """Records accepted in requests without an answer: member → time.  A record that comes again to a later fetch is in doubt no more."""
    deliveries: dict[Where, int] = field(default_factory=dict)
    """The delivery count of a record, from the last answer."""
    violations: list[str] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    next_value: int = 0

    def delivered(self, where: Where, delivery_count: int, sent_s: float) -> None:
        """Note a record in the answer to a fetch that was sent at `sent_s`."""
        place, value = where[:2], where[2]
        if self.sent.get(place, value) != value or value not in self.tried:
            self.violations.append(f"{place} was delivered with {value}, {self.sent.get(place)} was sent")
        if delivery_count > DELIVERIES:
            self.violations.append(f"{where} was delivered for the time {delivery_count}, {DELIVERIES} are allowed")
        if self.accepted_s.get(where, sent_s) < sent_s:
            self.violations.append(
                f"{where} was accepted at {self.accepted_s[where]:.3f} s and came again to a fetch sent at {sent_s:.3f} s"
            )
        self.done["delivered"] += 1
        self.deliveries[where] = delivery_count
        self.in_doubt[where] = {number: when_s for number, when_s in self.in_doubt[where].items() if when_s >= sent_s}

    def accepted(self, where: Where, now_s: float) -> None:
        """Note a confirmed acceptance."""
        self.done["accepted"] += 1
        self.accepted_s.setdefault(where, now_s)
        self.in_doubt.pop(where, None)

    @property
    def is_empty(self) -> bool:
        """Tells whether every record whose send was acknowledged is done."""
        return not self.left

    @property
    def left(self) -> set[Where]:
        in_doubt = {where for where, by in self.in_doubt.items() if by}
        # The answer with the last delivery may have been lost.
        worn_out = {where for where, count in self.deliveries.items() if count >= DELIVERIES - 1}
        sent = {(partition, offset, value) for (partition, offset), value in self.sent.items()}
        return sent - self.accepted_s.keys() - in_doubt - worn_out


class QueueClient:
    """A client with one connection, which it opens anew when it broke."""

    def __init__(self, number: int, network: Network, notes: QueueNotes, choice: random.Random) -> None:
        self.number: Final = number
        self.notes: Final = notes
        self.choice: Final = choice
        self._network: Final = network
        self._loop: Final = asyncio.get_running_loop()
        self._buffers: Final = ReceiveBuffers()
        self._channel: Channel | None = None
        self.is_calm = False

    async def run(self, until_s: float) -> None:
        while self._loop.time() < until_s and not self.is_done():
            try:
                await self.work()
            except (OSError, KafkaError):
                self.broke()
            await asyncio.sleep(self.choice.expovariate(1 / THINK_S))

    def is_done(self) -> bool:
        return False

    async def work(self) -> None:
        raise NotImplementedError

    def broke(self) -> None:
        """Note that the fate of the last request is not known."""

    async def ask(self, request: Any) -> Any:
        """Errors: OSError, KafkaError."""
        if self._channel is None or self._channel.is_closed:
            name = f"client-{self.number}"
            self._channel = await Channel.connect(self._network, BROKER, PORT, client_id=name, timeout_s=TIMEOUT_S, buffers=self._buffers)
        return await self._channel.send(request)


class QueueProducer(QueueClient):
    """A client that makes the topic, tells the group where to begin, and sends."""

    def __init__(self, number: int, network: Network, notes: QueueNotes, choice: random.Random) -> None:
        super().__init__(number, network, notes, choice)
        self._is_configured = False

    async def work(self) -> None:
        notes = self.notes
        if not self._is_configured:
            await self._configure()
            return
        partition = self.choice.randrange(PARTITIONS)
        values = range(notes.next_value, notes.next_value + self.choice.choice((1, 2, 5, 40)))
        notes.next_value = values.stop
        notes.tried |= set(values)
        now_ms = EPOCH_MS + int(self._loop.time() * 1000)
        batch = build_batch([NewRecord(now_ms, None, value.to_bytes(8, "big")) for value in values])
        assert notes.topic_id is not None
        data = TopicProduceData(
            name=TOPIC, topic_id=notes.topic_id, partition_data=[PartitionProduceData(index=partition, records=memoryview(batch))]
        )
        answer = await self.ask(ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[data]))
        (told,) = answer.responses[0].partition_responses
        if not told.error_code:
            notes.done["send OK"] += 1
            notes.sent |= {(partition, told.base_offset + at): value for at, value in enumerate(values)}

    async def _configure(self) -> None:
        configs = [AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")]
        resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=configs)
        answer = await self.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        if any(one.error_code for one in answer.responses):
            return
        wanted = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[])
        answer = await self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=5_000))
        (made,) = answer.topics
        if made.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:  # the answer to an earlier try was lost, and with it the id
            self.notes.done["created unseen"] += 1
        elif not made.error_code:
            self.notes.topic_id = made.topic_id
        self._is_configured = self.notes.topic_id is not None


class QueueMember(QueueClient):
    """A client that fetches, accepts most records and releases some.

    At times it loses its connection, or goes with or without a word and comes back as another member.
    """

    def __init__(self, number: int, network: Network, notes: QueueNotes, choice: random.Random) -> None:
        super().__init__(number, network, notes, choice)
        self._be_another()

    def _be_another(self) -> None:
        self._member_id = str(UUID(int=self.choice.getrandbits(128), version=4))
        self._member_epoch = 0
        self._session_epoch = 0
        self._in_session: set[int] = set()
        self._heartbeat_s = -HEARTBEAT_S
        self._assigned: list[int] = []
        self._said: Said = {}

    def is_done(self) -> bool:
        return self.is_calm and self.notes.is_empty

    def broke(self) -> None:
        self._session_epoch = 0
        self._in_session = set()
        self._said = {}

    async def work(self) -> None:
        if self._loop.time() - self._heartbeat_s >= HEARTBEAT_S:
            await self._heartbeat()
        if self._assigned and self.notes.topic_id is not None:
            await self._fetch(self.notes.topic_id)
            if self.choice.random() < 0.5:
                await self._acknowledge(self.notes.topic_id)
        dice = 1.0 if self.is_calm else self.choice.random()
        if dice < 0.01 and self._channel is not None:
            self._channel.abort()
            self.broke()
        elif dice < 0.03:
            await self._go(with_a_word=dice < 0.02)

    async def _go(self, *, with_a_word: bool) -> None:
        """Leave the group, or vanish.  Records without an acknowledgement come again: at once, or when their locks end."""
        self.notes.done["left" if with_a_word else "vanished"] += 1
        leaving = ShareGroupHeartbeatRequest(group_id=GROUP, member_id=self._member_id, member_epoch=LEAVE_EPOCH)
        self._be_another()
        if with_a_word:
            await self.ask(leaving)

    async def _heartbeat(self) -> None:
        joins = self._member_epoch == 0
        answer = await self.ask(
            ShareGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=self._member_id,
                member_epoch=self._member_epoch,
                subscribed_topic_names=[TOPIC] if joins else None,
            )
        )
        self._heartbeat_s = self._loop.time()
        if answer.error_code == ErrorCode.NOT_COORDINATOR:
            await self.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]))
        elif answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            self._member_epoch = 0
        elif not answer.error_code:
            self._member_epoch = answer.member_epoch
            if answer.assignment is not None:
                self._assigned = sorted(index for one in answer.assignment.topic_partitions for index in one.partitions)

    async def _fetch(self, topic_id: UUID) -> None:
        said = self._take_said() if self._session_epoch else {}
        sent_s = self._loop.time()
        # Partitions that are another member's by now are fetched once more, to acknowledge their records.
        fetched = sorted({*self._assigned, *(partition for partition, _, _ in said)})
        partitions = [
            fetch.FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    fetch.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
                    for offset, kind in _said_of(index, said)
                ],
            )
            for index in fetched
        ]
        forgotten = sorted(self._in_session - set(fetched))
        most = self.choice.choice((1, 5, 100))
        answer = await self.ask(
            fetch.ShareFetchRequest(
                group_id=GROUP,
                member_id=self._member_id,
                share_session_epoch=self._session_epoch,
                max_wait_ms=self.choice.choice((0, 300)),
                min_bytes=1,
                max_bytes=1 << 20,
                max_records=most,
                batch_size=most,
                share_acquire_mode=self.choice.randint(0, 1),
                topics=[fetch.FetchTopic(topic_id=topic_id, partitions=partitions)],
                forgotten_topics_data=[fetch.ForgottenTopic(topic_id=topic_id, partitions=forgotten)] if forgotten else [],
            )
        )
        if answer.error_code:
            self.notes.done[f"fetch: {ErrorCode.of(answer.error_code).name}"] += 1
            self._not_accepted(said)
            self.broke()
            return
        self._session_epoch += 1
        self._in_session = set(fetched)
        self.notes.done["poll"] += 1
        for topic in answer.responses:
            for one in topic.partitions:
                if not one.acknowledge_error_code:
                    self._confirm(one.partition_index, said)
                self._take(one, sent_s)

    def _take(self, one: fetch.PartitionData, sent_s: float) -> None:
        notes = self.notes
        view = memoryview(one.records)  # type: ignore[arg-type]
        for at, header in batches(view):
            for record in () if header.is_control else records_of(view[at : at + header.size]):
                times = [each.delivery_count for each in one.acquired_records if each.first_offset <= record.offset <= each.last_offset]
                if not times:
                    continue
                where = one.partition_index, record.offset, int.from_bytes(record.value or b"", "big")
                notes.delivered(where, times[0], sent_s)
                is_released = not self.is_calm and self.choice.random() < 0.2
                self._said[where] = AcknowledgeType.RELEASE if is_released else AcknowledgeType.ACCEPT

    async def _acknowledge(self, topic_id: UUID) -> None:
        said = self._take_said()
        if not said:
            return
        partitions = [
            ack.AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=[
                    ack.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[kind])
                    for offset, kind in _said_of(index, said)
                ],
            )
            for index in sorted({partition for partition, _, _ in said})
        ]
        answer = await self.ask(
            ack.ShareAcknowledgeRequest(
                group_id=GROUP,
                member_id=self._member_id,
                share_session_epoch=self._session_epoch,
                topics=[ack.AcknowledgeTopic(topic_id=topic_id, partitions=partitions)],
            )
        )
        if answer.error_code:
            self._not_accepted(said)
            self.broke()
            return
        self._session_epoch += 1
        for topic in answer.responses:
            for one in topic.partitions:
                if not one.error_code:
                    self._confirm(one.partition_index, said)
                else:
                    self.notes.done[f"acknowledge: {ErrorCode.of(one.error_code).name}"] += 1

    def _take_said(self) -> Said:
        said, self._said = self._said, {}
        for where, kind in said.items():
            if kind is AcknowledgeType.ACCEPT:
                self.notes.in_doubt[where][self.number] = self._loop.time()
        return said

    def _not_accepted(self, said: Said) -> None:
        for where in said:
            self.notes.in_doubt[where].pop(self.number, None)

    def _confirm(self, partition: int, said: Said) -> None:
        for where, kind in said.items():
            if where[0] == partition and kind is AcknowledgeType.ACCEPT:
                self.notes.accepted(where, self._loop.time())


def _said_of(partition: int, said: Said) -> list[tuple[int, int]]:
    """(offset, acknowledgement) of a partition, in order."""
    return [(offset, int(kind)) for (one, offset, _), kind in sorted(said.items()) if one == partition]
