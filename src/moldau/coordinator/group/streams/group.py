"""◇ One streams group (KIP-1071): members bring the topology of their program, the coordinator shares out its tasks.

    topology ─▶ configured for the topics that exist ─▶ group epoch ─▶ target assignment ─▶ each member's current assignment
    brought by       `internal_topics`; what is        grows with members,    `assignors.sticky`     `reconciliation`
    the first        missing is created                topics, options
    member

An active task is given to a member only when no other holds it, so it has one owner in every epoch.  Every field that is not declared soft
is hard state, changed by `replay`.  A decision works on values of its own and leaves the group alone, but for its soft state.

Source: StreamsGroup, GroupMetadataManager.streamsGroupHeartbeat.  Called by `machine.GroupMachine`.
"""

from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar, Final, NamedTuple

from moldau.coordinator.group import sessions
from moldau.coordinator.group.assignors import sticky
from moldau.coordinator.group.environment import Client, Commit
from moldau.coordinator.group.heartbeat_group import HeartbeatGroup
from moldau.coordinator.group.membership import (
    JOIN_EPOCH,
    Refused,
    commit_error,
    fenced,
    fetch_error,
    hash_of,
    in_unknown_state,
    next_step,
)
from moldau.coordinator.group.streams import answers
from moldau.coordinator.group.streams import member as members_of
from moldau.coordinator.group.streams import records as stored
from moldau.coordinator.group.streams import topology as topologies
from moldau.coordinator.group.streams.internal_topics import ConfiguredTopology, InternalTopic, InvalidTopology, Problem, Status, configure
from moldau.coordinator.group.streams.member import Endpoint, Member, MemberState
from moldau.coordinator.group.streams.reconciliation import holders_of, reconcile
from moldau.coordinator.group.streams.tasks import TaskId, Tasks, read_tasks
from moldau.coordinator.group.streams.topology import Topology
from moldau.coordinator.hard_state import Soft
from moldau.coordinator.outcome import CoordinatorRecord, Outcome, Reply, Timer, Token
from moldau.errors import ErrorCode
from moldau.protocol.messages import streams_group_describe as described
from moldau.protocol.messages import streams_group_heartbeat as messages
from moldau.types import TopicPartition

NOT_VALIDATED: Final = -1
STANDBY_CONFIG: Final = "num.standby.replicas"


class GroupState(Enum):
    """The states of a group, named as Kafka's tools print them."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class HeartbeatResult(NamedTuple):
    """The answer, and the missing topics without which no task can be assigned: the shell creates them."""

    response: messages.StreamsGroupHeartbeatResponse
    missing: tuple[InternalTopic, ...] = ()


class _Target(NamedTuple):
    """A target assignment with its epoch.  `problem`: the reason why it is not that of the group's epoch."""

    epoch: int
    of_members: Mapping[str, Tasks]
    problem: Problem | None = None


