"""● StreamsGroupHeartbeat: join, report and leave a streams group (KIP-1071).

Versions       0.
Authorises     READ on the group; with a topology DESCRIBE on each of its topics, and CREATE on those that are missing.
Behaviour      Answers with the member's epoch, its tasks when they changed or were asked for, and the reasons why tasks are missing.
               Internal topics that are missing are created; a later heartbeat has the tasks.
Errors         UNSUPPORTED_VERSION (the protocol is switched off, or streams.version is 0), INVALID_REQUEST (of static members, regular
               expressions, warm-up tasks and task offsets too: Kafka 4.3 has none either), STREAMS_INVALID_TOPOLOGY,
               STREAMS_INVALID_TOPOLOGY_EPOCH, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, GROUP_ID_NOT_FOUND (of another protocol
               too), and those of `StreamsGroup.heartbeat`.
Differs from Kafka: a member that reports other tasks than it was given gets its tasks again, unless a new assignment is on its way: it may
               have missed the answer.  A report under an older epoch gives nothing up: the answer has the member's epoch and tasks.  A
               heartbeat on a connection that the member has replaced closes that connection, unless it is a leave.  Threads behind one
               endpoint are one entry of the endpoints: of several, Kafka's client forgets all but the last.  Repartition topics that are
               joined take their number from a fixed one of the same join only.  An invalid topology gets its own error code; Kafka says
               UNKNOWN_SERVER_ERROR.
"""

from collections.abc import Iterator

from moldau.coordinator.group.machine import GroupMachine
from moldau.coordinator.group.membership import JOIN_EPOCH, LEAVE_STATIC_EPOCH
from moldau.coordinator.group.streams.answers import refusal
from moldau.coordinator.group.streams.group import HeartbeatResult
from moldau.coordinator.outcome import Outcome, Token
from moldau.errors import ErrorCode
from moldau.metadata.topic_names import invalid_topic_reason
from moldau.net.later import Later
from moldau.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse, Topology
from moldau.server.handlers.groups import client_of, close_if_overtaken, serves_streams_groups
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles
from moldau.types import INTERNAL_TOPICS


@handles(StreamsGroupHeartbeatRequest)
def streams_group_heartbeat(
    broker: Broker, context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse | Later[StreamsGroupHeartbeatResponse]:
    if not serves_streams_groups(broker):
        return refused(ErrorCode.UNSUPPORTED_VERSION)
    wrong = _what_is_not_served(request) or _what_is_wrong(request)
    if wrong is not None:
        return refusal(ErrorCode.INVALID_REQUEST, wrong)
    if request.topology is not None:
        invalid = _what_is_wrong_with(request.topology)
        if invalid is not None:
            return refusal(*invalid)
    close_if_overtaken(broker, context, request)
    environment = broker.coordinators.group_environment

    def decide(machine: GroupMachine, token: Token, now_ms: int) -> Outcome:
        return machine.streams_heartbeat(token, request, client_of(context), now_ms)

    def with_topics(result: HeartbeatResult) -> StreamsGroupHeartbeatResponse:
        if result.missing:
            of_all = environment.config.streams_heartbeat_interval_ms
            interval_ms = environment.of_group(request.group_id, "streams.heartbeat.interval.ms", of_all)
            broker.coordinators.streams_topics.create(result.missing, result.response, remembered_ms=2 * interval_ms)
        return result.response

    return broker.coordinators.groups.ask(request.group_id, decide, refused=refused, transform=with_topics)


def refused(code: ErrorCode) -> StreamsGroupHeartbeatResponse:
    return refusal(code, None)


def _what_is_not_served(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Source: GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsUsingUnsupportedFeatures."""
    subtopologies = request.topology.subtopologies if request.topology is not None else ()
    checks = (
        (request.instance_id is not None, "Static membership is not yet supported."),
        (request.task_offsets is not None, "TaskOffsets are not supported yet."),
        (request.task_end_offsets is not None, "TaskEndOffsets are not supported yet."),
        (bool(request.warmup_tasks), "WarmupTasks are not supported yet."),
        (any(each.source_topic_regex for each in subtopologies), "Regular expressions for source topics are not supported yet."),
    )
    return next((message for is_asked, message in checks if is_asked), None)


def _what_is_wrong(request: StreamsGroupHeartbeatRequest) -> str | None:
    """Source: GroupCoordinatorService.throwIfStreamsGroupHeartbeatRequestIsInvalid."""
    is_joining = request.member_epoch == JOIN_EPOCH
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    checks = (
        (not request.member_id.strip(), "MemberId can't be empty."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        (request.rack_id is not None and not request.rack_id.strip(), "RackId can't be empty."),
        (is_joining and request.rebalance_timeout_ms == -1, "RebalanceTimeoutMs must be provided in first request."),
        (is_joining and bool(request.active_tasks), "ActiveTasks must be empty when (re-)joining."),
        (is_joining and bool(request.standby_tasks), "StandbyTasks must be empty when (re-)joining."),
        (is_joining and request.topology is None, "Topology must be non-null when (re-)joining."),
        (request.member_epoch == LEAVE_STATIC_EPOCH, "InstanceId can't be null."),
        (
            request.member_epoch < LEAVE_STATIC_EPOCH,
            f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to {LEAVE_STATIC_EPOCH}.",
        ),
        (
            any(role is not None for role in roles) and any(role is None for role in roles),
            "If one task-type is non-null, all must be non-null.",
        ),
        (not is_joining and request.topology is not None, "Topology can only be provided when (re-)joining."),
    )
    return next((message for is_wrong, message in checks if is_wrong), None)


def _what_is_wrong_with(topology: Topology) -> tuple[ErrorCode, str] | None:
    """Source: KafkaApis.handleStreamsGroupHeartbeat, GroupCoordinatorService.throwIfInvalidTopology."""
    if topology.epoch < 0:
        return ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH, "Topology epoch must be non-negative."
    topics = list(dict.fromkeys(_topics_of(topology)))
    changelogs = (topic for each in topology.subtopologies for topic in each.state_changelog_topics)
    internal = [name for name in topics if name in INTERNAL_TOPICS]
    invalid = [name for name in topics if invalid_topic_reason(name) is not None]
    if internal:
        message = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
    elif invalid:
        message = f"Topic names {','.join(invalid)} are not valid topic names."
    else:
        sized = next((topic for topic in changelogs if topic.partitions != 0), None)
        if sized is None:
            return None
        message = f"Changelog topic {sized.name} must have an undefined partition count, but it is set to {sized.partitions}."
    return ErrorCode.STREAMS_INVALID_TOPOLOGY, message


def _topics_of(topology: Topology) -> Iterator[str]:
    for subtopology in topology.subtopologies:
        yield from subtopology.source_topics
        yield from subtopology.repartition_sink_topics
        for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
            yield topic.name
