"""● Functions that the handlers of groups share: the order of a member's connections, rights shown to administrators, descriptions of
groups, and the protocols that are served.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol, TypeVar

from moldau.coordinator.group.environment import Client
from moldau.coordinator.group.kinds import HeartbeatGroup
from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.membership import JOIN_EPOCH
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.server.coordinators.topic import answered, gather
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import ConnectionClosed, RequestContext
from moldau.server.requests.pieces import in_pieces

GROUP_OPERATIONS: Final = (3, 6, 8, 10, 11)
"""The AclOperation numbers that apply to a group: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS."""
ALL_GROUP_OPERATIONS: Final = sum(1 << operation for operation in GROUP_OPERATIONS)
NOT_ASKED: Final = -(1 << 31)
NO_PRODUCER: Final = (0, 0)


def client_of(context: RequestContext) -> Client:
    return Client(context.header.client_id or "", f"/{context.client.host}", context.version)


class GroupHeartbeat(Protocol):
    """A heartbeat of any protocol."""

    group_id: str
    member_id: str
    member_epoch: int


def close_if_overtaken(broker: Broker, context: RequestContext, heartbeat: GroupHeartbeat) -> None:
    """Close the connection if its member has gone on with a newer one.

    A heartbeat tells the member's partitions.  A delayed heartbeat, on a connection that the member has replaced, tells the partitions that
    the member had before.  Taken for news, it would give another member partitions that this member got meanwhile.  A leave tells none,
    and an administrator may send it for the member, on a connection that is older than the member's.

    Errors: ConnectionClosed.
    """
    if heartbeat.member_epoch < JOIN_EPOCH:
        return
    order = broker.coordinators.heartbeat_order
    sender = heartbeat.group_id, heartbeat.member_id
    if order.is_overtaken("heartbeats", sender, NO_PRODUCER, context.client.connection_number):
        raise ConnectionClosed(
            f"a heartbeat of {heartbeat.member_id} in {heartbeat.group_id} came after it had gone on with a newer connection"
        )


def authorized_operations(*, is_asked: bool) -> int:
    """The bits of the permitted operations.  Without an authorizer every client may do everything."""
    return ALL_GROUP_OPERATIONS if is_asked else NOT_ASKED


def serves_consumer_groups(broker: Broker) -> bool:
    """Whether the cluster has finalized consumer groups (KIP-848), and this broker has not switched them off."""
    return _is_finalized(broker, "group.version") and _is_switched_on(broker, "consumer")


def serves_share_groups(broker: Broker) -> bool:
    """Whether the cluster has finalized share groups (KIP-932)."""
    return _is_finalized(broker, "share.version")


def serves_streams_groups(broker: Broker) -> bool:
    """Whether the cluster has finalized streams groups (KIP-1071), and this broker has not switched them off."""
    return _is_finalized(broker, "streams.version") and _is_switched_on(broker, "streams")


def _is_finalized(broker: Broker, feature: str) -> bool:
    return broker.cluster.features().finalized.get(feature, 0) >= 1


def _is_switched_on(broker: Broker, protocol: str) -> bool:
    return protocol in broker.coordinators.group_environment.config.rebalance_protocols


MANY_GROUPS: Final = 100
"""The most groups that are handled in one turn of the loop."""

AnswerT = TypeVar("AnswerT")
WholeT = TypeVar("WholeT")


def ask_each(
    broker: Broker, ask: Callable[[str], AnswerT | Later[AnswerT]], group_ids: list[str], combine: Callable[[list[AnswerT]], WholeT]
) -> WholeT | Later[WholeT] | Awaitable[WholeT]:
    """`combine` of the results of `ask` for each group.  Other requests have their turn between many of them.

    A group that is named again is asked once: a short request could name a large group so often that no memory holds the answer.
    """
    group_ids = list(dict.fromkeys(group_ids))
    if len(group_ids) <= MANY_GROUPS:
        return gather([ask(group_id) for group_id in group_ids], combine)

    async def ask_in_pieces() -> WholeT:
        whole: Any = gather(await in_pieces(broker.clock, ask, group_ids), combine)
        return await answered(whole)

    return ask_in_pieces()


class AskedForOffsets(Protocol):
    """One group of a request for offsets."""

    group_id: str

    @property
    def topics(self) -> object | None:
        """The topics asked for; None for all."""
        ...


AskedT = TypeVar("AskedT", bound=AskedForOffsets)


def whole_groups_once(groups: Iterable[AskedT]) -> list[AskedT]:
    """The groups without repeated questions for all offsets: the answer to many of them would fit into no memory."""
    seen: set[str] = set()
    asked = []
    for group in groups:
        if group.topics is None:
            if group.group_id in seen:
                continue
            seen.add(group.group_id)
        asked.append(group)
    return asked


class DescribeRequest(Protocol):
    """A request to describe groups of one protocol."""

    group_ids: list[str]
    include_authorized_operations: bool


class Described(Protocol):
    """One group's part of an answer that describes groups."""

    error_code: int
    authorized_operations: int


DescribedT = TypeVar("DescribedT", bound=Described)
ResponseT = TypeVar("ResponseT")


def describe_each(
    broker: Broker,
    kind: type[HeartbeatGroup],
    request: DescribeRequest,
    blank: Callable[..., DescribedT],
    respond: Callable[[list[DescribedT]], ResponseT],
    *,
    is_served: bool,
) -> ResponseT | Later[ResponseT] | Awaitable[ResponseT]:
    """Describe groups of one protocol.  `blank` makes the part of an unknown group.

    Errors on a group: UNSUPPORTED_VERSION unless the protocol `is_served`, INVALID_GROUP_ID, and those of `GroupMachine.describe_of`.
    """

    def not_described(group_id: str, code: ErrorCode, message: str | None) -> DescribedT:
        return blank(
            group_id=group_id, error_code=code, error_message=message, group_state="", group_epoch=0, assignment_epoch=0, members=[]
        )

    def describe(group_id: str) -> DescribedT | Later[DescribedT]:
        if not is_served:
            return not_described(group_id, ErrorCode.UNSUPPORTED_VERSION, None)
        if not group_id:
            return not_described(group_id, ErrorCode.INVALID_GROUP_ID, None)

        def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
            return machine.describe_of(token, group_id, kind, not_described)

        return broker.coordinators.groups.ask(group_id, decide, refused=lambda code: not_described(group_id, code, None))

    def with_operations(groups: list[DescribedT]) -> ResponseT:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = authorized_operations(is_asked=request.include_authorized_operations)
        return respond(groups)

    return ask_each(broker, describe, request.group_ids, with_operations)
