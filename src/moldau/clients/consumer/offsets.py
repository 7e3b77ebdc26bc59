"""● Reads and commits a group's offsets at its coordinator.

A member's commit is refused once the group has gone on without the member.  A commit without a member is refused while the group has
members.

Source: OffsetCommit, OffsetFetch; KIP-211, 447, 848.  Called by `consumer`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from moldau.clients.cluster import Cluster, Unreachable
from moldau.clients.coordinators import MOVED, Coordinators
from moldau.clients.errors import ClusterUnreachable, error_of
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from moldau.types import NO_OFFSET, TopicPartition

T = TypeVar("T")

NEWEST_BY_NAME: Final = 9
"""The newest version of OffsetFetch and OffsetCommit that names topics and does not need their ids."""
AGAIN: Final = MOVED | {ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_TOPIC_ID}


class Committed(NamedTuple):
    """The offset to read next, with the application's own text beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class Identity(NamedTuple):
    """The member that commits.  `epoch`: the generation, or the member's epoch."""

    member_id: str = ""
    epoch: int = -1
    group_instance_id: str | None = None
    is_of_consumer_protocol: bool = False


class Offsets:
    """The offsets of one group.  `identity` is called for each attempt, because a member's epoch moves on."""

    def __init__(
        self, cluster: Cluster, coordinators: Coordinators, group_id: str, identity: Callable[[], Identity], backoff_ms: int
    ) -> None:
        self._cluster = cluster
        self._coordinators = coordinators
        self._group_id = group_id
        self._identity = identity
        self._backoff_s = backoff_ms / 1000

    async def committed(self, partitions: Iterable[TopicPartition], *, within_ms: int) -> dict[TopicPartition, Committed]:
        """The committed offsets of the partitions that have one.  Waits for open transactions that may change one.  Errors: ClientError."""
        topics = _by_topic(partitions)
        if not topics:
            return {}

        async def attempt() -> dict[TopicPartition, Committed]:
            request = self._fetch_request(topics)
            response = await self._coordinators.ask(self._group_id, request, _group_error, max_version=NEWEST_BY_NAME)
            return _committed_of(response, self._group_id)

        return await self._until(attempt, within_ms)

    def _fetch_request(self, topics: Mapping[str, Sequence[int]]) -> OffsetFetchRequest:
        identity = self._identity()
        group = OffsetFetchRequestGroup(
            group_id=self._group_id,
            topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=list(indexes)) for topic, indexes in topics.items()],
        )
        if identity.is_of_consumer_protocol:
            group.member_id, group.member_epoch = identity.member_id, identity.epoch
        return OffsetFetchRequest(groups=[group], require_stable=True)

    async def commit(self, offsets: Mapping[TopicPartition, Committed], *, within_ms: int) -> None:
        """Commit offsets.

        Errors: ClientError; ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_… if the group has gone on without this member.
        """
        if not offsets:
            return
        began = self._identity()

        async def attempt() -> None:
            identity = self._identity()
            if began.member_id not in ("", identity.member_id):
                raise error_of(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self._group_id} threw the member out before it had committed")
            topics: dict[str, list[OffsetCommitRequestPartition]] = {}
            for (topic, partition), one in sorted(offsets.items()):
                topics.setdefault(topic, []).append(
                    OffsetCommitRequestPartition(
                        partition_index=partition,
                        committed_offset=one.offset,
                        committed_leader_epoch=one.leader_epoch,
                        committed_metadata=one.metadata,
                    )
                )
            request = OffsetCommitRequest(
                group_id=self._group_id,
                generation_id_or_member_epoch=identity.epoch,
                member_id=identity.member_id,
                group_instance_id=identity.group_instance_id,
                topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()],
            )
            response = await self._coordinators.ask(
                self._group_id,
                request,
                lambda answer: next((one.error_code for topic in answer.topics for one in topic.partitions if one.error_code), 0),
                max_version=NEWEST_BY_NAME,
            )
            for answered in response.topics:
                for each in answered.partitions:
                    code = ErrorCode.of(each.error_code)
                    if code is not ErrorCode.NONE:
                        raise error_of(code, f"offset of {answered.name}-{each.partition_index} in group {self._group_id}: {code.text}")

        await self._until(attempt, within_ms)

    async def _until(self, attempt: Callable[[], Awaitable[T]], within_ms: int) -> T:
        """Call `attempt` until it succeeds, fails for good, or time is up."""
        last: Exception | None = None
        try:
            async with asyncio.timeout(within_ms / 1000):
                while True:
                    try:
                        return await attempt()
                    except KafkaError as error:
                        if not error.code.retriable and error.code not in AGAIN:
                            raise
                        last = error
                    except (OSError, Unreachable) as error:
                        last = error
                    await asyncio.sleep(self._backoff_s)
        except TimeoutError:
            why = last or "no answer"
            raise ClusterUnreachable(f"the coordinator of group {self._group_id} does not answer within {within_ms} ms: {why}") from None


def _group_error(response: OffsetFetchResponse) -> int:
    return response.groups[0].error_code


def _committed_of(response: OffsetFetchResponse, group_id: str) -> dict[TopicPartition, Committed]:
    """The offsets of one answer.  Errors: ClientError, of the first partition or group that has one."""
    code = ErrorCode.of(_group_error(response))
    if code is not ErrorCode.NONE:
        raise error_of(code, f"group {group_id}: {code.text}")
    found = {}
    for topic in response.groups[0].topics:
        for one in topic.partitions:
            code = ErrorCode.of(one.error_code)
            if code is not ErrorCode.NONE:
                raise error_of(code, f"offset of {topic.name}-{one.partition_index} in group {group_id}: {code.text}")
            if one.committed_offset != NO_OFFSET:
                place = TopicPartition(topic.name, one.partition_index)
                found[place] = Committed(one.committed_offset, one.metadata or "", one.committed_leader_epoch)
    return found


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, []).append(index)
    return topics