@dataclass(slots=True)
class StreamsGroup(HeartbeatGroup[Member, Tasks, messages.StreamsGroupHeartbeatRequest]):
    """A heartbeat is answered with a `HeartbeatResult`.

    Errors of a heartbeat: INVALID_REQUEST, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_MAX_SIZE_REACHED, STREAMS_INVALID_TOPOLOGY.
    """

    validated_topology_epoch: int = NOT_VALIDATED
    assignment_configs: dict[str, str] = field(default_factory=dict)
    """The options of the last group epoch."""
    topology: Topology | None = None
    configured: Soft[ConfiguredTopology | None] = None
    configured_hash: Soft[int] = 0
    """The hash of the topics that `configured` was made for."""
    is_delayed: Soft[bool] = False
    """Whether the first assignment waits for more members."""
    endpoint_epoch: Soft[int] = 0
    """A number that grows whenever a member with an endpoint gets other tasks."""
    shutdown_requested_by: Soft[str | None] = None

    group_type: ClassVar[str] = "streams"
    protocol_type: ClassVar[str] = "streams"

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.target_epoch:
            return GroupState.ASSIGNING
        is_settled = all(each.is_settled_at(self.target_epoch) for each in self.members.values())
        return GroupState.STABLE if is_settled else GroupState.RECONCILING

    # -- the heartbeat --------------------------------------------------------------------------------------------------------

    def _report(self, token: Token, request: messages.StreamsGroupHeartbeatRequest, client: Client, now_ms: int) -> Outcome:
        outcome = Outcome()
        reported = _reported(request)
        before = self._find_member(request, reported)
        is_behind = request.member_epoch != before.epoch
        member = _updated(before, request, client)
        members = {**self.members, member.member_id: member}
        is_changed = before.member_id not in self.members or member.metadata() != before.metadata()
        if is_changed:
            outcome.records.append(members_of.metadata_record(self.group_id, member))
        topology = self._agreed_topology(request, outcome)
        configured, metadata_hash = self._configured_for(topology)
        if configured.is_ready and reported is not None:
            _check_tasks(configured, reported)
        epoch = self._next_group_epoch(configured, metadata_hash, outcome, is_changed=is_changed)
        self._maybe_delay_first_assignment(outcome, now_ms)
        target = self._assigned(epoch, members, configured, outcome, now_ms)
        own_target = target.of_members.get(member.member_id, Tasks())
        settled = next_step(
            member,
            request.member_epoch,
            reported,
            lambda said: reconcile(member, own_target, target.epoch, said, lambda: holders_of(members.values())),
        )
        if settled != member:
            outcome.records.append(members_of.assignment_record(self.group_id, settled))
        outcome.timers += self.member_timers(settled, now_ms, is_told_anew=is_behind)
        if request.shutdown_application and self.shutdown_requested_by is None:
            self.shutdown_requested_by = member.member_id
        problems = [self._staleness(member), target.problem, configured.problem, self._shutdown()]
        has_news = settled.held.ids() != before.held.ids()
        if (has_news or request.member_epoch == JOIN_EPOCH) and settled.endpoint is not None:
            self.endpoint_epoch += 1
        # A member that has to give tasks up is told in every answer until it has. A member that reports all its tasks is told its
        # assignment, unless that is about to change: the earlier answer may have been lost.
        has_to_give_up = settled.state is MemberState.UNREVOKED_TASKS
        tells_otherwise = reported is not None and reported != settled.held.ids() and epoch == target.epoch
        shows_tasks = is_behind or request.member_epoch == JOIN_EPOCH or has_news or has_to_give_up or tells_otherwise
        given = (settled.held | settled.pending_revocation if is_behind else settled.held) if shows_tasks else None
        response = answers.heartbeat(settled, problems, self._heartbeat_interval_ms(), given)
        response.endpoint_information_epoch = self.endpoint_epoch
        if request.endpoint_information_epoch != self.endpoint_epoch:
            everybody = {**self.members, settled.member_id: settled}
            response.partitions_by_user_endpoint = answers.endpoints(everybody.values(), configured, self.environment.topics)
        outcome.replies.append(Reply(token, HeartbeatResult(response, configured.missing)))
        return outcome

    def _find_member(self, request: messages.StreamsGroupHeartbeatRequest, reported: Tasks | None) -> Member:
        """The reporting member, new or known, checked against its epoch."""
        known, epoch = self.members.get(request.member_id), request.member_epoch
        if known is None:
            if epoch != JOIN_EPOCH:
                raise self.unknown_member(request.member_id)
            if len(self.members) >= self.environment.config.streams_max_size:
                raise Refused(
                    ErrorCode.GROUP_MAX_SIZE_REACHED,
                    f"The streams group has reached its maximum capacity of {self.environment.config.streams_max_size} members.",
                )
            return Member(request.member_id)
        # The answer with the newer epoch may have been lost: then the member still reports its former tasks, and none that it was not
        # given.
        is_lost_answer = epoch == known.previous_epoch and reported is not None and known.held.has_all_of(reported)
        if epoch not in (known.epoch, JOIN_EPOCH) and not is_lost_answer:
            raise fenced("streams", epoch, known.epoch)
        if known.state is not MemberState.UNKNOWN:
            return known
        if epoch != JOIN_EPOCH:
            raise in_unknown_state("streams", "tasks")
        return known.without_assignment()

    def _staleness(self, member: Member) -> Problem | None:
        if self.topology is None or member.topology_epoch >= self.topology.epoch:
            return None
        detail = f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch {self.topology.epoch}."
        return Problem(Status.STALE_TOPOLOGY, detail)

    def _shutdown(self) -> Problem | None:
        if self.shutdown_requested_by is None:
            return None
        return Problem(
            Status.SHUTDOWN_APPLICATION,
            f"Streams group member {self.shutdown_requested_by} encountered a fatal error and requested a shutdown for the entire "
            "application.",
        )

    # -- topology -------------------------------------------------------------------------------------------------------------

    def _agreed_topology(self, request: messages.StreamsGroupHeartbeatRequest, outcome: Outcome) -> Topology:
        """The group's topology, or the first that a member brings.  A member with an older one may stay, and is told so."""
        if request.topology is None:
            if self.topology is None:
                raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "The topology is null and the group topology is also null.")
            return self.topology
        brought = topologies.of_request(request.topology)
        if self.topology is None:
            if len(brought.subtopologies) != len(request.topology.subtopologies):
                raise InvalidTopology("Two subtopologies have the same id.")
            key = stored.StreamsGroupTopologyKey(group_id=self.group_id)
            outcome.records.append(CoordinatorRecord(key, brought.record()))
            return brought
        if self.topology.epoch <= brought.epoch and self.topology != brought:
            raise Refused(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return self.topology

    def _configured_for(self, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """The configured topology, with the hash of its topics."""
        topics = self.environment.topics
        if self.configured is None or self.topics_version != topics.version:
            required = sorted(topology.required_topics())
            metadata_hash = hash_of(topic for name in required if (topic := topics.by_name(name)) is not None)
            if self.configured is None or metadata_hash != self.configured_hash:
                self.configured = configure(topology, topics)
                self.configured_hash = metadata_hash
            self.topics_version = topics.version
        return self.configured, self.configured_hash

    # -- group epoch and target assignment ------------------------------------------------------------------------------------

    def _next_group_epoch(self, configured: ConfiguredTopology, metadata_hash: int, outcome: Outcome, *, is_changed: bool) -> int:
        """The group epoch, raised by one if members, their topics, or the options of assignments changed."""
        validated_epoch = configured.epoch if configured.is_ready else NOT_VALIDATED
        configs = {STANDBY_CONFIG: str(self._standby_count())}
        is_changed = is_changed or metadata_hash != self.metadata_hash or validated_epoch != self.validated_topology_epoch
        if not is_changed and configs == self.assignment_configs:
            return self.epoch
        outcome.records.append(self._epoch_record(self.epoch + 1, metadata_hash, validated_epoch, configs))
        return self.epoch + 1

    def _maybe_delay_first_assignment(self, outcome: Outcome, now_ms: int) -> None:
        of_all = self.environment.config.streams_initial_rebalance_delay_ms
        delay_ms = self.environment.of_group(self.group_id, "streams.initial.rebalance.delay.ms", of_all)
        if self.members or self.is_delayed or delay_ms == 0:
            return
        self.is_delayed = True
        outcome.timers.append(Timer(("first-assignment", self.group_id), now_ms + delay_ms, self._delay_is_over))

    def _delay_is_over(self, now_ms: int) -> Outcome:
        self.is_delayed = False
        outcome = Outcome()
        if self.members and self.configured is not None:
            self._assigned(self.epoch, self.members, self.configured, outcome, now_ms)
        return outcome

    def _assigned(
        self, epoch: int, members: Mapping[str, Member], configured: ConfiguredTopology, outcome: Outcome, now_ms: int
    ) -> _Target:
        """A new target if the group epoch is ahead of it, at most once per interval; otherwise the present one."""
        if self.is_delayed:
            problem = Problem(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured initial rebalance delay.")
            return _Target(self.target_epoch, {}, problem)
        if epoch <= self.target_epoch:
            return _Target(self.target_epoch, self.target)
        if not self.is_target_due(epoch, now_ms):
            problem = Problem(Status.ASSIGNMENT_DELAYED, "Assignment delayed due to the configured assignment interval.")
            return _Target(self.target_epoch, self.target, problem)
        target = self._compute(members, configured)
        outcome.records += self._target_records(self.target, target, epoch, now_ms)
        return _Target(epoch, target)

    def _assignment_interval_ms(self) -> int:
        of_all = self.environment.config.streams_assignment_interval_ms
        return self.environment.of_group(self.group_id, "streams.assignment.interval.ms", of_all)

    def _target_record(self, member_id: str, target: Tasks) -> CoordinatorRecord:
        return members_of.target_record(self.group_id, member_id, target)

    def _target_epoch_record(self, epoch: int, now_ms: int) -> CoordinatorRecord:
        value = stored.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=now_ms)
        return CoordinatorRecord(stored.StreamsGroupTargetAssignmentMetadataKey(group_id=self.group_id), value)

    def _compute(self, members: Mapping[str, Member], configured: ConfiguredTopology) -> dict[str, Tasks]:
        if not configured.is_ready:
            return {member_id: Tasks() for member_id in members}
        return sticky.assign(
            {key: sticky.TaskMember(member.process_id, self.target.get(key, Tasks())) for key, member in members.items()},
            {key: sticky.TaskSource(each.task_count, each.is_stateful) for key, each in configured.subtopologies.items()},
            self._standby_count(),
        )

    # -- leaving --------------------------------------------------------------------------------------------------------------

    def _leave(self, token: Token, request: messages.StreamsGroupHeartbeatRequest, now_ms: int) -> Outcome:
        if request.shutdown_application and self.shutdown_requested_by is None:
            self.shutdown_requested_by = request.member_id
        if request.member_id not in self.members:
            raise self.unknown_member(request.member_id)
        outcome = self.fence(request.member_id, now_ms)
        outcome.replies.append(Reply(token, HeartbeatResult(answers.left(request.member_id, request.member_epoch))))
        return outcome

    def _refusal(self, code: ErrorCode, message: str) -> HeartbeatResult:
        return HeartbeatResult(answers.refusal(code, message))

    def fence(self, member_id: str, now_ms: int) -> Outcome:
        if member_id not in self.members:
            return Outcome()
        records = members_of.removal(self.group_id, member_id)
        records.append(self._epoch_record(self.epoch + 1, self.metadata_hash, self.validated_topology_epoch, self.assignment_configs))
        return Outcome(records, timers=sessions.cancelled(self, member_id))

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that forget an empty group."""
        assert not self.members, "members are removed one by one"
        return [
            CoordinatorRecord(stored.StreamsGroupTargetAssignmentMetadataKey(group_id=self.group_id), None),
            CoordinatorRecord(stored.StreamsGroupMetadataKey(group_id=self.group_id), None),
            CoordinatorRecord(stored.StreamsGroupTopologyKey(group_id=self.group_id), None),
        ]

    # -- offsets --------------------------------------------------------------------------------------------------------------

    def validate_commit(self, commit: Commit) -> ErrorCode:
        """Check whether a commit is allowed.  Errors: those of `commit_error`."""
        return commit_error(commit, self.members, self._given_at)

    def _given_at(self, member: Member, partition: TopicPartition) -> int | None:
        """The epoch at which the member got the task that reads the partition."""
        topic, index = partition
        subtopology_id = self.topology.readers.get(topic) if self.topology is not None else None
        if subtopology_id is None:
            return None
        task = TaskId(subtopology_id, index)
        return member.held.active.get(task, member.pending_revocation.active.get(task))

    def validate_fetch(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Check whether a fetch is allowed.  Errors: those of `fetch_error`."""
        return fetch_error(self.members, member_id, member_epoch)

    def subscribed_topics(self) -> Set[str]:
        return self.topology.readers.keys() if self.members and self.topology is not None else frozenset()

    # -- hard state -----------------------------------------------------------------------------------------------------------

    def replay(self, key: Any, value: Any) -> None:
        """Replay one of the records of a streams group."""
        match key:
            case stored.StreamsGroupMetadataKey():
                assert isinstance(value, stored.StreamsGroupMetadataValue)
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
                self.validated_topology_epoch = value.validated_topology_epoch
                self.assignment_configs = {each.key: each.value for each in value.last_assignment_configs or ()}
            case stored.StreamsGroupTopologyKey():
                self.topology = topologies.of_record(value) if isinstance(value, stored.StreamsGroupTopologyValue) else None
            case stored.StreamsGroupMemberMetadataKey():
                self._replay_member(key.member_id, value)
            case stored.StreamsGroupTargetAssignmentMetadataKey():
                self._replay_target_epoch(value)
            case stored.StreamsGroupTargetAssignmentMemberKey():
                if isinstance(value, stored.StreamsGroupTargetAssignmentMemberValue):
                    self.target[key.member_id] = members_of.read_target(value)
                else:
                    self.target.pop(key.member_id, None)
            case stored.StreamsGroupCurrentMemberAssignmentKey():
                self._replay_current(key.member_id, value)
            case _:
                raise AssertionError(f"{type(key).__name__} is not part of a streams group")

    def _replay_member(self, member_id: str, value: object) -> None:
        if isinstance(value, stored.StreamsGroupMemberMetadataValue):
            self.members[member_id] = (self.members.get(member_id) or Member(member_id)).with_metadata(value)
            return
        self.members.pop(member_id, None)
        if not self.members:
            self.shutdown_requested_by = None

    def _replay_current(self, member_id: str, value: object) -> None:
        member = self.members.get(member_id)
        if isinstance(value, stored.StreamsGroupCurrentMemberAssignmentValue):
            self.members[member_id] = (member or Member(member_id)).with_assignment(value)
        elif member is not None:
            self.members[member_id] = member.without_assignment()

    def _epoch_record(self, epoch: int, metadata_hash: int, validated_epoch: int, configs: Mapping[str, str]) -> CoordinatorRecord:
        value = stored.StreamsGroupMetadataValue(
            epoch=epoch,
            metadata_hash=metadata_hash,
            validated_topology_epoch=validated_epoch,
            last_assignment_configs=[stored.LastAssignmentConfig(key=key, value=text) for key, text in sorted(configs.items())],
        )
        return CoordinatorRecord(stored.StreamsGroupMetadataKey(group_id=self.group_id), value)

    def describe(self) -> described.DescribedGroup:
        configured = None
        if self.topology is not None:
            # Perhaps no member has reported yet since this node coordinates the group.
            with suppress(InvalidTopology):
                configured, _ = self._configured_for(self.topology)
        return described.DescribedGroup(
            group_id=self.group_id,
            group_state=self.state.value,
            group_epoch=self.epoch,
            assignment_epoch=self.target_epoch,
            topology=answers.described_topology(self.topology, configured),
            members=[answers.described_member(each, self.target.get(each.member_id, Tasks())) for each in self.members.values()],
        )

    # -- timers and options ---------------------------------------------------------------------------------------------------

    def member_timers(self, member: Member, now_ms: int, *, is_told_anew: bool = False) -> list[Timer]:
        """The member's timers.

        `is_told_anew`: a member that has to give tasks up has its whole rebalance timeout for that, from now on.
        """
        of_all = self.environment.config.streams_session_timeout_ms
        session_ms = self.environment.of_group(self.group_id, "streams.session.timeout.ms", of_all)
        due_ms = now_ms + member.rebalance_timeout_ms
        return [
            sessions.session_timer(self, member.member_id, now_ms + session_ms),
            *sessions.revoking_timers(self, member, due_ms, is_told_anew=is_told_anew),
        ]

    def _heartbeat_interval_ms(self) -> int:
        of_all = self.environment.config.streams_heartbeat_interval_ms
        return self.environment.of_group(self.group_id, "streams.heartbeat.interval.ms", of_all)

    def _standby_count(self) -> int:
        of_all = self.environment.config.streams_standby_count
        return self.environment.of_group(self.group_id, "streams.num.standby.replicas", of_all)


def _reported(request: messages.StreamsGroupHeartbeatRequest) -> Tasks | None:
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Tasks(read_tasks(request.active_tasks), read_tasks(request.standby_tasks), read_tasks(request.warmup_tasks))


def _updated(member: Member, request: messages.StreamsGroupHeartbeatRequest, client: Client) -> Member:
    """The member after the heartbeat.  A field left out of it keeps its value."""
    endpoint, tags = request.user_endpoint, request.client_tags
    return replace(
        member,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        client_id=client.client_id,
        client_host=client.client_host,
        rebalance_timeout_ms=request.rebalance_timeout_ms if request.rebalance_timeout_ms != -1 else member.rebalance_timeout_ms,
        topology_epoch=request.topology.epoch if request.topology is not None else member.topology_epoch,
        process_id=request.process_id if request.process_id is not None else member.process_id,
        endpoint=Endpoint(endpoint.host, endpoint.port) if endpoint is not None else member.endpoint,
        client_tags=tuple(sorted((each.key, each.value) for each in tags)) if tags is not None else member.client_tags,
    )


def _check_tasks(configured: ConfiguredTopology, reported: Tasks) -> None:
    for task in sorted(reported.active | reported.standby | reported.warmup):
        subtopology = configured.subtopologies.get(task.subtopology_id)
        if subtopology is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Subtopology {task.subtopology_id} does not exist in the topology.")
        if not 0 <= task.partition < subtopology.task_count:
            raise Refused(
                ErrorCode.INVALID_REQUEST,
                f"Task {task.partition} for subtopology {task.subtopology_id} is invalid. Number of tasks for this subtopology: "
                f"{subtopology.task_count}",
            )
