"""◇ Decides whether a broker lives, and its next state: fenced, unfenced, shutting down.

    register ─▶ fenced ─(caught up)─▶ unfenced ─(wants to stop)─▶ in controlled shutdown ─(leads nothing)─▶ fenced, may stop
                  ▲___________ no heartbeat for broker.session.timeout.ms ___│

`Sessions` is soft state: the last sign of each broker, and how far it has read.  It begins anew with every active controller.
Source: BrokerHeartbeatManager, BrokerHeartbeatTracker, ReplicationControlManager.processBrokerHeartbeat; KIP-631, 841.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final
from uuid import UUID

from moldau.metadata.config_schema import ConfigSchema
from moldau.metadata.delta import replay
from moldau.metadata.departures import fence, leave_directories, shut_down, unfence
from moldau.metadata.features import is_cordoning_supported
from moldau.metadata.image import BrokerRegistration, MetadataImage
from moldau.metadata.outcome import Outcome, Piece
from moldau.metadata.producer_ids import check_broker_epoch
from moldau.metadata.records import BrokerRegistrationChangeRecord
from moldau.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.protocol.wire import StoredRecord

NEVER: Final = (1 << 63) - 1


class State(Enum):
    """The state of a broker for the controller."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "may stop now"


@dataclass(slots=True)
class Session:
    """A broker's session.  `heard_ms` is of the steady clock, None before the first heartbeat."""

    heard_ms: int | None = None
    metadata_offset: int = -1
    """The last offset that the broker has read, inclusive."""
    shutdown_offset: int = -1
    """The offset (inclusive) up to which a broker must read to know that the leaderships have moved; -1 while not shutting down."""


@dataclass(slots=True)
class Sessions:
    """The brokers' sessions.  Times are of the steady clock, in milliseconds."""

    timeout_ms: int
    by_broker: dict[int, Session] = field(default_factory=dict)

    def touch(self, broker_id: int, now_ms: int, metadata_offset: int = -1) -> Session:
        """Note a sign of a broker, and how far it has read (inclusive)."""
        session = self.by_broker.setdefault(broker_id, Session())
        session.heard_ms = now_ms
        session.metadata_offset = metadata_offset
        return session

    def is_valid(self, broker_id: int, now_ms: int) -> bool:
        session = self.by_broker.get(broker_id)
        return session is not None and session.heard_ms is not None and now_ms - session.heard_ms <= self.timeout_ms

    def begin(self, broker_id: int) -> None:
        """Begin for a new process with this id.  It has no session before its first heartbeat: if it dies before, the next may come."""
        self.by_broker[broker_id] = Session()

    def forget(self, broker_id: int) -> None:
        """Forget a broker whose process is certainly gone: the next one need not wait until a session ends."""
        self.by_broker.pop(broker_id, None)

    def adopt(self, brokers: Mapping[int, BrokerRegistration], now_ms: int, followed: tuple[int, int] | None = None) -> None:
        """Take brokers over as a new active controller.  Every unfenced broker gets a whole session; a fenced one has none to lose.

        `followed`: the active controller before this one, and when it last answered.  A broker with its id is the same process: a
        silence of this process counts from then on.  At least half a session is left to it, because only its controller may be silent.
        """
        self.by_broker = {one.id: Session(None if one.fenced else now_ms) for one in brokers.values()}
        if followed is not None and (session := self.by_broker.get(followed[0])) is not None and session.heard_ms is not None:
            session.heard_ms = max(followed[1], now_ms - self.timeout_ms // 2)

    def overdue(self, image: MetadataImage, now_ms: int) -> list[int]:
        """The unfenced brokers that were silent too long."""
        return [one.id for one in image.alive_brokers() if not self.is_valid(one.id, now_ms)]

    def next_end_ms(self, image: MetadataImage) -> int:
        """When the next session of an unfenced broker ends, if the broker stays silent; NEVER without such a broker."""
        sessions = [self.by_broker[one.id] for one in image.alive_brokers() if one.id in self.by_broker]
        return min((one.heard_ms + self.timeout_ms + 1 for one in sessions if one.heard_ms is not None), default=NEVER)

    def lowest_metadata_offset(self, image: MetadataImage) -> int:
        """The offset (inclusive) that every broker has read that is neither fenced nor shutting down."""
        sessions = [self.by_broker[one.id] for one in image.alive_brokers() if one.id in self.by_broker]
        return min((one.metadata_offset for one in sessions if one.shutdown_offset < 0), default=NEVER)


def broker_heartbeat(
    image: MetadataImage, schema: ConfigSchema, sessions: Sessions, request: BrokerHeartbeatRequest, *, now_ms: int, next_offset: int
) -> Outcome[BrokerHeartbeatResponse]:
    """Take a broker's heartbeat, and decide its next state.  Errors: STALE_BROKER_EPOCH.

    `next_offset`: the offset that the records would get.
    """
    check_broker_epoch(image, request.broker_id, request.broker_epoch)
    broker = image.brokers[request.broker_id]
    session = sessions.touch(broker.id, now_ms, request.current_metadata_offset)
    state = _state_of(broker, session)
    is_caught_up = request.current_metadata_offset >= broker.epoch
    wanted = _next_state(image, sessions, session, request, state, is_caught_up=is_caught_up)
    moved = _move(image, schema, broker, state, wanted)
    if moved.is_complete:
        moved = _with_directories(image, schema, broker, moved.records, request)
    if wanted in (State.FENCED, State.SHUTDOWN_NOW):
        session.shutdown_offset = -1
    elif wanted is State.CONTROLLED_SHUTDOWN and moved.is_complete and session.shutdown_offset < 0:
        session.shutdown_offset = next_offset + len(moved.records) - 1
    response = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up,
        is_fenced=wanted in (State.FENCED, State.SHUTDOWN_NOW),
        should_shut_down=wanted is State.SHUTDOWN_NOW,
    )
    return Outcome(response, moved.records, is_atomic=False, is_piece=not moved.is_complete)


