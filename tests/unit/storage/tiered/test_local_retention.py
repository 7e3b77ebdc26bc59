"""The local state that stays when the records of a tiered log are in remote storage only."""

from random import Random

import pytest

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.storage.log import AppendResult, Log
from proof.tiering.log import NOW, WHERE, Tier


@pytest.mark.parametrize("is_snapshot_there", [True, False])
async def test_a_crash_does_not_forget_who_wrote_them(is_snapshot_there: bool) -> None:
    tier = Tier()
    batch = build_batch([NewRecord(NOW, b"k", b"v")], producer_id=7, producer_epoch=0, base_sequence=0)
    assert isinstance(tier.log.append_from_client(batch, leader_epoch=0, now_ms=NOW), AppendResult)
    tier.append(3)
    tier.log.flush()
    tier.log.roll(NOW)  # the flush before had everything, so no sync has the snapshot that begins the new segment
    await tier.copy()
    if not is_snapshot_there:
        tier.files.unlink(f"/data/t-0/{4:020}.snapshot")
    tier.log.delete_old_segments(NOW)
    assert tier.log.local_log_start_offset == tier.log.recovery_point == 4
    for seed in range(10):
        after = Log.open(
            tier.files.crashed(Random(seed)), "/data/t-0", WHERE.topic_partition, tier.log.config, now_ms=NOW, recovery_point=4
        )
        assert [each.producer_id for each in after.active_producers()] == [7]


async def test_a_full_disk_lets_go_of_what_is_remote() -> None:
    tier = Tier()
    tier.append(3)
    tier.log.roll(NOW)
    tier.log.flush()
    await tier.copy()
    tier.files.capacity = 1
    assert tier.log.delete_old_segments(NOW) == 1
