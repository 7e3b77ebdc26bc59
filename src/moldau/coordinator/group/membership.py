"""◇ What the group protocols with heartbeats have in common: member epochs, refusals, what a group's topics look like.

Source: KIP-848, 932, 1071.  Used by `consumer`, `share` and `streams`.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final
from uuid import UUID

from moldau.coordinator.group.assignors.model import TopicIdPartition, TopicView
from moldau.coordinator.group.environment import Commit
from moldau.errors import ErrorCode

LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""Epoch of a static member that is away and keeps its partitions for its successor."""
JOIN_EPOCH: Final = 0
NO_EPOCH: Final = -1
FIRST_GROUP_EPOCH: Final = 1
FENCING_VERSION: Final = 9
"""First OffsetCommit version whose clients know member epochs."""


class Refused(Exception):
    """Leaves the checks of one heartbeat; caught where the heartbeat is answered."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def names_no_member(commit: Commit) -> bool:
    """Within a transaction, with the group's name alone: the transaction itself fences."""
    names_nobody = not commit.member_id and commit.group_instance_id is None and commit.generation_id_or_member_epoch == NO_EPOCH
    return commit.is_transactional and names_nobody


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    grouped: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        grouped.setdefault(topic_id, []).append(partition)
    return grouped


def hash_of(topics: Iterable[TopicView]) -> int:
    """Changes when a topic comes, goes, grows or moves to other racks; 0 only without topics."""
    digest = blake2b(digest_size=8)
    is_empty = True
    for topic in topics:
        is_empty = False
        racks = ";".join(",".join(sorted(each)) for each in topic.racks)
        digest.update(f"{topic.name}\0{topic.topic_id}\0{topic.partition_count}\0{racks}\0".encode())
    return 0 if is_empty else int.from_bytes(digest.digest(), "big", signed=True)
