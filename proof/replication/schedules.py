"""● One replicated partition under random schedules, on pure objects: no loop, no network, and time only from the steps.

    schedule = Schedule(seed=7)
    schedule.run(steps=200)        # raises Violation

A step appends, fetches, delivers an answer, syncs, cuts the power of a broker, takes its disk, elects, tells a broker the controller's
decision, or carries a leader's proposal for the in-sync set.  Answers and proposals are under way for any number of steps, and some never
arrive.  A model checks:

- every leader elected from the in-sync set has each acknowledged record in its log, byte for byte;
- min.insync replicas have a record on stable storage at the moment when it is acknowledged;
- a leader's high watermark never goes back;
- leader and follower have the same records below both high watermarks;
- brokers keep their promises to each other (`promises.py`);
- in the end, when all decisions are told and all records fetched, all logs are equal.

After an unclean election the model forgets the records that the new leader does not have.
"""

import random
from dataclasses import dataclass
from itertools import count
from typing import Final

from moldau.errors import ErrorCode
from moldau.protocol.messages.fetch import FetchableTopicResponse, FetchPartition, FetchResponse, PartitionData
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.replication.catch_up import Verdict, begin_in_range, take
from moldau.replication.isr import IsrProposal
from moldau.replication.partition import Isolation, refused_partition
from moldau.replication.waits import ProduceWait
from moldau.storage.log import AppendResult
from moldau.types import NO_LEADER, FileSlice
from proof.replication import promises
from proof.replication.broker import LAG_MS, TOPIC_ID, WALL_MS, Broker, Decided, UnderWay

MOODS: Final = (0.2, 1, 1, 4)


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Slot:
    error_code: int = 0


