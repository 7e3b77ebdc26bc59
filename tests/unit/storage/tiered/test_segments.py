from dataclasses import replace
from uuid import UUID

import pytest

from moldau.storage.epochs import EpochEntry
from moldau.storage.tiered.records import REMOTE_LOG_RECORDS
from moldau.storage.tiered.remote_log import RemoteLog, filtered, is_within
from moldau.storage.tiered.segments import PartitionDeletion, RemoteSegment, SegmentState, TopicIdPartition, partition_deletion, segment_of
from moldau.types import uuid_from_text

TOPIC_ID = uuid_from_text("AAECAwQFBgcICQoLDA0ODw")
SEGMENT_ID = uuid_from_text("8PHy8_T19vf4-fr7_P3-_w")
WHERE = TopicIdPartition(TOPIC_ID, "orders", 3)


def a_segment(start: int, end: int, *epochs: tuple[int, int], number: int = 0, max_timestamp_ms: int = 0, size: int = 100) -> RemoteSegment:
    return RemoteSegment(
        where=WHERE,
        id=UUID(int=number or start + 1),
        start_offset=start,
        end_offset=end,
        leader_epochs=tuple(EpochEntry(*entry) for entry in epochs or ((0, start),)),
        max_timestamp_ms=max_timestamp_ms,
        size=size,
        broker_id=1,
        event_timestamp_ms=0,
    )


def copy(log: RemoteLog, segment: RemoteSegment) -> None:
    assert log.replay(segment.record())
    assert log.replay(segment.update(SegmentState.COPY_FINISHED, broker_id=1, now_ms=1))


def delete(log: RemoteLog, segment: RemoteSegment) -> None:
    assert log.replay(segment.update(SegmentState.DELETE_STARTED, broker_id=1, now_ms=1))
    assert log.replay(segment.update(SegmentState.DELETE_FINISHED, broker_id=1, now_ms=1))


def test_records_are_those_of_kafkas_own_serde() -> None:
    """RemoteLogMetadataSerde of Apache Kafka 4.3.1 makes these bytes of the same values."""
    segment = replace(
        a_segment(100, 199, (0, 100), (2, 150), max_timestamp_ms=1700000000000, size=4096), id=SEGMENT_ID, event_timestamp_ms=1700000000001
    )
    assert REMOTE_LOG_RECORDS.encode(segment.record()).hex() == (
        "010000076f7264657273000102030405060708090a0b0c0d0e0f0000000300f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff000000000000000064"
        "00000000000000c7000000010000018bcfe568000000018bcfe5680103000000000000000000000064000000000200000000000000960000001000000000"
    )
    finished = segment.update(SegmentState.COPY_FINISHED, broker_id=1, now_ms=1700000000002)
    assert REMOTE_LOG_RECORDS.encode(finished).hex() == (
        "010100076f7264657273000102030405060708090a0b0c0d0e0f0000000300f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff00000000010000018bcfe56802000100"
    )
    marked = partition_deletion(WHERE, PartitionDeletion.MARKED, broker_id=1, now_ms=1700000000003)
    assert REMOTE_LOG_RECORDS.encode(marked).hex() == (
        "010200076f7264657273000102030405060708090a0b0c0d0e0f0000000300000000010000018bcfe568030000"
    )
    assert segment_of(REMOTE_LOG_RECORDS.decode(REMOTE_LOG_RECORDS.encode(segment.record()))) == segment


def test_the_partition_that_tells_of_a_partition_is_kafkas() -> None:
    """RemoteLogMetadataTopicPartitioner of Apache Kafka 4.3.1 answers so for 50 partitions."""
    found = [TopicIdPartition(SEGMENT_ID if number % 2 else TOPIC_ID, "orders", number).metadata_partition(50) for number in range(12)]
    assert found == [45, 3, 5, 36, 31, 15, 20, 45, 34, 46, 13, 38]


