"""A follower begins after remote storage: the leader's log and its segments are real, the road between the two is a call."""

from dataclasses import replace
from uuid import UUID

import pytest

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.replication.partition import Partition
from moldau.replication.tier_start import NotYet, begin_after_tier
from moldau.storage.epochs import EpochEnd, EpochEntry
from moldau.storage.log import AppendResult, Past
from moldau.storage.manager import LogManager
from moldau.storage.tiered.past import read_past
from moldau.storage.tiered.remote_log import RemoteLog
from moldau.storage.tiered.segments import RemoteSegment, SegmentState
from moldau.testing.files import MemoryFiles
from moldau.types import OffsetAndEpoch
from proof.tiering.log import NOW, WHERE, Tier


class Pair:
    """A leader that is a `Tier`, and a follower with nothing or little.  The follower asks its leader through this class."""

    def __init__(self, **options: object) -> None:
        self.tier = Tier(**options)
        self.pending: int | None = None
        files = MemoryFiles()
        self.logs = LogManager(files, ["/f"], self.tier.log.config, unique=lambda: UUID(int=1))
        self.logs.open(NOW)
        log = self.logs.get_or_create(WHERE.topic_partition, self.tier.log.config, now_ms=NOW)
        self.follower = Partition(
            WHERE.topic_partition, WHERE.topic_id, log, local_id=2, lag_time_max_ms=1, on_flush_wanted=lambda log: None
        )
        self.follower.follow(leader_id=1, leader_epoch=9, partition_epoch=1, replicas=(1, 2), isr=(1,))

    async def begin(self, *, at_last_tiered: bool = False) -> int:
        return await begin_after_tier(self.follower, self, self, self.logs, NOW, at_last_tiered=at_last_tiered)

    def found(self, offset: int) -> OffsetAndEpoch:
        return OffsetAndEpoch(offset, self.tier.log.epochs.epoch_for_offset(offset))

    async def earliest_offset(self) -> OffsetAndEpoch:
        return self.found(self.tier.log.log_start_offset)

    async def earliest_local_offset(self) -> OffsetAndEpoch:
        return self.found(self.tier.log.local_log_start_offset)

    async def earliest_pending_upload_offset(self) -> OffsetAndEpoch:
        return self.found(self.pending) if self.pending is not None else OffsetAndEpoch(-1, -1)

    async def end_offset_for_epoch(self, epoch: int) -> EpochEnd:
        return self.tier.log.end_offset_for_epoch(epoch)

    async def segments_of(self, partition: Partition) -> RemoteLog:
        return self.tier.remote

    async def past(self, segment: RemoteSegment) -> Past:
        return read_past(self.tier.store, segment)


async def a_pair(**options: object) -> Pair:
    """A pair whose leader has 40 records of epochs 0, 3 and 4, one segment of them here and some only here."""
    pair = Pair(**options)
    pair.tier.append(12)
    pair.tier.append(13, epoch=3)
    await pair.tier.move()
    pair.tier.append(15, epoch=4)
    return pair


async def test_the_follower_knows_what_the_leader_knows() -> None:
    pair = await a_pair()
    leader, log = pair.tier.log, pair.follower.log
    leader.delete_records_before(5)
    producer = build_batch([NewRecord(NOW, b"k", b"v")], producer_id=77, producer_epoch=0, base_sequence=0)
    assert isinstance(leader.append_from_client(producer, leader_epoch=4, now_ms=NOW), AppendResult)
    leader.update_high_watermark(leader.log_end_offset)
    await pair.tier.move()
    assert await pair.begin() == leader.local_log_start_offset == 41
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset, log.high_watermark) == (5, 41, 41, 41)
    log.drop_below_start(NOW)
    assert log.epochs.entries == leader.epochs.entries
    assert [each.producer_id for each in log.active_producers()] == [77]
    assert log.recovery_point == 41
    assert log.read(20, 100) is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    reader = pair.tier.new_reader()
    for offset in range(5, 41):
        data = await reader.read(log, pair.tier.remote, offset, 1000, min_one_batch=True, with_aborted=True)
        assert not isinstance(data, ErrorCode), offset


async def test_what_it_had_goes() -> None:
    pair = await a_pair()
    log = pair.follower.log
    log.append_from_client(build_batch([NewRecord(NOW, b"k", b"old")]), leader_epoch=0, now_ms=NOW)
    log.update_high_watermark(1)
    assert await pair.begin() == 25
    assert [segment.base_offset for segment in log.segments] == [25]


async def test_as_little_as_possible_of_what_is_in_both_tiers() -> None:
    pair = Pair(local_retention_bytes=10_000)
    pair.tier.append(40)
    await pair.tier.copy()
    assert pair.tier.log.local_log_start_offset == 0
    pair.pending = pair.tier.log.copied_offset
    assert 25 < pair.pending < 40
    assert await pair.begin(at_last_tiered=True) == pair.pending


