"""◇ The forms in which older brokers know some requests: a client writes the newest form, and `Cluster.send` fits it to the broker.

A request about several things becomes a request about one, and its answer the answer about several.  A request that an older form cannot
carry stays as it is, and the encoder names the field and the version.

Source: CreateTopicsRequest.Builder, FindCoordinatorRequest.Builder, OffsetFetchRequest.Builder, LeaveGroupRequest.Builder,
DeleteTopicsRequest.Builder; KIP-345, 464, 516, 699, 709.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, Final, NamedTuple, TypeVar

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.create_topics import CreateTopicsRequest
from moldau.protocol.messages.delete_topics import DeleteTopicsRequest
from moldau.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from moldau.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from moldau.protocol.wire import Request, Response

R = TypeVar("R", bound=Response)
M = TypeVar("M")

UNSET: Final = -1
STABLE_OFFSETS: Final = 7
"""The oldest version of OffsetFetch that waits for open transactions (KIP-447).  Older brokers answer with the committed offsets alone."""


class Older(NamedTuple):
    """`before`: the version from which on the broker knows the newest form."""

    before: int
    request: Callable[[Any, int], Any]
    answer: Callable[[Any, Any], Any]


def fitted(request: Request[R], version: int) -> Request[R]:
    """The request in the form that `version` knows.  Errors: KafkaError UNSUPPORTED_VERSION."""
    older = OLDER.get(type(request))
    return request if older is None or version >= older.before else older.request(request, version)


def in_newest_form(request: Request[R], version: int, answer: R) -> R:
    """The answer in the form that answers `request` where `version` is new enough."""
    older = OLDER.get(type(request))
    return answer if older is None or version >= older.before else older.answer(request, answer)


def changed(message: M, **fields: object) -> M:
    """A copy of the message with other values in some fields."""
    found = copy(message)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def _as_it_is(request: Request[R], answer: R) -> R:
    return answer


def _one_coordinator(request: FindCoordinatorRequest, version: int) -> FindCoordinatorRequest:
    if len(request.coordinator_keys) != 1:
        return request
    return changed(request, key=request.coordinator_keys[0], coordinator_keys=[])


def _coordinators(request: FindCoordinatorRequest, answer: FindCoordinatorResponse) -> FindCoordinatorResponse:
    one = Coordinator(
        key=request.coordinator_keys[0],
        node_id=answer.node_id,
        host=answer.host,
        port=answer.port,
        error_code=answer.error_code,
        error_message=answer.error_message,
    )
    return changed(answer, coordinators=[one])


def _one_group(request: OffsetFetchRequest, version: int) -> OffsetFetchRequest:
    if len(request.groups) != 1:
        return request
    (group,) = request.groups
    topics = None
    if group.topics is not None:
        topics = [OffsetFetchRequestTopic(name=topic.name, partition_indexes=topic.partition_indexes) for topic in group.topics]
    is_stable = request.require_stable and version >= STABLE_OFFSETS
    return changed(request, group_id=group.group_id, topics=topics, groups=[], require_stable=is_stable)


def _groups(request: OffsetFetchRequest, answer: OffsetFetchResponse) -> OffsetFetchResponse:
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartitions(
                    partition_index=one.partition_index,
                    committed_offset=one.committed_offset,
                    committed_leader_epoch=one.committed_leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
                for one in topic.partitions
            ],
        )
        for topic in answer.topics
    ]
    group = OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=topics, error_code=answer.error_code)
    return changed(answer, groups=[group])


def _one_member(request: LeaveGroupRequest, version: int) -> LeaveGroupRequest:
    if len(request.members) != 1 or request.members[0].group_instance_id is not None:
        return request
    return changed(request, member_id=request.members[0].member_id, members=[])


def _members(request: LeaveGroupRequest, answer: LeaveGroupResponse) -> LeaveGroupResponse:
    return changed(answer, members=[MemberResponse(member_id=request.members[0].member_id, group_instance_id=None)])


def _by_name(request: DeleteTopicsRequest, version: int) -> DeleteTopicsRequest:
    return request if any(topic.name is None for topic in request.topics) else changed(request, topics=[])


def _with_counts(request: CreateTopicsRequest, version: int) -> CreateTopicsRequest:
    for topic in request.topics:
        if not topic.assignments and UNSET in (topic.num_partitions, topic.replication_factor):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"version {version} of CreateTopicsRequest, the newest that this broker serves, cannot ask for the broker's defaults: "
                f"give topic {topic.name} a number of partitions and a replication factor",
            )
    return request


OLDER: Final[dict[type, Older]] = {
    FindCoordinatorRequest: Older(4, _one_coordinator, _coordinators),
    OffsetFetchRequest: Older(8, _one_group, _groups),
    LeaveGroupRequest: Older(3, _one_member, _members),
    CreateTopicsRequest: Older(4, _with_counts, _as_it_is),
    DeleteTopicsRequest: Older(6, _by_name, _as_it_is),
}
