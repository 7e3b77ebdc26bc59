"""The folder of snapshots: what counts, what a failed write leaves behind, when the oldest may go."""

import errno

import pytest

from moldau.raft.snapshot_folder import SnapshotFolder
from moldau.raft.snapshots import CorruptSnapshot, build_snapshot, snapshot_name
from moldau.testing.files import Fault, MemoryFiles
from moldau.types import OffsetAndEpoch

HOME = "/metadata"
OLD, NEW = OffsetAndEpoch(4, 1), OffsetAndEpoch(9, 2)


def a_snapshot(records: list[bytes], *, timestamp_ms: int = 0) -> list[bytearray]:
    return build_snapshot(records, epoch=1, now_ms=99, last_contained_log_timestamp=timestamp_ms)


def a_folder(files: MemoryFiles | None = None) -> SnapshotFolder:
    files = files or MemoryFiles()
    files.mkdir(HOME)
    folder = SnapshotFolder(files, HOME)
    folder.open()
    return folder


def test_only_whole_ones_count_and_what_broke_off_goes() -> None:
    files = MemoryFiles()
    folder = a_folder(files)
    assert folder.newest is None
    folder.write(NEW, a_snapshot([b"new"]))
    folder.write(OLD, a_snapshot([b"old"]))
    name = f"{HOME}/{snapshot_name(OLD)}"
    for leftover in (f"{name}.part", f"{name}.deleted", f"{name}.tmp"):
        files.write_atomically(leftover, b"x")
    files.write_atomically(f"{HOME}/quorum-state", b"{}")
    again = a_folder(files)
    assert again.ids == [OLD, NEW] and again.newest == NEW
    assert files.listdir(HOME) == sorted([snapshot_name(OLD), snapshot_name(NEW), "quorum-state"])
    assert again.read(OLD).records == [b"old"] and again.read(NEW).records == [b"new"]
    assert again.total_size() == sum(files.size(f"{HOME}/{snapshot_name(one)}") for one in (OLD, NEW))


@pytest.mark.parametrize("call", ["pwrite", "sync", "rename"])
def test_a_write_that_fails_leaves_nothing_behind(call: str) -> None:
    files = MemoryFiles()
    folder = a_folder(files)
    files.hook = lambda asked, path: Fault(errno.ENOSPC, written=5) if asked == call else None
    with pytest.raises(OSError, match="No space left"):
        folder.write(NEW, a_snapshot([b"x" * 500]))
    files.hook = None
    assert files.listdir(HOME) == []
    folder.write(NEW, a_snapshot([b"again"]))
    assert folder.read(NEW).records == [b"again"]


def test_a_damaged_one_is_named() -> None:
    files = MemoryFiles()
    folder = a_folder(files)
    files.write_atomically(f"{HOME}/{snapshot_name(NEW)}", b"\0" * 90)
    with pytest.raises(CorruptSnapshot, match=rf"^{HOME}/{snapshot_name(NEW)}: .*bring it back from a backup"):
        folder.read(NEW)


def test_the_oldest_is_retired_and_counts_no_more() -> None:
    files = MemoryFiles()
    a_folder(files).write(OLD, a_snapshot([]))
    a_folder(files).write(NEW, a_snapshot([]))
    folder = a_folder(files)
    retired = folder.retire_oldest()
    assert folder.ids == [NEW] and retired.endswith(".deleted") and files.exists(retired)
    assert a_folder(files).ids == [NEW] and not files.exists(retired)


@pytest.mark.parametrize(
    ("timestamp_ms", "retention_ms", "now_ms", "is_older"),
    [(1000, 500, 1500, False), (1000, 500, 1501, True), (1000, -1, 10**9, False), (0, 500, 10**9, False), (1000, 0, 1001, True)],
)
def test_how_old_the_oldest_is(timestamp_ms: int, retention_ms: int, now_ms: int, is_older: bool) -> None:
    files = MemoryFiles()
    a_folder(files).write(OLD, a_snapshot([b"x"], timestamp_ms=timestamp_ms))
    a_folder(files).write(NEW, a_snapshot([b"x"], timestamp_ms=now_ms))
    assert a_folder(files).is_oldest_older_than(retention_ms, now_ms) is is_older


def test_one_that_cannot_be_read_is_old_enough() -> None:
    files = MemoryFiles()
    files.mkdir(HOME)
    files.write_atomically(f"{HOME}/{snapshot_name(OLD)}", b"\0" * 90)
    folder = a_folder(files)
    assert folder.is_oldest_older_than(10**9, 0) and not folder.is_oldest_older_than(-1, 0)