async def test_a_leader_that_does_not_know_yet_how_far_copies_go_is_asked_again() -> None:
    pair = await a_pair()
    with pytest.raises(KafkaError) as refused:
        await pair.begin(at_last_tiered=True)
    assert refused.value.code is ErrorCode.OFFSET_NOT_AVAILABLE


async def test_where_nothing_is_remote_it_begins_with_the_leaders_first_record() -> None:
    pair = Pair()
    pair.tier.append(20)
    pair.tier.log.delete_records_before(7)
    assert await pair.begin(at_last_tiered=True) == 7 or pair.tier.log.local_log_start_offset < 7
    pair.tier.log.delete_old_segments(NOW)
    pair.tier.log.log_start_offset = pair.tier.log.local_log_start_offset
    assert await pair.begin() == pair.tier.log.log_start_offset == pair.follower.log.log_start_offset


async def test_a_segment_that_goes_on_in_another_history_is_passed_over() -> None:
    """After an unclean election a remote segment begins as the leader's log does, and goes on as a lost leader's log did."""
    pair = Pair(segment_bytes=500)
    tier = pair.tier
    tier.append(30)
    tier.log.roll(NOW)
    tier.log.flush()
    await tier.copy()
    ends = sorted(segment.end_offset for segment in tier.remote.segments.values())
    fork = ends[1] + 3
    tier.log.truncate_to(fork)
    tier.append(30, epoch=6)
    await tier.move()
    astray = tier.remote.find(0, fork - 1)
    assert astray is not None and astray.end_offset >= fork
    tier.log.segments[0].base_offset = fork  # as if the leader's segments had other bounds: its own log begins at the fork
    tier.log._segments.bases = [fork]
    end = await pair.begin()
    assert tier.remote.find(6, end - 1) is not None
    assert pair.follower.log.epochs.entries == tier.log.epochs.entries


@pytest.mark.parametrize("broken", ["no snapshot", "torn snapshot", "torn epochs", "other epochs", "a gap", "not copied to its end"])
async def test_what_cannot_be_used_is_not_used(broken: str) -> None:
    pair = await a_pair()
    (last,) = [each for each in pair.tier.remote.segments.values() if each.end_offset == 24]
    objects = pair.tier.store.objects
    snapshot, epochs = (
        next(name for name in objects if f"/{last.start_offset:020}-" in name and suffix in name) for suffix in (".snap", "epoch")
    )
    match broken:
        case "no snapshot":
            del objects[snapshot]
        case "torn snapshot":
            objects[snapshot] = objects[snapshot][0][:5], 0
        case "torn epochs":
            objects[epochs] = b"0\n2\n0 0\n", 0
        case "other epochs":
            objects[epochs] = b"0\n1\n0 0\n", 0
        case "a gap":
            (first,) = [each for each in pair.tier.remote.segments.values() if each.start_offset == 0]
            await pair.tier.copier.delete(first)
        case "not copied to its end":
            pair.tier.remote._unlist(last)
            pair.tier.remote.segments[last.id] = replace(last, state=SegmentState.COPY_STARTED)
    log = pair.follower.log
    with pytest.raises(NotYet):
        await pair.begin()
    assert (log.log_end_offset, log.truncations) == (0, 0), "nothing was touched"


async def test_a_leader_that_changes_meanwhile_is_not_followed() -> None:
    pair = await a_pair()

    def elect(call: str, name: str) -> None:
        pair.follower.follow(leader_id=3, leader_epoch=10, partition_epoch=2, replicas=(1, 2), isr=(1,))

    pair.tier.store.hook = elect
    with pytest.raises(NotYet):
        await pair.begin()
    assert pair.follower.log.log_end_offset == 0


async def test_deleted_records_do_not_come_back() -> None:
    pair = await a_pair()
    log = pair.follower.log
    for _ in range(3):
        log.append_from_client(build_batch([NewRecord(NOW, b"k", b"old")] * 5), leader_epoch=0, now_ms=NOW)
    log.update_high_watermark(15)
    log.delete_records_before(9)
    assert await pair.begin() == 25 and log.log_start_offset == 9


async def test_a_leader_that_has_more_than_the_segments_tell_of_is_followed_from_there() -> None:
    """The leader before had let go of records below 9, and copied.  This leader, which was not in sync, still has them."""
    pair = Pair()
    leader = pair.tier.log
    pair.tier.append(12)
    leader.delete_records_before(9)
    leader.epochs.truncate_from_start(9)
    await pair.tier.move()
    leader.log_start_offset = 5
    leader.epochs.replace([EpochEntry(0, 5)])
    assert await pair.begin() == 12
    assert (pair.follower.log.log_start_offset, pair.follower.log.epochs.entries) == (9, [EpochEntry(0, 9)])
