"""● Acknowledgements of a share group's member, alone or with its fetch: decided in order at once, answered when they are written.

Source: KafkaApis.handleAcknowledgements, validateAcknowledgementBatches.
Called by `handlers/share_fetch.py` and `handlers/share_acknowledge.py`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.replication.share.decision import AcknowledgedRange, Refusal
from moldau.replication.share.in_flight import AcknowledgeType
from moldau.server.requests.broker import Broker
from moldau.server.share.sessions import MemberKey, SharedKey

RENEW_VERSION: Final = 2
"""The version of both requests from which on locks can be renewed (KIP-1222)."""
NO_ERROR: Final = Refusal(ErrorCode.NONE, "")
LONGEST_MEMBER_ID: Final = 36
"""Characters: as many as a UUID is written with."""


class AskedBatch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


class AskedPartition(Protocol):
    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[AskedBatch]: ...


class AskedTopic(Protocol):
    topic_id: UUID

    @property
    def partitions(self) -> Sequence[AskedPartition]: ...


class Acknowledging:
    """The outcome of each partition's acknowledgements; `then` calls back when all is known.

    After that it drops the callback: the two refer to each other, and would keep a request's records until the garbage collector runs.
    """

    def __init__(self) -> None:
        self.results: dict[SharedKey, Refusal] = {}
        self._open = 0
        self._on_done: Callable[[], None] | None = None

    def then(self, on_done: Callable[[], None]) -> None:
        """Call `on_done` when all is known, at once if there is nothing to wait for."""
        if self._open:
            self._on_done = on_done
        else:
            on_done()

    def await_writing(self, key: SharedKey, writing: "asyncio.Task[Refusal | None]") -> None:
        self._open += 1

        def written(task: "asyncio.Task[Refusal | None]") -> None:
            failed = Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNKNOWN_SERVER_ERROR.text)
            self.results[key] = failed if task.cancelled() or task.exception() is not None else task.result() or NO_ERROR
            self._open -= 1
            if not self._open and self._on_done is not None:
                on_done, self._on_done = self._on_done, None
                on_done()

        writing.add_done_callback(written)


def acknowledge(broker: Broker, member: MemberKey, topics: Iterable[AskedTopic], *, version: int, is_renewing: bool) -> Acknowledging:
    """Take acknowledgements.

    Errors, by partition: UNKNOWN_TOPIC_ID, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, INVALID_RECORD_STATE, and those of writing.
    """
    acknowledging = Acknowledging()
    for topic in topics:
        name = broker.cluster.topic_name(topic.topic_id)
        for asked in topic.partitions:
            key = SharedKey(topic.topic_id, asked.partition_index)
            refusal = _refusal(broker, name, asked, version=version, is_renewing=is_renewing)
            if refusal is not None:
                acknowledging.results[key] = Refusal(refusal, "")
            elif asked.acknowledgement_batches:
                _acknowledge_partition(broker, member, key, name or "", asked, acknowledging)
    return acknowledging


def _acknowledge_partition(
    broker: Broker, member: MemberKey, key: SharedKey, topic: str, asked: AskedPartition, acknowledging: Acknowledging
) -> None:
    held = broker.shares.find(member.group_id, topic, key.partition)
    if held is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        acknowledging.results[key] = Refusal(code, code.text)
        return
    ranges = [AcknowledgedRange(one.first_offset, one.last_offset, one.acknowledge_types) for one in asked.acknowledgement_batches]
    decided = broker.shares.acknowledge(held, member.member_id, ranges)
    if isinstance(decided, asyncio.Task):
        acknowledging.await_writing(key, decided)
    else:
        acknowledging.results[key] = decided or NO_ERROR


def _refusal(broker: Broker, topic: str | None, asked: AskedPartition, *, version: int, is_renewing: bool) -> ErrorCode | None:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    greatest = AcknowledgeType.RENEW if version >= RENEW_VERSION else AcknowledgeType.REJECT
    previous_last = -1
    for one in asked.acknowledgement_batches:
        types = one.acknowledge_types
        if (
            not previous_last <= one.first_offset <= one.last_offset
            or not types
            or (len(types) > 1 and one.last_offset - one.first_offset != len(types) - 1)
            or not 0 <= min(types) <= max(types) <= greatest
            or (AcknowledgeType.RENEW in types and not is_renewing)
        ):
            return ErrorCode.INVALID_REQUEST
        previous_last = one.last_offset
    return None if broker.cluster.has_partition(topic, asked.partition_index) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def is_valid_member(member_id: str | None) -> bool:
    return member_id is not None and 0 < len(member_id) <= LONGEST_MEMBER_ID


def release_session(broker: Broker, key: MemberKey, owner: object = None) -> None:
    """Release the records of a member that fetches no more.  With `owner`, only if the session still belongs to that connection."""
    session = broker.share_sessions.get(key)
    if session is not None and (owner is None or session.owner is owner):
        broker.shares.release(key.group_id, key.member_id)
        broker.share_sessions.end(session)
