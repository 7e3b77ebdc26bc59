import asyncio
import errno
import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from moldau.storage.files import Files, LockHeld, SystemFiles
from moldau.testing.files import MemoryFiles


@pytest.fixture(params=["system", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    if request.param == "system":
        return SystemFiles(), str(tmp_path)
    files = MemoryFiles()
    files.mkdir("/d")
    return files, "/d"


def test_bytes_come_back_from_where_they_were_put(place: tuple[Files, str]) -> None:
    files, directory = place
    file = files.open(f"{directory}/f", create=True)
    file.pwrite([b"abc", memoryview(b"defg"), bytearray(b"h")], 2)
    assert (file.size(), file.pread(100, 1), file.pread(2, 3)) == (10, b"\0abcdefgh", b"bc")
    file.truncate(5)
    assert files.read(f"{directory}/f") == b"\0\0abc" and files.size(f"{directory}/f") == 5


def test_more_parts_than_one_call_takes(place: tuple[Files, str]) -> None:
    files, directory = place
    file = files.open(f"{directory}/f", create=True)
    parts = [bytes([n % 251]) * (n % 7) for n in range(3000)]
    file.pwrite(parts, 0)
    assert files.read(f"{directory}/f") == b"".join(parts)


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the page cache is dropped where the system can")
@pytest.mark.parametrize(("code", "dropped"), [(errno.EIO, [(0, 0, "dropped")]), (errno.ENOSPC, [])])
def test_a_failed_sync_drops_the_page_cache_unless_the_disk_is_only_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, dropped: list[tuple[int, int, str]]
) -> None:
    file = SystemFiles().open(f"{tmp_path}/f", create=True)
    file.pwrite([b"abc" * 5000], 0)
    calls = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *where: calls.append(where))
    monkeypatch.setattr(os, "POSIX_FADV_DONTNEED", "dropped")

    def fails(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fdatasync", fails)
    with pytest.raises(OSError, match=os.strerror(code)):
        file.sync()
    assert calls == dropped


def test_names(place: tuple[Files, str]) -> None:
    files, directory = place
    with pytest.raises(FileNotFoundError):
        files.open(f"{directory}/f")
    files.mkdir(f"{directory}/a/b")
    files.mkdir(f"{directory}/a/b")
    files.write_atomically(f"{directory}/a/f", b"one")
    files.write_atomically(f"{directory}/a/f", b"two")
    files.rename(f"{directory}/a/f", f"{directory}/g")
    files.sync_dir(directory)
    assert files.listdir(directory) == ["a", "g"] and files.listdir(f"{directory}/a") == ["b"]
    assert files.is_dir(f"{directory}/a") and not files.is_dir(f"{directory}/g") and not files.exists(f"{directory}/x")
    files.unlink(f"{directory}/g")
    files.rmtree(f"{directory}/a")
    assert files.listdir(directory) == []


def test_a_folder_deeper_than_the_system_allows_is_refused_by_the_system(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="File name too long"):
        SystemFiles().mkdir(f"{tmp_path}/" + "a/" * 5_000)
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        SystemFiles().mkdir(f"{tmp_path}/file")


def test_a_closed_file_is_read_on_but_not_written(place: tuple[Files, str]) -> None:
    files, directory = place
    file = files.open(f"{directory}/f", create=True)
    file.pwrite([b"abc"], 0)
    file.close()
    assert file.pread(3, 0) == b"abc"
    with pytest.raises(AssertionError):
        file.pwrite([b"x"], 0)


def test_a_second_lock_is_refused(place: tuple[Files, str]) -> None:
    files, directory = place
    lock = files.lock(f"{directory}/.lock")
    with pytest.raises(LockHeld):
        files.lock(f"{directory}/.lock")
    lock.release()
    files.lock(f"{directory}/.lock").release()


def test_run_keeps_the_loop_free(place: tuple[Files, str]) -> None:
    files, _ = place

    def fails() -> int:
        raise OSError("no")

    async def scenario() -> None:
        assert await files.run(sorted, [2, 1], reverse=True) == [2, 1]
        with pytest.raises(OSError, match="no"):
            await files.run(fails)

    asyncio.run(scenario())


def test_space_is_counted(place: tuple[Files, str]) -> None:
    files, directory = place
    assert 0 < files.free_bytes(directory) <= files.total_bytes(directory)


def test_the_last_descriptors_are_spared() -> None:
    gc.collect()  # descriptors that other tests left behind must not become free in between
    lowest_free = os.open("/", os.O_RDONLY)
    os.close(lowest_free)
    assert SystemFiles().has_spare_descriptors()
    assert SystemFiles(spared_descriptors=lowest_free + 1).has_spare_descriptors()
    assert not SystemFiles(spared_descriptors=lowest_free).has_spare_descriptors()
    assert SystemFiles(spared_descriptors=lowest_free).has_spare_descriptors(for_new_log=False)
    assert not SystemFiles(last_descriptors=lowest_free).has_spare_descriptors(for_new_log=False)


def test_short_writes_of_the_operating_system_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., int] = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: real(fd, memoryview(data)[:3], position))
    monkeypatch.setattr(os, "pwritev", lambda fd, parts, position: real(fd, parts[0], position))
    file = SystemFiles().open(str(tmp_path / "f"), create=True)
    file.pwrite([b"abcdefgh"], 0)
    file.pwrite([b"ABCDE", b"", b"FGHIJ"], 8)
    assert (tmp_path / "f").read_bytes() == b"abcdefghABCDEFGHIJ"


def test_a_descriptor_is_closed_with_the_last_reference(tmp_path: Path) -> None:
    file = SystemFiles().open(str(tmp_path / "f"), create=True)
    descriptor = file.fileno()
    file.close()
    os.fstat(descriptor)
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
