import pytest

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.storage.epochs import EpochEntry
from moldau.storage.log import AppendResult
from moldau.storage.tiered.copy_and_expiry import expired
from moldau.storage.tiered.objects import SUFFIXES, object_name, segment_id_in
from moldau.storage.tiered.remote_log import RemoteLog
from moldau.storage.tiered.segments import SegmentState
from proof.tiering.log import NOW, WHERE, Tier

CRASHES = 200
"""More crashes than there are steps."""


class Crash(BaseException):
    """The process is gone: nothing runs after this."""


async def test_a_segment_becomes_an_object_for_each_of_its_files() -> None:
    tier = Tier()
    tier.append(15)
    tier.append(5, epoch=4)
    tier.log.roll(NOW)
    await tier.copy()
    segments = sorted(tier.remote.segments.values(), key=lambda segment: segment.start_offset)
    assert [segment.start_offset for segment in segments] == [segment.base_offset for segment in tier.log.segments[:-1]]
    for segment, local in zip(segments, tier.log.segments, strict=False):
        found = {name: content for name, (content, _) in tier.store.objects.items() if segment_id_in(name) == segment.id}
        by_suffix = {"." + name.partition(".")[2]: content for name, content in found.items()}
        assert by_suffix.keys() == set(SUFFIXES) - {".txnindex"}
        assert by_suffix[".log"] == local.file.pread(local.size, 0) and len(by_suffix[".log"]) == segment.size
        assert by_suffix[".index"] == tier.files.read(local.path(".index")) and by_suffix[".index"]
        assert by_suffix[".timeindex"] == tier.files.read(local.path(".timeindex"))
        assert segment.state is SegmentState.COPY_FINISHED and segment.is_txn_index_empty
    assert EpochEntry(4, 15) in segments[-2].leader_epochs and segments[-1].leader_epochs == (EpochEntry(4, segments[-1].start_offset),)
    last = [content for name, (content, _) in sorted(tier.store.objects.items()) if name.endswith("checkpoint")][-1]
    assert last == b"0\n2\n0 0\n4 15\n"


async def recovered(tier: Tier) -> None:
    """The next leader's work before all else."""
    tier.metadata.remote = tier.metadata.replayed()
    tier.store.hook = lambda call, name: None
    tier.metadata.hook = tier.store.hook
    tier.copier = tier.new_copier()
    await tier.copy()
    for segment in expired(tier.log, tier.remote, now_ms=NOW, copying=()).segments:
        await tier.copier.delete(segment)


def readable_offsets(tier: Tier) -> set[int]:
    return {offset for offset in range(tier.log.log_end_offset) if tier.remote.find_in(tier.log.epochs.entries, offset) is not None}


@pytest.mark.parametrize("kind", [Crash, OSError])
async def test_a_crash_or_a_failure_at_every_step_of_a_copy_leaks_nothing_and_loses_nothing(kind: type[BaseException]) -> None:
    for crash_at in range(CRASHES):
        steps = 0

        def strike(call: str, name: str, crash_at: int = crash_at) -> None:
            nonlocal steps
            if kind is OSError and call.startswith("append"):
                return  # a record that cannot be written is a KafkaError, which the next leader cannot tell from a crash
            if steps == crash_at:
                steps += 1
                raise kind(f"at step {crash_at}: {call} {name}")
            steps += 1

        tier = Tier(hook=strike)
        tier.append(20)
        try:
            await tier.copy()
        except (Crash, OSError):
            pass
        else:
            assert steps == crash_at, "no step is left to break at"
            break
        copied = readable_offsets(tier)
        await recovered(tier)
        assert copied <= readable_offsets(tier)
        assert {segment.state for segment in tier.remote.segments.values()} <= {SegmentState.COPY_FINISHED}
        assert {segment_id_in(name) for name in tier.store.objects} == set(tier.remote.segments), f"after step {crash_at}"
        tier.log.flush()
        assert tier.log.delete_old_segments(NOW) > 0
        local = set(range(tier.log.local_log_start_offset, tier.log.log_end_offset))
        assert local | readable_offsets(tier) == set(range(20))
    else:
        pytest.fail("every step broke: the loop never saw a whole copy")