def test_only_a_finished_copy_is_found_and_only_until_its_deletion_begins() -> None:
    log, segment = RemoteLog(WHERE), a_segment(0, 9)
    assert log.replay(segment.record()) and log.find(0, 5) is None
    assert log.replay(segment.update(SegmentState.COPY_FINISHED, broker_id=1, now_ms=1))
    assert log.find(0, 0) == log.find(0, 9) == log.segments[segment.id]
    assert log.find(0, 10) is None and log.find(1, 5) is None
    assert log.replay(segment.update(SegmentState.DELETE_STARTED, broker_id=1, now_ms=1))
    assert log.find(0, 5) is None and log.segments
    assert log.replay(segment.update(SegmentState.DELETE_FINISHED, broker_id=1, now_ms=1))
    assert not log.segments


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], SegmentState.COPY_FINISHED),
        ([SegmentState.COPY_FINISHED], SegmentState.DELETE_FINISHED),
        ([SegmentState.DELETE_STARTED], SegmentState.COPY_FINISHED),
        ([SegmentState.COPY_FINISHED, SegmentState.DELETE_STARTED], SegmentState.COPY_FINISHED),
    ],
)
def test_a_state_that_does_not_follow_means_nothing(before: list[SegmentState], after: SegmentState) -> None:
    log, segment = RemoteLog(WHERE), a_segment(0, 9)
    if before:
        log.replay(segment.record())
    for state in before:
        assert log.replay(segment.update(state, broker_id=1, now_ms=1))
    known = dict(log.segments)
    assert not log.replay(segment.update(after, broker_id=2, now_ms=2))
    assert log.segments == known


def test_a_copy_that_covers_others_is_read_instead_of_them() -> None:
    log = RemoteLog(WHERE)
    first, second, both = a_segment(10, 49), a_segment(50, 90), a_segment(5, 100, number=1000)
    copy(log, first)
    copy(log, second)
    copy(log, both)
    assert {log.find(0, offset) for offset in (5, 10, 49, 50, 95, 100)} == {log.segments[both.id]}
    late = a_segment(20, 30, number=2000)  # a slow copy of offsets that are covered already
    copy(log, late)
    assert log.find(0, 25) == log.segments[both.id]


def test_each_epoch_is_looked_up_by_itself() -> None:
    """The second leader never saw what the first had copied of offsets 50 to 59."""
    log = RemoteLog(WHERE)
    old, new = a_segment(40, 59, (0, 40)), a_segment(50, 79, (1, 50))
    copy(log, old)
    copy(log, new)
    lineage = [EpochEntry(0, 0), EpochEntry(1, 50)]
    assert log.find_in(lineage, 45) == log.segments[old.id] and log.find_in(lineage, 55) == log.segments[new.id]
    assert log.covered_from(lineage, 40) == 80 and log.covered_from(lineage, 39) == 39
    assert log.first_offset(lineage) == 40
    assert list(log.readable(lineage, 100)) == [log.segments[new.id]], "a segment beyond the end of its epoch is not of this history"


LINEAGE = [EpochEntry(1, 0), EpochEntry(3, 100), EpochEntry(4, 200), EpochEntry(5, 200), EpochEntry(7, 300)]


@pytest.mark.parametrize(
    ("segment", "belongs"),
    [
        (a_segment(0, 99, (1, 0)), True),
        (a_segment(0, 100, (1, 0)), False),
        (a_segment(50, 150, (1, 50), (3, 100)), True),
        (a_segment(50, 150, (1, 50), (3, 101)), False),
        (a_segment(50, 150, (1, 50), (2, 100)), False),
        (a_segment(90, 150, (3, 90)), False),
        (a_segment(150, 250, (3, 150), (4, 200), (5, 200)), True),
        (a_segment(150, 250, (3, 150), (5, 200)), True),
        (a_segment(150, 350, (3, 150), (7, 300)), False),
        (a_segment(10, 120, (0, 10), (1, 50), (3, 100)), True),
        (a_segment(0, 9, (0, 0)), False),
        (a_segment(350, 399, (7, 350)), True),
        (a_segment(350, 400, (7, 350)), False),
    ],
)
def test_whether_a_segment_is_part_of_a_history(segment: RemoteSegment, belongs: bool) -> None:
    """The cases of RemoteLogManager.isRemoteSegmentWithinLeaderEpochs; the log ends at 400."""
    assert is_within(segment, filtered(LINEAGE), 400) is belongs
