"""● A queue in simulation: members of a share group and producers of a cluster that is killed, loses power, its network, its time.

    result = QueueSimulation(seed=7, rounds=2).run()
    result.violations          empty when nothing went wrong

What must hold: a record whose send was acknowledged is accepted in the end; a record whose acceptance was confirmed is not in the answer
to any fetch that was sent afterwards; nothing is delivered that was not sent.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Mapping
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
from moldau.testing.loop import Machine
from moldau.testing.simulation import BROKER, CALM_S, PORT, ROUND_S, Simulation

MEMBERS: Final = 3
PARTITIONS: Final = 2
TOPIC: Final = "queue"
GROUP: Final = "workers"
GROUP_RESOURCE: Final = 32
TIMEOUT_S: Final = 10.0
THINK_S: Final = 0.5
HEARTBEAT_S: Final = 2.0
QUEUE_PROPERTIES: Final[Mapping[str, str]] = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "4000",
    "group.share.max.delivery.count.limit": "25",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
}
Where = tuple[int, int]
"""(partition, offset)"""
Said = dict[Where, AcknowledgeType]


@dataclass(slots=True)
class QueueNotes:
    """What everybody was told."""

    topic_id: UUID | None = None
    sent: dict[Where, int] = field(default_factory=dict)
    """Values whose send was acknowledged."""
    tried: set[int] = field(default_factory=set)
    accepted_s: dict[Where, float] = field(default_factory=dict)
    """When the acceptance was confirmed."""
    in_doubt: dict[Where, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    """Accepted by requests whose answer never came, by whom and when, and not in the answer to any fetch that was sent since."""
    violations: list[str] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    next_value: int = 0

    @property
    def is_empty(self) -> bool:
        """Everything that was sent for certain is done."""
        return not self.left

    @property
    def left(self) -> set[Where]:
        return self.sent.keys() - self.accepted_s.keys() - {where for where, by in self.in_doubt.items() if by}


class QueueClient:
    """A connection that is opened anew when it broke."""

    def __init__(self, number: int, network: Network, notes: QueueNotes, choice: random.Random) -> None:
        self.number: Final = number
        self.notes: Final = notes
        self.choice: Final = choice
        self._network: Final = network
        self._loop: Final = asyncio.get_running_loop()
        self._buffers: Final = ReceiveBuffers()
        self._channel: Channel | None = None

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
        """Nobody knows what became of the last request."""

    async def ask(self, request: Any) -> Any:
        """Errors: OSError, KafkaError."""
        if self._channel is None or self._channel.is_closed:
            name = f"client-{self.number}"
            self._channel = await Channel.connect(self._network, BROKER, PORT, client_id=name, timeout_s=TIMEOUT_S, buffers=self._buffers)
        return await self._channel.send(request)


class QueueProducer(QueueClient):
    """Makes the topic, tells the group where to begin, and sends."""

    def __init__(self, number: int, network: Network, notes: QueueNotes, choice: random.Random) -> None:
        super().__init__(number, network, notes, choice)
        self._is_configured = False

    async def work(self) -> None:
        notes = self.notes
        if not self._is_configured:
            await self._configure()
            return
        partition = self.choice.randrange(PARTITIONS)
        values = range(notes.next_value, notes.next_value + self.choice.randint(1, 5))
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
        configs = [
            AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in (("share.auto.offset.reset", "earliest"), ("share.delivery.count.limit", "25"))
        ]
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
    """Fetches, accepts most and releases some, dies at times without a word."""

    def __init__(self, number: int, network: Network, notes: QueueNotes, choice: random.Random) -> None:
        super().__init__(number, network, notes, choice)
        self.is_calm = False
        self._member_id = str(UUID(int=choice.getrandbits(128), version=4))
        self._member_epoch = 0
        self._session_epoch = 0
        self._heartbeat_s = -HEARTBEAT_S
        self._assigned: list[int] = []
        self._said: Said = {}

    def is_done(self) -> bool:
        return self.is_calm and self.notes.is_empty

    def broke(self) -> None:
        self._session_epoch = 0
        self._said = {}

    async def work(self) -> None:
        if self._loop.time() - self._heartbeat_s >= HEARTBEAT_S:
            await self._heartbeat()
        if self._assigned and self.notes.topic_id is not None:
            await self._fetch(self.notes.topic_id)
            if self.choice.random() < 0.5:
                await self._acknowledge(self.notes.topic_id)
        if not self.is_calm and self.choice.random() < 0.01 and self._channel is not None:
            self._channel.abort()
            self.broke()

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
        partitions = [
            fetch.FetchPartition(
                partition_index=index,
                acknowledgement_batches=[
                    fetch.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[int(kind)])
                    for (partition, offset), kind in sorted(said.items())
                    if partition == index
                ],
            )
            for index in self._assigned
        ]
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
                forgotten_topics_data=[],
            )
        )
        if answer.error_code:
            self.notes.done[f"fetch: {ErrorCode.of(answer.error_code).name}"] += 1
            self._not_accepted(said)
            self.broke()
            return
        self._session_epoch += 1
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
                if not any(each.first_offset <= record.offset <= each.last_offset for each in one.acquired_records):
                    continue
                where = one.partition_index, record.offset
                value = int.from_bytes(record.value or b"", "big")
                if notes.sent.get(where, value) != value or value not in notes.tried:
                    notes.violations.append(f"{where} was delivered with {value}, {notes.sent.get(where)} was sent")
                if notes.accepted_s.get(where, sent_s) < sent_s:
                    notes.violations.append(
                        f"{where} was accepted at {notes.accepted_s[where]:.3f} s and came again to a fetch sent at {sent_s:.3f} s"
                    )
                notes.done["delivered"] += 1
                notes.in_doubt[where] = {number: when_s for number, when_s in notes.in_doubt[where].items() if when_s >= sent_s}
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
                    ack.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[int(kind)])
                    for (partition, offset), kind in sorted(said.items())
                    if partition == index
                ],
            )
            for index in sorted({partition for partition, _ in said})
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
                self.notes.done["accepted"] += 1
                self.notes.accepted_s.setdefault(where, self._loop.time())
                self.notes.in_doubt.pop(where, None)


class QueueSimulation(Simulation):
    """See the module."""

    def __init__(self, seed: int, *, rounds: int = 1, properties: Mapping[str, str] | None = None, verbose: bool = False) -> None:
        super().__init__(seed, rounds=rounds, properties={**QUEUE_PROPERTIES, **(properties or {})}, verbose=verbose)
        self.queue: Final = QueueNotes()
        self._workers: list[tuple[Machine, QueueClient]] = []

    async def _run(self) -> None:
        self._format()
        self._start_broker()
        for number in range(MEMBERS + 1):
            machine = Machine(f"client-{number}")
            self.network.add(machine)
            kind = QueueProducer if number == 0 else QueueMember
            self._workers.append((machine, kind(number, self.network, self.queue, random.Random(self.choice.getrandbits(64)))))
        self._clients = self._workers  # type: ignore[assignment]  # whose network is cut
        for _ in range(self.rounds):
            await self._round()
            if self.result.violations:
                return

    async def _round(self) -> None:
        end_s = self.loop.time() + ROUND_S
        working = [self.loop.start(machine, client.run(end_s)) for machine, client in self._workers]
        await self._faults(end_s)
        self._disk_recovers()
        for number, work in enumerate(working):
            await self._within(work, self.loop.time() + CALM_S, f"client {number} is still busy")
        members = [(machine, client) for machine, client in self._workers if isinstance(client, QueueMember)]
        calm_s = self.loop.time() + 3 * CALM_S
        for _, client in members:
            client.is_calm = True
        emptying = [self.loop.start(machine, client.run(calm_s)) for machine, client in members]
        for number, work in enumerate(emptying):
            await self._within(work, calm_s + CALM_S, f"member {number} is still busy")
        for _, client in members:
            client.is_calm = False
        left = sorted(self.queue.left)
        if left:
            self._violated(f"{len(left)} of {len(self.queue.sent)} records were never accepted: {left[:5]}")
        self.result.violations += self.queue.violations
        self.result.done = dict(self.notes.done) | dict(self.queue.done)