async def test_a_crash_at_every_step_of_a_deletion_is_taken_up_again() -> None:
    for crash_at in range(CRASHES):
        tier = Tier()
        tier.append(20)
        await tier.move()
        tier.log.raise_log_start_offset(12)
        steps = 0

        def strike(call: str, name: str, crash_at: int = crash_at) -> None:
            nonlocal steps
            steps += 1
            if steps > crash_at:
                raise Crash

        tier.store.hook = tier.metadata.hook = strike
        try:
            for segment in expired(tier.log, tier.remote, now_ms=NOW, copying=()).segments:
                await tier.copier.delete(segment)
        except Crash:
            pass
        else:
            break
        await recovered(tier)
        assert {segment_id_in(name) for name in tier.store.objects} == set(tier.remote.segments), f"after step {crash_at}"
        assert readable_offsets(tier) >= set(range(12, 20))
    else:
        pytest.fail("every step broke")


async def test_a_leader_that_lost_its_place_takes_its_objects_away() -> None:
    tier = Tier()
    tier.append(10)

    def give_up(call: str, name: str) -> None:
        if call == "stored" and name.endswith(".log"):
            (broken,) = tier.remote.segments.values()
            assert tier.metadata.remote.replay(broken.update(SegmentState.DELETE_STARTED, broker_id=2, now_ms=NOW))
            assert tier.metadata.remote.replay(broken.update(SegmentState.DELETE_FINISHED, broker_id=2, now_ms=NOW))

    tier.store.hook = give_up
    with pytest.raises(AssertionError):
        await tier.copy()
    assert not tier.store.objects and not tier.remote.segments


async def test_what_is_being_copied_is_known_as_such() -> None:
    tier, known = Tier(), []
    tier.store.hook = lambda call, name: known.append(segment_id_in(name) in tier.copier.copying) if call == "put" else None
    tier.append(20)
    await tier.copy()
    assert len(known) > 5 and all(known) and not tier.copier.copying


async def test_a_sweep_deletes_what_no_metadata_speaks_of_once_it_is_old() -> None:
    tier = Tier()
    tier.append(20)
    await tier.copy()
    kept = set(tier.store.objects)
    stray = f"{WHERE}/00000000000000000000-AAECAwQFBgcICQoLDA0ODw.log"
    tier.store.put(stray, [b"x"])
    tier.store.put(f"{WHERE}/README.txt", [b"x"])
    tier.store.put("other-0-AAECAwQFBgcICQoLDA0ODw/00000000000000000000-AAECAwQFBgcICQoLDA0ODw.log", [b"x"])
    assert await tier.copier.sweep(tier.remote) == 0, "the object may belong to a copy that has just begun"
    tier.clock.time_ms += 3_600_001
    assert await tier.copier.sweep(tier.remote) == 1
    assert kept <= set(tier.store.objects) and stray not in tier.store.objects and len(tier.store.objects) == len(kept) + 2


async def test_a_segment_without_a_snapshot_gets_one_all_the_same() -> None:
    """A replica begins with the snapshot.  A recovered log does not have one at each segment, and the last one written may be torn."""
    tier, snapshots = Tier(), {}
    for sequence in range(20):
        batch = build_batch([NewRecord(NOW, b"k", b"v" * 60)], producer_id=7, producer_epoch=0, base_sequence=sequence)
        assert isinstance(tier.log.append_from_client(batch, leader_epoch=0, now_ms=NOW), AppendResult)
    tier.log.update_high_watermark(20)
    for name in tier.files.listdir(tier.log.directory):
        if name.endswith(".snapshot"):
            path = f"{tier.log.directory}/{name}"
            snapshots[int(name.partition(".")[0])] = tier.files.read(path)
            tier.files.unlink(path)
    tier.files.write_atomically(f"{tier.log.directory}/{min(snapshots):020}.snapshot", b"torn")
    await tier.copy()
    made = {each.end_offset + 1: tier.store.objects[object_name(each, ".snapshot")][0] for each in tier.remote.segments.values()}
    assert len(made) > 1 and made == snapshots


async def test_a_sweep_touches_nothing_where_the_metadata_may_be_lost() -> None:
    tier = Tier()
    tier.append(20)
    await tier.copy()
    tier.clock.time_ms += 3_600_001
    assert await tier.copier.sweep(RemoteLog(WHERE)) == 0


async def test_a_segment_that_leaves_while_it_is_copied_is_no_copy() -> None:
    """The indexes go with the segment: without the index of aborted transactions their records would look committed."""
    tier = Tier()
    tier.append(20)
    first = tier.log.segments[0]

    def leave(call: str, name: str) -> None:
        if call == "put" and name.endswith(".snapshot"):
            tier.log._drop([first], NOW)
            tier.log.delete_due_files(NOW)
            tier.store.hook = lambda call, name: None

    tier.store.hook = leave
    with pytest.raises(FileNotFoundError):
        await tier.copy()
    assert not tier.store.objects and not tier.remote.segments
