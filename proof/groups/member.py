"""● A member of a group for simulations: it decides on its next request and on the meaning of an answer, and notes what it was told.

    ask = member.next(now_ms)                     None: nothing to ask yet
    member.answered(ask, response, sent_ms, now_ms)    response None: nobody knows what became of it

The member joins with the classic, the consumer (KIP-848) or the streams protocol (KIP-1071).  It reads nothing but commits as if it did,
dies without a word, leaves and comes back.  Now and then it commits under the identity of a life that is over.  A driver carries the
requests: `proof.groups.clients` over a simulated network, `proof.groups.desk` to a coordinator alone.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from moldau.protocol.consumer_protocol import TopicPartition as NamedPartitions
from moldau.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from moldau.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from moldau.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from moldau.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from moldau.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from moldau.protocol.stored import decode_newer_too, encode_versioned
from moldau.testing.checker import Outcome
from proof.groups import streams_member as streams
from proof.groups.history import Commit, Fetched, Gone, GroupHistory, Hold, ThrownOut

SESSION_MS: Final = 6_000
REBALANCE_MS: Final = 8_000
"""Not below the session: a member without answers for a session takes itself for gone, and must do so before others get its partitions."""
RETRY_MS: Final = 300
RANGE: Final = "range"
EMBEDDED_VERSION: Final = 3
LEAVE_EPOCH, LEAVE_STATIC_EPOCH = -1, -2
OUT_OF_TURN: Final = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
)
"""Errors of a request about which nothing was decided."""
UNKNOWN: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT})
"""Errors of a request that may have been decided: the coordinator may have lost its place before it could tell the decision."""
OUT: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID})
EXPECTED: Final = (
    OUT_OF_TURN
    | UNKNOWN
    | OUT
    | {
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)


Report = ConsumerGroupHeartbeatResponse | StreamsGroupHeartbeatResponse


class Protocol(Enum):
    CLASSIC = "classic"
    CONSUMER = "consumer"
    STREAMS = "streams"

    @property
    def has_epochs(self) -> bool:
        """True if members report by heartbeats and move each at its own pace."""
        return self is not Protocol.CLASSIC


class Stage(Enum):
    """The next request of a member."""

    OUTSIDE = "outside"
    JOIN = "join"
    SYNC = "sync"
    FETCH = "fetch"
    MEMBER = "member"
    LEAVE = "leave"


class Ask(NamedTuple):
    request: Any
    kind: str
    epoch: int
    offsets: Mapping[str, int]
    """The offsets of a commit, by key."""
    member_id: str


@dataclass(slots=True)
class Member:
    """See the module.  `topics` gives the existing topics by name, `partitions` the number of partitions of each."""

    name: str
    group: str
    choice: random.Random
    history: GroupHistory
    topics: Callable[[], Mapping[str, UUID]]
    partitions: int
    note: Callable[[str, ErrorCode], None]
    """Called with the kind of each answered request and its error code."""
    protocols: tuple[Protocol, ...] = (Protocol.CLASSIC, Protocol.CONSUMER)
    pace_ms: float = 500
    """The longest pause between two requests."""
    session_ms: int = SESSION_MS
    rebalance_ms: int = REBALANCE_MS
    death_chance: float = 0.02
    """The chance to die with each request."""
    may_die: bool = True
    """False: the member stays as it is."""
    is_leaving: bool = False
    """True: the member leaves and stays away."""
    protocol: Protocol = Protocol.CLASSIC
    stage: Stage = Stage.OUTSIDE
    instance_id: str | None = None
    member_id: str = ""
    epoch: int = -1
    subscribed: tuple[str, ...] = ()
    held: dict[str, Hold] = field(default_factory=dict)
    positions: dict[str, int] = field(default_factory=dict)
    former: tuple[str, int, Mapping[str, int]] | None = None
    """The member id and epoch of a former life, with the offsets that it would commit, of the partitions that it held then."""
    lives: int = 0
    _due_ms: float = 0
    _joined: JoinGroupResponse | None = None
    _must_report: bool = True
    _is_talkative: bool = True
    """True: the member reports all its partitions now and then.  False: only when it has to, as Kafka's own client does."""
    _beat_ms: float = 0
    _all_heard_since_ms: float = 0
    """Since this time no request has gone without its answer."""

    # -- what to say ----------------------------------------------------------------------------------------------------------

    @property
    def owner(self) -> str:
        return self.instance_id or self.member_id

    @property
    def is_done(self) -> bool:
        return self.is_leaving and self.stage is Stage.OUTSIDE

    def next(self, now_ms: float) -> Ask | None:
        if self.is_leaving and self.stage in (Stage.OUTSIDE, Stage.JOIN, Stage.SYNC) and not self._is_in():
            self.stage = Stage.OUTSIDE
            return None
        if now_ms < self._due_ms:
            return None
        self._take_for_gone(now_ms)
        match self.stage:
            case Stage.OUTSIDE:
                return self._outside(now_ms)
            case Stage.JOIN:
                return self._join() if self.protocol is Protocol.CLASSIC else self._report()
            case Stage.SYNC:
                return self._sync()
            case Stage.FETCH:
                return self._fetch()
            case Stage.MEMBER:
                return self._as_member(now_ms)
            case Stage.LEAVE:
                return self._leave()

    def die(self, now_ms: float) -> None:
        """Die without a word, whatever the member was waiting for.  Another life begins in its place."""
        self._abandon(now_ms)

    def _is_in(self) -> bool:
        return self.epoch > 0

    def _outside(self, now_ms: float) -> Ask | None:
        if not self.topics():
            self._due_ms = now_ms + RETRY_MS
            return None
        zombie = self._as_former() if self.choice.random() < 0.3 else None
        if zombie is not None:
            return zombie
        if self.choice.random() < 0.05:
            return self._commit_of("", -1, self.choice.choice(self._keys(tuple(self.topics()))), 0)
        self._begin_life()
        return self.next(now_ms)

    def _as_former(self) -> Ask | None:
        """A zombie's request, with the former identity."""
        if self.former is None:
            return None
        member_id, epoch, offsets = self.former
        if member_id != self.member_id:
            guess = self.choice.choice((0, 0, 1, 2))
            # A member that is still in the group, if only until its session ends, may commit anything under its present epoch, in Kafka
            # too.  So the epoch is guessed only for members that are gone: a good guess does not make them members.
            epoch += guess if any(one.member_id == member_id for one in self.history.gone) else 0
        elif epoch >= self.epoch:
            return None  # the former identity is the present one
        else:
            # An older epoch may commit for the partitions that the member has kept since (KIP-1251): that is no zombie.
            offsets = {key: offset for key, offset in offsets.items() if key not in self.held}
        if not offsets:
            return None
        key = self.choice.choice(sorted(offsets))
        return self._commit_of(member_id, epoch, key, offsets[key]) if key.rpartition("-")[0] in self.topics() else None

    def _begin_life(self) -> None:
        self.lives += 1
        self.protocol = self.choice.choice(self.protocols)
        self.instance_id = f"{self.name}-instance" if self.choice.random() < 0.3 else None
        if self.protocol is Protocol.STREAMS:
            self.instance_id = None  # Kafka's streams groups have no static members yet
        self.member_id = "" if self.protocol is Protocol.CLASSIC else f"{self.name}-{self.lives}"
        self.epoch, self._must_report = (-1 if self.protocol is Protocol.CLASSIC else 0), True
        self.subscribed = tuple(self.topics())[:2]
        self._is_talkative = self.choice.random() < 0.5
        self.stage = Stage.JOIN

    def _as_member(self, now_ms: float) -> Ask | None:
        dice = self.choice.random()
        if self.is_leaving:
            self._end_life(now_ms, by_leaving=True)
            return self._leave()
        if self.may_die and dice < self.death_chance:
            self._end_life(now_ms, by_leaving=self.choice.random() < 0.5)
            return self._leave() if self.stage is Stage.LEAVE else None
        if self._must_report and self.protocol.has_epochs:
            return self._report()
        zombie = self._as_former() if self.may_die and dice > 0.95 else None
        if zombie is not None:
            return zombie
        if self.positions and dice < 0.5 and now_ms - self._beat_ms < self.session_ms / 4:
            key = self.choice.choice(sorted(self.positions))
            return self._commit_of(self.member_id, self.epoch, key, self.positions[key] + 1)
        return self._beat()

    def _end_life(self, now_ms: float, *, by_leaving: bool) -> None:
        if by_leaving:
            self._release(now_ms)
            self.stage = Stage.LEAVE
        else:
            self._abandon(now_ms, wait_ms=self.choice.choice((0, 3_000, 9_000)))

    def _beat(self) -> Ask:
        if self.protocol.has_epochs:
            return self._report()
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.epoch, member_id=self.member_id, group_instance_id=self.instance_id
        )
        return self._ask(request, "heartbeat")

    def _join(self) -> Ask:
        subscription = ConsumerProtocolSubscription(topics=list(self.subscribed))
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=RANGE, metadata=encode_versioned(subscription, EMBEDDED_VERSION))],
        )
        return self._ask(request, "join")

    def _sync(self) -> Ask:
        joined = self._joined
        assert joined is not None
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=joined.protocol_type,
            protocol_name=joined.protocol_name,
            assignments=self._assign(joined) if joined.leader == self.member_id and not joined.skip_assignment else [],
        )
        return self._ask(request, "sync")

    def _assign(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        wanted: dict[str, list[str]] = {}
        for member in joined.members:
            for topic in decode_newer_too(ConsumerProtocolSubscription, member.metadata).topics:
                wanted.setdefault(topic, []).append(member.member_id)
        given: dict[str, dict[str, list[int]]] = {member.member_id: {} for member in joined.members}
        for topic, members in wanted.items():
            for partition in range(self.partitions):
                given[members[partition % len(members)]].setdefault(topic, []).append(partition)
        return [
            SyncGroupRequestAssignment(
                member_id=member_id,
                assignment=encode_versioned(
                    ConsumerProtocolAssignment(
                        assigned_partitions=[NamedPartitions(topic=topic, partitions=found) for topic, found in topics.items()]
                    ),
                    EMBEDDED_VERSION,
                ),
            )
            for member_id, topics in given.items()
        ]

    def _report(self) -> Ask:
        is_whole = self.epoch == 0 or self._must_report or (self._is_talkative and self.choice.random() < 0.2)
        if self.protocol is Protocol.STREAMS:
            held = self.held if is_whole else None
            return self._ask(streams.report(self.group, self.member_id, self.epoch, self.subscribed, held, self.rebalance_ms), "report")
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=self.rebalance_ms if is_whole else -1,
            subscribed_topic_names=list(self.subscribed) if is_whole else None,
            topic_partitions=self._reported() if is_whole else None,
        )
        return self._ask(request, "report")

    def _reported(self) -> list[TopicPartitions]:
        ids = self.topics()
        return [TopicPartitions(topic_id=ids[name], partitions=found) for name, found in _by_topic(self.held).items() if name in ids]

    def _fetch(self) -> Ask:
        ids = self.topics()
        topics = [
            OffsetFetchRequestTopics(name=name, topic_id=ids[name], partition_indexes=found)
            for name, found in _by_topic(self.held).items()
            if name in ids
        ]
        return self._ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group, topics=topics)]), "fetch offsets")

    def _commit_of(self, member_id: str, epoch: int, key: str, offset: int) -> Ask:
        topic, _, partition = key.rpartition("-")
        one = OffsetCommitRequestPartition(partition_index=int(partition), committed_offset=offset, committed_metadata="")
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=self.instance_id if member_id and member_id == self.member_id and self.protocol is Protocol.CLASSIC else None,
            topics=[OffsetCommitRequestTopic(name=topic, topic_id=self.topics()[topic], partitions=[one])],
        )
        return Ask(request, "commit" if member_id else "reset", epoch, {key: offset}, member_id)

    def _leave(self) -> Ask:
        if self.protocol is Protocol.STREAMS:
            return self._ask(streams.leave(self.group, self.member_id), "leave")
        if self.protocol is Protocol.CONSUMER:
            is_for_good = self.instance_id is None or self.choice.random() < 0.5
            request = ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member_id,
                member_epoch=LEAVE_EPOCH if is_for_good else LEAVE_STATIC_EPOCH,
                instance_id=self.instance_id,
            )
            return self._ask(request, "leave")
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        return self._ask(LeaveGroupRequest(group_id=self.group, members=[identity]), "leave")

    def _ask(self, request: Any, kind: str) -> Ask:
        return Ask(request, kind, self.epoch, {}, self.member_id)

    def _keys(self, topics: Iterable[str]) -> list[str]:
        return [f"{topic}-{partition}" for topic in topics for partition in range(self.partitions)]

    # -- what an answer means -------------------------------------------------------------------------------------------------

    def answered(self, ask: Ask, response: Any, sent_ms: float, now_ms: float) -> None:
        """Take an answer in.  `response` is of the request's kind, or None if no answer came."""
        self._due_ms = now_ms + self.pace_ms * self.choice.random()
        code = _code_of(response)
        if response is not None:
            self.note(ask.kind, code)
        self._note_if_thrown_out(ask, response, code, sent_ms, now_ms)
        if ask.kind in ("commit", "reset"):
            self._committed(ask, response, code, sent_ms, now_ms)
            return
        if response is None or code in OUT_OF_TURN | UNKNOWN:
            # A member that is not sure reports everything again.
            self._must_report = True
            self._due_ms = now_ms + RETRY_MS
            return
        match response:
            case JoinGroupResponse():
                self._hear_joined(response, code)
            case SyncGroupResponse():
                self._hear_synced(response, code, sent_ms, now_ms)
            case HeartbeatResponse():
                self._hear_beat(code, sent_ms, now_ms)
            case ConsumerGroupHeartbeatResponse() | StreamsGroupHeartbeatResponse():
                self._hear_report(ask, response, code, sent_ms, now_ms)
            case OffsetFetchResponse():
                self._hear_fetched(response, sent_ms, now_ms)
            case LeaveGroupResponse():
                self._hear_left(ask, now_ms)

    def _note_if_thrown_out(self, ask: Ask, response: Any, code: ErrorCode, sent_ms: float, now_ms: float) -> None:
        if response is None or self.stage is not Stage.MEMBER:
            self._all_heard_since_ms = now_ms
        elif code in OUT and ask.member_id == self.member_id:
            self.history.thrown_out.append(ThrownOut(self.group, self.member_id, self._all_heard_since_ms, sent_ms))

    def _hear_joined(self, response: JoinGroupResponse, code: ErrorCode) -> None:
        if code is ErrorCode.NONE:
            self.member_id, self.epoch, self._joined = response.member_id, response.generation_id, response
            self.stage, self._due_ms = Stage.SYNC, 0
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id, self._due_ms = response.member_id, 0
        else:
            self.member_id, self.epoch = "", -1

    def _hear_synced(self, response: SyncGroupResponse, code: ErrorCode, sent_ms: float, now_ms: float) -> None:
        if code is not ErrorCode.NONE:
            self._rejoin(code, now_ms)
            return
        assignment = decode_newer_too(ConsumerProtocolAssignment, response.assignment) if response.assignment else None
        given = [f"{each.topic}-{index}" for each in (assignment.assigned_partitions if assignment else []) for index in each.partitions]
        self._hold(given, sent_ms, now_ms)

    def _hear_beat(self, code: ErrorCode, sent_ms: float, now_ms: float) -> None:
        if code is ErrorCode.NONE:
            self._heard_good(sent_ms)
        else:
            self._rejoin(code, now_ms)

    def _hear_report(self, ask: Ask, response: Report, code: ErrorCode, sent_ms: float, now_ms: float) -> None:
        if ask.kind == "leave":
            self._hear_left(ask, now_ms)
        elif code is ErrorCode.UNRELEASED_INSTANCE_ID:
            self._due_ms = now_ms + RETRY_MS
        elif code is not ErrorCode.NONE:
            # A fenced member is still in the group, under a later epoch.  It may commit for partitions that it has kept (KIP-1251).
            if code in OUT and code is not ErrorCode.FENCED_MEMBER_EPOCH:
                self.history.gone.append(Gone(self.group, ask.member_id, ask.epoch, now_ms))
            self._abandon(now_ms)
        else:
            self._must_report = False
            self.epoch = response.member_epoch
            for hold in self.held.values():
                hold.epoch = max(hold.epoch, self.epoch)
            self._heard_good(sent_ms)
            if self.stage is Stage.JOIN:
                self.stage = Stage.MEMBER
            given = self._given(response)
            if given is not None:
                self._hold(given, sent_ms, now_ms)

    def _given(self, response: Report) -> list[str] | None:
        if isinstance(response, StreamsGroupHeartbeatResponse):
            return streams.given(response, self.subscribed)
        if response.assignment is None:
            return None
        names = {topic_id: name for name, topic_id in self.topics().items()}
        return [
            f"{names[each.topic_id]}-{index}"
            for each in response.assignment.topic_partitions
            for index in each.partitions
            if each.topic_id in names
        ]

    def _hear_fetched(self, response: OffsetFetchResponse, sent_ms: float, now_ms: float) -> None:
        names = {topic_id: name for name, topic_id in self.topics().items()}
        for topic in response.groups[0].topics:
            name = topic.name or names[topic.topic_id]
            for one in topic.partitions:
                if one.error_code:
                    return
                key = f"{name}-{one.partition_index}"
                self.history.fetches.append(Fetched(self.group, key, one.committed_offset, sent_ms, now_ms))
                if key in self.held:
                    self.positions[key] = max(one.committed_offset, 0)
        self.stage = Stage.MEMBER

    def _hear_left(self, ask: Ask, now_ms: float) -> None:
        if self.protocol.has_epochs:
            # The group remembers that a classic member left with the next generation only.
            self.history.gone.append(Gone(self.group, ask.member_id, ask.epoch, now_ms))
        self._abandon(now_ms)

    def _committed(self, ask: Ask, response: Any, code: ErrorCode, sent_ms: float, now_ms: float) -> None:
        outcome = Outcome.INFO if response is None or code in UNKNOWN else Outcome.OK if code is ErrorCode.NONE else Outcome.FAIL
        for key, offset in ask.offsets.items():
            where = self.history.commits if ask.kind == "commit" else self.history.resets
            owner = self.owner if ask.member_id == self.member_id else ask.member_id
            where.append(Commit(self.group, key, owner, ask.member_id, ask.epoch, offset, outcome, sent_ms, now_ms))
        if ask.kind == "reset" or ask.member_id != self.member_id:
            if outcome is Outcome.INFO:
                self.former = None  # the commit may still arrive, after another commit
            return
        if outcome is Outcome.INFO:
            # The commit may still arrive, after a later commit of the same member.  So this member commits no more.
            self._abandon(now_ms)
            self.former = None
        elif outcome is Outcome.OK:
            self.positions.update({key: offset for key, offset in ask.offsets.items() if key in self.held})
        elif code in OUT or (code is ErrorCode.ILLEGAL_GENERATION and self.protocol.has_epochs):
            self._abandon(now_ms)
        elif code in (ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS) and self.protocol is Protocol.CLASSIC:
            self._rejoin(code, now_ms)

    # -- what it holds --------------------------------------------------------------------------------------------------------

    def _hold(self, given: Iterable[str], sent_ms: float, now_ms: float) -> None:
        wanted = set(given)
        lost = {key: self.positions[key] + 2 for key in self.held if key not in wanted and key in self.positions}
        if lost and self.protocol.has_epochs:
            # The member's next epoch has begun or is about to.  It ends this epoch for the partitions that the member gives up.
            self.former = (self.member_id, self.epoch, lost)
        for key in [key for key in self.held if key not in wanted]:
            self._give_up(key, now_ms)
            self._must_report = True
        for key in sorted(wanted - self.held.keys()):
            hold = Hold(self.group, key, self.owner, self.member_id, self.epoch, now_ms, sent_ms + self.session_ms)
            self.history.holds.append(hold)
            self.held[key] = hold
            self._must_report = True
        self.stage = Stage.FETCH if self.held.keys() - self.positions.keys() else Stage.MEMBER

    def _heard_good(self, sent_ms: float) -> None:
        self._beat_ms = sent_ms
        for hold in self.held.values():
            hold.until_ms = max(hold.until_ms, sent_ms + self.session_ms)

    def _give_up(self, key: str, now_ms: float) -> None:
        hold = self.held.pop(key)
        hold.until_ms = min(hold.until_ms, now_ms)
        self.positions.pop(key, None)

    def _release(self, now_ms: float) -> None:
        for key in list(self.held):
            self._give_up(key, now_ms)

    def _take_for_gone(self, now_ms: float) -> None:
        if self.held and all(hold.until_ms <= now_ms for hold in self.held.values()):
            self._abandon(now_ms)

    def _rejoin(self, code: ErrorCode, now_ms: float) -> None:
        if code in OUT:
            self._abandon(now_ms)
            return
        self._remember()
        self._release(now_ms)
        self.stage, self._due_ms = Stage.JOIN, now_ms + RETRY_MS * self.choice.random()

    def _remember(self) -> None:
        # Two ahead, so that no commit of the former life that is still on its way can be larger.
        offsets = {key: position + 2 for key, position in self.positions.items()}
        if offsets and self.epoch > 0:
            self.former = (self.member_id, self.epoch, offsets)

    def _abandon(self, now_ms: float, wait_ms: float = 0) -> None:
        self._remember()
        self._release(now_ms)
        self.stage, self._due_ms = Stage.OUTSIDE, now_ms + wait_ms
        self.member_id, self.epoch = "", -1


def _by_topic(keys: Iterable[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for key in sorted(keys):
        topic, _, partition = key.rpartition("-")
        found.setdefault(topic, []).append(int(partition))
    return found


def _code_of(response: Any) -> ErrorCode:
    match response:
        case None:
            return ErrorCode.NONE
        case OffsetCommitResponse():
            return ErrorCode.of(response.topics[0].partitions[0].error_code)
        case OffsetFetchResponse():
            codes = [one.error_code for group in response.groups for topic in group.topics for one in topic.partitions if one.error_code]
            return ErrorCode.of(response.groups[0].error_code or (codes[0] if codes else 0))
        case LeaveGroupResponse() if not response.error_code and response.members:
            return ErrorCode.of(response.members[0].error_code)
    return ErrorCode.of(response.error_code)
