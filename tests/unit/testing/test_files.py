import errno
import random

import pytest

from moldau.storage.files import LockHeld
from moldau.testing.files import Fault, MemoryFiles
from moldau.testing.loop import SimLoop


def outcomes(files: MemoryFiles, path: str, count: int = 300) -> set[bytes | None]:
    found: set[bytes | None] = set()
    for seed in range(count):
        after = files.crashed(random.Random(seed))
        found.add(after.read(path) if after.exists(path) else None)
    return found


def a_durable_file(content: bytes = b"") -> MemoryFiles:
    files = MemoryFiles()
    files.mkdir("/d")
    file = files.open("/d/f", create=True)
    file.pwrite([content], 0)
    files.sync_everything()
    return files


def test_synced_content_under_a_synced_name_survives_every_crash() -> None:
    files = MemoryFiles()
    files.mkdir("/d")
    file = files.open("/d/f", create=True)
    file.pwrite([b"abc", b"def"], 0)
    file.sync()
    files.sync_dir("/d")
    files.sync_dir("")
    assert outcomes(files, "/d/f") == {b"abcdef"}


def test_a_new_file_is_lost_with_its_name_unless_the_directory_was_synced() -> None:
    files = a_durable_file()
    other = files.open("/d/g", create=True)
    other.pwrite([b"x"], 0)
    other.sync()
    assert outcomes(files, "/d/g") == {None, b"x"}


def test_unsynced_writes_are_kept_lost_torn_and_reordered() -> None:
    files = a_durable_file(b"....")
    file = files.open("/d/f")
    file.pwrite([b"AB"], 0)
    file.pwrite([b"CD"], 2)
    found = outcomes(files, "/d/f")
    assert {b"....", b"AB..", b"..CD", b"ABCD", b"A...", b".B.."} <= found


def test_a_write_lost_below_one_that_was_kept_leaves_zeros() -> None:
    files = a_durable_file()
    file = files.open("/d/f")
    file.pwrite([b"A"], 0)
    file.pwrite([b"B"], 1)
    assert b"\0B" in outcomes(files, "/d/f")


def test_after_a_sync_without_room_a_good_one_saves_only_what_was_written_since() -> None:
    files = a_durable_file()
    file = files.open("/d/f")
    file.pwrite([b"A"], 0)
    files.hook = lambda call, path: Fault(errno.ENOSPC) if call == "sync" else None
    with pytest.raises(OSError, match="No space"):
        file.sync()
    files.hook = None
    file.pwrite([b"B"], 1)
    file.sync()
    assert outcomes(files, "/d/f") == {b"\0B", b"AB"}


def test_after_a_failed_sync_reads_show_what_a_crash_would_leave() -> None:
    found = set()
    for seed in range(20):
        files = MemoryFiles(seed=seed)
        files.mkdir("/d")
        file = files.open("/d/f", create=True)
        files.sync_everything()
        file.pwrite([b"A"], 0)
        files.hook = lambda call, path: Fault() if call == "sync" else None
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
        shown = file.pread(2, 0)
        found.add(shown)
        assert outcomes(files, "/d/f") == {shown}
    assert found == {b"", b"A"}


def test_a_rename_is_old_or_new_and_never_nothing() -> None:
    files = a_durable_file(b"old")
    files.write_atomically("/d/f", b"new")
    assert outcomes(files, "/d/f") == {b"new"}
    other = files.open("/d/g", create=True)
    other.pwrite([b"newer"], 0)
    other.sync()
    files.rename("/d/g", "/d/f")
    assert outcomes(files, "/d/f") == {b"new", b"newer"}


def test_a_short_write_and_a_full_disk_leave_what_they_took() -> None:
    files = a_durable_file()
    file = files.open("/d/f")
    files.hook = lambda call, path: Fault(errno.ENOSPC, written=2) if call == "pwrite" else None
    with pytest.raises(OSError, match="No space"):
        file.pwrite([b"abc"], 0)
    assert file.pread(10, 0) == b"ab"
    files.hook, files.capacity = None, 4
    file.pwrite([b"abcd"], 0)
    with pytest.raises(OSError, match="No space"):
        file.pwrite([b"e"], 4)


def test_a_file_stays_readable_for_who_holds_it() -> None:
    files = a_durable_file(b"abc")
    file = files.open("/d/f")
    file.close()
    files.unlink("/d/f")
    assert file.pread(3, 0) == b"abc"
    assert not files.exists("/d/f")


def test_a_lock_is_held_once_and_dies_with_the_machine() -> None:
    files = a_durable_file()
    files.lock("/d/.lock")
    with pytest.raises(LockHeld):
        files.lock("/d/.lock")
    files.crash(random.Random(1))
    files.lock("/d/.lock").release()
    files.lock("/d/.lock")


def test_directories_rename_with_what_is_in_them() -> None:
    files = a_durable_file(b"abc")
    files.rename("/d", "/e")
    assert files.read("/e/f") == b"abc"
    assert files.listdir("/") == ["e"]
    assert outcomes(files, "/d/f") == {None, b"abc"}
    files.rmtree("/e")
    assert files.listdir("/") == []


def test_run_gives_the_result_after_a_delay() -> None:
    async def scenario() -> int:
        return await MemoryFiles(slow_ms=1).run(lambda a, b: a + b, 2, b=3)

    assert SimLoop().run_until_complete(scenario()) == 5
