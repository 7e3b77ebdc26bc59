"""◇ The common parts of the group protocols with heartbeats: member epochs, refusals, the hash of a group's topics.

Source: KIP-848, 932, 1071.  Used by `consumer`, `share` and `streams`.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Final, Protocol, TypeVar
from uuid import UUID

from moldau.coordinator.group.assignors.model import TopicIdPartition, TopicView
from moldau.coordinator.group.environment import Commit
from moldau.errors import ErrorCode
from moldau.types import NO_EPOCH, TopicPartition

LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""The epoch of a static member that is away and keeps its partitions for its successor."""
JOIN_EPOCH: Final = 0
FIRST_GROUP_EPOCH: Final = 1
FENCING_VERSION: Final = 9
"""The first OffsetCommit version whose clients know member epochs."""


class Refused(Exception):
    """Leaves the checks of one heartbeat; it is caught where the heartbeat is answered."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def fenced(kind: str, epoch: int, known: int) -> Refused:
    """The refusal of a member that reports an `epoch` that is neither its own nor the one before, in Kafka's words."""
    how = "greater" if epoch > known else "smaller"
    return Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The {kind} group member has a {how} member epoch ({epoch}) than the one known by the group coordinator ({known}). "
        "The member must abandon all its partitions and rejoin.",
    )


def in_unknown_state(kind: str, what: str) -> Refused:
    """The refusal of a member in an unknown state, in Kafka's words.  `what` it holds: partitions or tasks."""
    message = f"The {kind} group member is in a unknown state. The member must abandon all its {what} and rejoin."
    return Refused(ErrorCode.FENCED_MEMBER_EPOCH, message)


class HasEpoch(Protocol):
    """A member of a group with heartbeats."""

    @property
    def epoch(self) -> int: ...


class Reconciled(HasEpoch, Protocol):
    """A member that gives partitions or tasks up before it takes others."""

    @property
    def pending_revocation(self) -> object: ...


M = TypeVar("M", bound=HasEpoch)
ReconciledT = TypeVar("ReconciledT", bound=Reconciled)
R = TypeVar("R")


def commit_error(
    commit: Commit,
    members: Mapping[str, M],
    given_at: Callable[[M, TopicPartition], int | None],
    *,
    is_classic: Callable[[M], bool] = lambda _: False,
) -> ErrorCode:
    """A member may be behind the epoch it has been given by now, with what it had then already (KIP-1251).

    `given_at` tells at which epoch a member was given what it holds of a partition, or is just giving up; None when it does neither.
    Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, UNSUPPORTED_VERSION; ILLEGAL_GENERATION within a transaction, and to classic clients.
    """
    epoch = commit.generation_id_or_member_epoch
    if (epoch < 0 and not members) or names_no_member(commit):
        return ErrorCode.NONE
    member = members.get(commit.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    # Classic clients, and those that commit within a transaction, do not know member epochs.
    has_no_epochs = commit.is_transactional or is_classic(member)
    if not has_no_epochs and commit.api_version < FENCING_VERSION:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    if epoch < member.epoch:
        given = [given_at(member, partition) for partition in commit.partitions]
        if all(since is not None and epoch >= since for since in given):
            return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if has_no_epochs else ErrorCode.STALE_MEMBER_EPOCH


def fetch_error(members: Mapping[str, M], member_id: str | None, member_epoch: int) -> ErrorCode:
    """The error of a fetch of offsets.  Without a member it is an administrator's.  Errors: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH."""
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    member = members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def names_no_member(commit: Commit) -> bool:
    """Whether a commit within a transaction names the group alone: then the transaction itself fences."""
    names_nobody = not commit.member_id and commit.group_instance_id is None and commit.generation_id_or_member_epoch == NO_EPOCH
    return commit.is_transactional and names_nobody


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    """Partitions by topic, in order."""
    grouped: dict[UUID, list[int]] = {}
    for topic_id, partition in partitions:
        grouped.setdefault(topic_id, []).append(partition)
    # Partitions are sorted by number, apart from topics: comparing two UUIDs costs many times as much.
    return {topic_id: sorted(grouped[topic_id]) for topic_id in sorted(grouped, key=lambda each: each.int)}


def next_step(member: ReconciledT, epoch: int, reported: R | None, reconcile: Callable[[R | None], ReconciledT]) -> ReconciledT:
    """A member's step at a report with `epoch`.  `reconcile` uses the reported partitions, or none.

    A report with another epoch than the member's may be late, or from a member that missed its last answer.  Its partitions then do not
    count, and none is taken back: the answer has its epoch and assignment, from which it goes on.
    """
    if epoch == member.epoch:
        return reconcile(reported)
    if epoch == JOIN_EPOCH:
        # A member in an unknown state begins again at once, so that it need not report twice.
        settled = reconcile(None)
        if not settled.pending_revocation:
            return settled
    return member


def hash_of(topics: Iterable[TopicView]) -> int:
    """A hash that changes when a topic comes, goes, grows or moves to other racks; 0 only without topics."""
    digest = blake2b(digest_size=8)
    is_empty = True
    for topic in topics:
        is_empty = False
        racks = ";".join(",".join(sorted(each)) for each in topic.racks)
        digest.update(f"{topic.name}\0{topic.topic_id}\0{topic.partition_count}\0{racks}\0".encode())
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)