class Schedule:
    """See the module."""

    def __init__(self, seed: int) -> None:
        self.seed: Final = seed
        self.choice: Final = random.Random(seed)
        self.now_ms = 1000
        self.number = 0
        self.acknowledged: dict[int, bytes] = {}
        """Offset → the value that was acknowledged."""
        self.watermarks: dict[tuple[int, int], int] = {}
        epochs = count(101)
        self.brokers: Final = {broker_id: Broker(broker_id, self.choice, epochs) for broker_id in (1, 2, 3)}
        self.isr: tuple[int, ...] = (1, 2, 3)
        self.leader_id, self.leader_epoch, self.partition_epoch = NO_LEADER, 0, 0
        self.lost_answers: Final = self.choice.choice((0.05, 0.1, 0.5))
        """The share of the controller's answers that are lost."""
        self.unclean_epoch = 0
        """The epoch of an unclean election.  Later acknowledgements of earlier leaders do not count."""
        self.done: dict[str, int] = {}
        for broker in self.brokers.values():
            broker.start()
        self._elect(1)
        for broker in self.brokers.values():
            self._tell(broker)

    def run(self, steps: int) -> None:
        steps_and_weights = {
            self.append: 8,
            self.fetch: 16,
            self.deliver: 16,
            self.sync: 12,
            self.tell: 8,
            self.alter: 5,
            self.hear: 2,
            self.pass_time: 1,
            self.crash: 1,
            self.start: 3,
            self.elect: 3,
            self.elect_unclean: 0.1,
        }
        # Each seed draws its own weights, so that a step that is rare in one seed is frequent in another.
        moods = [weight * self.choice.choice(MOODS) for weight in steps_and_weights.values()]
        for _ in range(steps):
            (step,) = self.choice.choices(list(steps_and_weights), moods)
            step()
            self.done[step.__name__] = self.done.get(step.__name__, 0) + 1
            self.check()
        self.settle()

    def _anyone(self) -> Broker | None:
        alive = [broker for broker in self.brokers.values() if broker.is_up]
        return self.choice.choice(alive) if alive else None

    def append(self) -> None:
        leaders = [broker for broker in self.brokers.values() if broker.is_up and broker.partition.is_leader]
        if not leaders:
            return
        broker = self.choice.choice(leaders)
        self.number += 1
        value = b"%d" % self.number
        result = broker.partition.append_from_client(build_batch([NewRecord(value=value, timestamp=WALL_MS)]), acks=-1, now_ms=WALL_MS)
        if isinstance(result, AppendResult):
            slot, offset = Slot(), result.first_offset
            wait = ProduceWait(lambda: self._settled(broker, slot, offset, value))
            if broker.partition.await_acknowledgement(offset + 1, wait, slot):
                self._settled(broker, slot, offset, value)

    def _settled(self, leader: Broker, slot: Slot, offset: int, value: bytes) -> None:
        if slot.error_code or leader.partition.leader_epoch < self.unclean_epoch:
            return
        self.acknowledged[offset] = value
        durable = [
            broker.id for broker in self.brokers.values() if broker.durable_end > offset and promises.value_at(broker.log, offset) == value
        ]
        if len(durable) < 2 or leader.id not in durable:
            raise Violation(
                f"seed {self.seed}: {value!r} at {offset}, of {leader.id}, is acknowledged and on stable storage of {durable} only"
            )
        if leader.id == self.leader_id and leader.partition.leader_epoch == self.leader_epoch:
            self._must_not(promises.is_everywhere(self.brokers, self.isr, offset, value))

    def fetch(self) -> None:
        broker = self._anyone()
        if broker is None or broker.followed is None or broker.answer is not None or not broker.followed.is_flushed:
            return
        leader = self.brokers[broker.partition.leader_id]
        request = broker.follower.next_request(self.now_ms, broker.epoch)
        if request is None:
            return
        if not leader.is_up or self.choice.random() < 0.1:
            broker.follower.lost()
            return
        # The leader answers the whole question, whatever the fetch session knows.
        question = broker.followed.question()
        asked = FetchPartition(
            partition=0,
            current_leader_epoch=question.leader_epoch,
            fetch_offset=question.offset,
            last_fetched_epoch=question.last_epoch,
            log_start_offset=question.log_start_offset,
            partition_max_bytes=300,
        )
        found = self._answer(leader, broker, asked)
        session_id = 0 if request.session_epoch == 0 and self.choice.random() < 0.5 else max(request.session_id, 1)
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[found])]
        broker.answer = UnderWay(leader.id, FetchResponse(session_id=session_id, responses=topics))

    def _answer(self, leader: Broker, follower: Broker, asked: FetchPartition) -> PartitionData:
        """The leader's answer, as `handlers/fetch.py` gives it."""
        partition = leader.partition
        refusal = partition.refusal_of(asked.current_leader_epoch, from_leader_only=True)
        if not refusal and (partition.is_stale(follower.id, follower.epoch) or follower.id not in partition.followers):
            refusal = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if refusal:
            return refused_partition(0, refusal)
        found = partition.read(
            asked.fetch_offset,
            asked.partition_max_bytes,
            Isolation.LOG_END,
            min_one_batch=True,
            last_fetched_epoch=asked.last_fetched_epoch,
        )
        if not found.error_code and found.diverging_epoch.epoch < 0:
            partition.follower_fetched(
                follower.id,
                offset=asked.fetch_offset,
                log_start_offset=asked.log_start_offset,
                broker_epoch=follower.epoch,
                now_ms=self.now_ms,
            )
        records = found.records
        found.records = memoryview(bytearray(records.read() if isinstance(records, FileSlice) else records or b""))
        return found

    def deliver(self) -> None:
        broker = self._anyone()
        if broker is None or broker.answer is None:
            return
        answer, broker.answer = broker.answer, None
        if self.choice.random() < 0.05:
            broker.follower.lost()
            return
        for followed, data in broker.follower.answers(answer.response):
            before = promises.end_of(broker.log)
            verdict = take(broker.logs, followed.partition, data, WALL_MS)
            broker.follower.settle(followed, verdict, self.now_ms)
            leader = self.brokers[followed.partition.leader_id]
            if leader.is_up and leader.partition.is_leader and leader.partition.leader_epoch == followed.leader_epoch:
                self._must_not(promises.keeps_what_is_common(broker, leader, before))
            if verdict is Verdict.OUT_OF_RANGE:
                found = leader.partition if leader.is_up else None
                if found is not None and not found.refusal_of(followed.leader_epoch, from_leader_only=True):
                    start, end = found.log.log_start_offset, found.log.log_end_offset
                    begin_in_range(broker.logs, followed.partition.log, leader_start_offset=start, leader_end_offset=end, now_ms=WALL_MS)
                broker.follower.settle(followed, Verdict.TAKEN, self.now_ms)

    def sync(self) -> None:
        broker = self._anyone()
        if broker is not None:
            broker.sync()

    def tell(self) -> None:
        broker = self._anyone()
        if broker is not None:
            self._tell(broker)

    def alter(self) -> None:
        broker = self._anyone()
        if broker is None or broker.decided is not None:
            return
        proposal, broker.asked = broker.asked, None
        if proposal is None:  # the request sets out, and arrives at some later step
            broker.asked = broker.partition.proposal if broker.proposal is not None else None
            broker.proposal = None
            return
        code = self._decide(broker, proposal)
        if self.choice.random() < self.lost_answers:
            broker.proposal = proposal  # the proposal is sent again
        else:
            broker.decided = Decided(proposal, code, self.leader_epoch, self.partition_epoch, self.isr)

    def hear(self) -> None:
        """Take the controller's decision."""
        broker = self._anyone()
        if broker is None or broker.decided is None:
            return
        (proposal, code, leader_epoch, partition_epoch, isr), broker.decided = broker.decided, None
        if code is ErrorCode.NONE:
            broker.partition.isr_committed(
                proposal, leader_epoch=leader_epoch, partition_epoch=partition_epoch, isr=isr, now_ms=self.now_ms
            )
        elif broker.partition.isr_refused(proposal, code):
            broker.proposal = proposal

    def _decide(self, broker: Broker, proposal: IsrProposal) -> ErrorCode:
        """The controller's decision about an in-sync set."""
        if broker.id != self.leader_id or proposal.leader_epoch != self.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.partition_epoch != self.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for each in proposal.isr:
            other = self.brokers[each]
            state = broker.partition.followers.get(each)
            epoch = other.epoch if each == broker.id or state is None else state.broker_epoch
            if not other.is_up or epoch not in (-1, other.epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        for each in set(proposal.isr) - set(self.isr):
            self._must_not(promises.may_join(self.brokers[each], self.acknowledged))
        self.isr = proposal.isr
        self.partition_epoch += 1
        return ErrorCode.NONE

    def pass_time(self) -> None:
        self.now_ms += self.choice.choice((10, 100, LAG_MS + 1))
        for broker in self.brokers.values():
            if broker.is_up:
                broker.partition.shrink_isr(self.now_ms)

    def crash(self) -> None:
        broker = self._anyone()
        if broker is None:
            return
        broker.crash(with_power=self.choice.random() < 0.7)
        self._fence(broker)

    def _fence(self, broker: Broker) -> None:
        """Fence a broker: it leads no more, and leaves the in-sync set if others are in it."""
        others = tuple(each for each in self.isr if each != broker.id)
        if broker.id in self.isr and others:
            self.isr = others
        self.partition_epoch += 1
        if self.leader_id == broker.id:
            self.elect()

    def start(self) -> None:
        down = [broker for broker in self.brokers.values() if not broker.is_up]
        if down:
            broker = self.choice.choice(down)
            if broker.id not in self.isr and self.choice.random() < 0.3:
                broker.lose_disk()
            self._start(broker)

    def _start(self, broker: Broker) -> None:
        broker.start()
        self.partition_epoch += 1
        if self.leader_id == NO_LEADER and broker.id in self.isr:
            self._elect(broker.id)
        self._tell(broker)

    def elect(self) -> None:
        candidates = [each for each in self.isr if self.brokers[each].is_up]
        self._elect(self.choice.choice(candidates) if candidates else NO_LEADER)

    def elect_unclean(self) -> None:
        broker = self._anyone()
        if broker is not None and broker.id not in self.isr:
            log = broker.log
            self.acknowledged = {offset: value for offset, value in self.acknowledged.items() if promises.value_at(log, offset) == value}
            self.isr = (broker.id,)
            self._elect(broker.id)
            self.unclean_epoch = self.leader_epoch

    def _elect(self, broker_id: int) -> None:
        self.leader_id = broker_id
        self.leader_epoch += 1
        self.partition_epoch += 1
        if broker_id == NO_LEADER:
            return
        log = self.brokers[broker_id].log if self.brokers[broker_id].is_up else None
        for offset, value in self.acknowledged.items():
            if log is not None and promises.value_at(log, offset) != value:
                raise Violation(f"seed {self.seed}: {value!r} was acknowledged at {offset}, and new leader {broker_id} does not have it")

    def _tell(self, broker: Broker) -> None:
        alive = {each.id: each.epoch for each in self.brokers.values() if each.is_up}
        broker.replicas.apply(
            broker.partition,
            leader_id=self.leader_id,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            replicas=(1, 2, 3),
            isr=self.isr,
            eligible=alive,
            now_ms=self.now_ms,
        )
        broker.partition.take_eligible(alive, self.now_ms)

    def check(self) -> None:
        for broker in self.brokers.values():
            if not broker.is_up or not broker.partition.is_leader:
                continue
            key, watermark = (broker.epoch, broker.partition.leader_epoch), broker.log.high_watermark
            if watermark < self.watermarks.get(key, 0):
                raise Violation(f"seed {self.seed}: the high watermark of {broker.partition} went back to {watermark}")
            self.watermarks[key] = watermark
            if (broker.id, broker.partition.leader_epoch) == (self.leader_id, self.leader_epoch):
                self._must_not(promises.believes_rightly(broker, self.brokers))

    def _must_not(self, wrong: str | None) -> None:
        if wrong is not None:
            raise Violation(f"seed {self.seed}: {wrong}")

    def settle(self) -> None:
        """Start all brokers, tell them all decisions, and let them fetch until nothing is left."""
        while any(not broker.is_up for broker in self.brokers.values()):
            self.start()
        if self.leader_id == NO_LEADER:
            self.elect()
        for round_number in range(80):
            self.now_ms += 100
            if round_number == 5:
                self.append()
            for broker in self.brokers.values():
                self._tell(broker)
                broker.sync()
            for _ in range(10):
                self.fetch()
                self.deliver()
                self.alter()
                self.alter()
                self.hear()
                self.sync()
        self.check_settled()

    def check_settled(self) -> None:
        """Check that all replicas are in sync and equal, and have all acknowledged records."""
        logs = [broker.log for broker in self.brokers.values()]
        contents = [(log.log_end_offset, promises.epochs_of(log), promises.content_of(log)) for log in logs]
        if any(content != contents[0] for content in contents):
            raise Violation(f"seed {self.seed}: in the end the logs differ: {[content[:2] for content in contents]}")
        if len(self.isr) < len(self.brokers):
            raise Violation(f"seed {self.seed}: in the end only {self.isr} are in sync")
        for offset, value in self.acknowledged.items():
            if promises.value_at(logs[0], offset) != value:
                raise Violation(f"seed {self.seed}: in the end {value!r} at {offset}, which was acknowledged, is gone")