def _move(image: MetadataImage, schema: ConfigSchema, broker: BrokerRegistration, state: State, wanted: State) -> Piece:
    if wanted is state:
        return Piece([], is_complete=True)
    if wanted is State.UNFENCED:
        return Piece(unfence(image, schema, broker), is_complete=True)
    if wanted is State.CONTROLLED_SHUTDOWN:
        return shut_down(image, schema, broker)
    return fence(image, schema, broker.id)


def _with_directories(
    image: MetadataImage, schema: ConfigSchema, broker: BrokerRegistration, moved: list[StoredRecord], request: BrokerHeartbeatRequest
) -> Piece:
    """The records of a heartbeat, with the changes of the broker's directories.

    The directories are decided on the moved state: a broker that is unfenced must not keep the lead of a partition whose directory the
    same heartbeat reports as failed.
    """
    after = replay(image, moved) if moved and request.offline_log_dirs else image
    left = leave_directories(after, schema, broker, request.offline_log_dirs)
    return Piece([*moved, *left.records, *_cordoned(image, broker, request.cordoned_log_dirs)], left.is_complete)


def _cordoned(image: MetadataImage, broker: BrokerRegistration, cordoned: list[UUID] | None) -> list[StoredRecord]:
    """The record of directories that take no new replicas (KIP-1066); None means no change."""
    if cordoned is None or not is_cordoning_supported(image.metadata_version):
        return []
    if broker.cordoned_log_dirs is not None and set(broker.cordoned_log_dirs) == set(cordoned):
        return []
    return [BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned))]


def _state_of(broker: BrokerRegistration, session: Session) -> State:
    """The state of a broker.  Under a new controller a shutdown begins anew, because only then the offset is known that all must read."""
    if broker.fenced:
        return State.FENCED
    return State.CONTROLLED_SHUTDOWN if session.shutdown_offset >= 0 else State.UNFENCED


def _next_state(
    image: MetadataImage,
    sessions: Sessions,
    session: Session,
    request: BrokerHeartbeatRequest,
    state: State,
    *,
    is_caught_up: bool,
) -> State:
    match state:
        case State.FENCED:
            if request.want_shut_down:
                return State.SHUTDOWN_NOW
            return State.UNFENCED if not request.want_fence and is_caught_up else State.FENCED
        case State.UNFENCED:
            if request.want_fence:
                return State.SHUTDOWN_NOW if request.want_shut_down else State.FENCED
            if request.want_shut_down:
                return State.CONTROLLED_SHUTDOWN if _leads_any(image, request.broker_id) else State.SHUTDOWN_NOW
            return State.UNFENCED
        case _:
            if _leads_any(image, request.broker_id) or session.shutdown_offset > sessions.lowest_metadata_offset(image):
                return State.CONTROLLED_SHUTDOWN
            return State.SHUTDOWN_NOW


def _leads_any(image: MetadataImage, broker_id: int) -> bool:
    return any(partition.leader == broker_id for topic in image.topics.values() for partition in topic.partitions)
