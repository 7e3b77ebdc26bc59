"""● A member of a share group that a test drives, one request at a time, against Apache Kafka or us.

    member = ShareMember(("127.0.0.1", 9092), "g", "orders")
    member.join()
    for record in member.poll(wait_ms=500):
        member.acknowledge(record, AcknowledgeType.ACCEPT)
    member.commit()                     # or the next poll takes the acknowledgements along
    member.leave()

The member survives a broker that is killed: it asks anew, joins anew and begins a new share session.  A request without an answer does not
count as done.
"""

import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from moldau.errors import ErrorCode
from moldau.protocol.messages import share_acknowledge as ack
from moldau.protocol.messages import share_fetch as fetch
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from moldau.protocol.records.batch import batches, records_of
from moldau.replication.share.in_flight import AcknowledgeType
from proof.kafka.differential import Address, NoAnswer, RawClient

WITHIN_S: Final = 60.0
PAUSE_S: Final = 0.05
GROUP_RESOURCE: Final = 32
SET: Final = 0
LEAVE_EPOCH: Final = -1


class Delivered(NamedTuple):
    topic_id: UUID
    partition: int
    offset: int
    delivery_count: int
    value: bytes | None


class ShareMember:
    """See the module."""

    def __init__(self, address: Address, group_id: str, topic: str, *, is_record_limit: bool = False) -> None:
        self.group_id: Final = group_id
        self.topic: Final = topic
        self.member_id = str(uuid4())
        self.accepted: set[tuple[int, int]] = set()
        """(partition, offset) of records whose acceptance the broker has confirmed."""
        self.lock_ms = 0
        self._client: Final = RawClient(address)
        self._is_record_limit: Final = is_record_limit
        self._member_epoch = 0
        self._session_epoch = 0
        self._assigned: dict[UUID, list[int]] = {}
        self._said: dict[tuple[UUID, int], dict[int, AcknowledgeType]] = {}
        self._heard_at_s = 0.0

    # Membership

    def join(self, *, partition_count: int = 1) -> None:
        """Join the group, and wait until the member has so many partitions."""
        deadline = time.monotonic() + WITHIN_S
        while sum(map(len, self._assigned.values())) < partition_count:
            assert time.monotonic() < deadline, f"{self.member_id} has {self._assigned} after {WITHIN_S:.0f} s"
            self.heartbeat()
            time.sleep(PAUSE_S)

    def heartbeat(self) -> None:
        answer = self._client.ask(
            ShareGroupHeartbeatRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                member_epoch=self._member_epoch,
                subscribed_topic_names=[self.topic] if self._member_epoch == 0 else None,
            ),
            1,
        )
        if not isinstance(answer, ShareGroupHeartbeatResponse):
            return
        self._heard_at_s = time.monotonic()
        if answer.error_code == ErrorCode.NOT_COORDINATOR:  # asking for the coordinator creates its topic
            self._client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id]), 4)
        if answer.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            self._member_epoch = 0
        elif not answer.error_code:
            self._member_epoch = answer.member_epoch
            if answer.assignment is not None:
                self._assigned = {one.topic_id: list(one.partitions) for one in answer.assignment.topic_partitions}

    def leave(self) -> None:
        self.commit(is_last=True)
        self._client.ask(
            ShareGroupHeartbeatRequest(
                group_id=self.group_id, member_id=self.member_id, member_epoch=LEAVE_EPOCH, subscribed_topic_names=None
            ),
            1,
        )
        self.close()

    def close(self) -> None:
        """Close the connection as if the member had died."""
        self._client.close()
        self._session_epoch = 0

    # Records

    def poll(self, *, wait_ms: int = 500, max_records: int = 500) -> list[Delivered]:
        """Fetch records, and send acknowledgements along.  Returns nothing if the broker does not answer or has no records."""
        if time.monotonic() - self._heard_at_s > 1:
            self.heartbeat()
        topics, said = [], self._take_said() if self._session_epoch else {}
        for topic_id, indexes in self._assigned.items():
            topics.append(
                fetch.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        fetch.FetchPartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                fetch.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[int(kind)])
                                for offset, kind in sorted(said.get((topic_id, index), {}).items())
                            ],
                        )
                        for index in indexes
                    ],
                )
            )
        answer = self._client.ask(
            fetch.ShareFetchRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                share_session_epoch=self._session_epoch,
                max_wait_ms=wait_ms,
                min_bytes=1,
                max_bytes=1 << 24,
                max_records=max_records,
                batch_size=max_records,
                share_acquire_mode=int(self._is_record_limit),
                topics=topics,
                forgotten_topics_data=[],
            ),
            2,
        )
        if not isinstance(answer, fetch.ShareFetchResponse) or answer.error_code:
            self._begin_anew(answer)
            return []
        self._session_epoch += 1
        self.lock_ms = answer.acquisition_lock_timeout_ms
        found: list[Delivered] = []
        for topic in answer.responses:
            for one in topic.partitions:
                if not one.acknowledge_error_code:
                    self._confirm(one.partition_index, said.get((topic.topic_id, one.partition_index), {}))
                found += _delivered(topic.topic_id, one)
        return found

    def acknowledge(self, record: Delivered, kind: AcknowledgeType) -> None:
        self._said.setdefault((record.topic_id, record.partition), {})[record.offset] = kind

    def commit(self, *, is_last: bool = False) -> list[ErrorCode]:
        """Send the acknowledgements in a request of their own.  Returns the error of each partition."""
        said = self._take_said()
        by_topic: dict[UUID, list[ack.AcknowledgePartition]] = {}
        for (topic_id, index), kinds in said.items():
            said_batches = [
                ack.AcknowledgementBatch(first_offset=offset, last_offset=offset, acknowledge_types=[int(kind)])
                for offset, kind in sorted(kinds.items())
            ]
            by_topic.setdefault(topic_id, []).append(ack.AcknowledgePartition(partition_index=index, acknowledgement_batches=said_batches))
        answer = self._client.ask(
            ack.ShareAcknowledgeRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                share_session_epoch=-1 if is_last else self._session_epoch,
                is_renew_ack=any(kind is AcknowledgeType.RENEW for kinds in said.values() for kind in kinds.values()),
                topics=[ack.AcknowledgeTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in by_topic.items()],
            ),
            2,
        )
        if not isinstance(answer, ack.ShareAcknowledgeResponse) or answer.error_code:
            self._begin_anew(answer)
            return [ErrorCode.of(getattr(answer, "error_code", ErrorCode.NETWORK_EXCEPTION))]
        self._session_epoch = 0 if is_last else self._session_epoch + 1
        codes = []
        for topic in answer.responses:
            for one in topic.partitions:
                codes.append(ErrorCode.of(one.error_code))
                if not one.error_code:
                    self._confirm(one.partition_index, said.get((topic.topic_id, one.partition_index), {}))
        return codes

    def _take_said(self) -> dict[tuple[UUID, int], dict[int, AcknowledgeType]]:
        said, self._said = self._said, {}
        return said

    def _confirm(self, partition: int, said: Mapping[int, AcknowledgeType]) -> None:
        self.accepted |= {(partition, offset) for offset, kind in said.items() if kind is AcknowledgeType.ACCEPT}

    def _begin_anew(self, answer: Any) -> None:
        """Begin a new session after a kill or an error.  Records acquired in the old session are lost to this member."""
        self._session_epoch = 0
        self._said = {}
        if isinstance(answer, NoAnswer):
            time.sleep(PAUSE_S)


def _delivered(topic_id: UUID, one: fetch.PartitionData) -> Iterable[Delivered]:
    view = memoryview(bytes(one.records))  # type: ignore[arg-type]
    counts = [(acquired.first_offset, acquired.last_offset, acquired.delivery_count) for acquired in one.acquired_records]
    for at, header in batches(view):
        if header.is_control:
            continue
        for record in records_of(view[at : at + header.size]):
            for first, last, count in counts:
                if first <= record.offset <= last:
                    yield Delivered(
                        topic_id, one.partition_index, record.offset, count, None if record.value is None else bytes(record.value)
                    )


def configure_group(address: Address, group_id: str, **options: str) -> None:
    """Set options of a group, with underscores for the dots in their names."""
    configs = [AlterableConfig(name=name.replace("_", "."), config_operation=SET, value=value) for name, value in options.items()]
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=group_id, configs=configs)
    client = RawClient(address)
    answer = client.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
    client.close()
    assert not isinstance(answer, NoAnswer), answer
    assert not any(one.error_code for one in answer.responses), answer  # type: ignore[attr-defined]
