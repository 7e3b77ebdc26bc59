"""Batches that go from tasks to the driver in files come out as they went in, or not at all."""

from pathlib import Path

import pytest

from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.types import TopicPartition
from pyspark_moldau import private
from pyspark_moldau.spool import NOWHERE, Spool, SpoolDamaged, batches_in, is_here, make, remove, remove_all


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(private.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def a_batch(value: bytes) -> bytearray:
    return build_batch([NewRecord(timestamp=1, value=value)], is_transactional=True)


def spooled(folder: str, count: int) -> Spool:
    spool = Spool(folder, 3)
    for number in range(count):
        spool.add(TopicPartition("t", number % 2), a_batch(bytes([number]) * 50))
    spool.close()
    return spool


def test_batches_come_out_in_their_order() -> None:
    spool = spooled(make("spark.x", "one"), 5)
    assert list(batches_in(spool.path, spool.spans)) == [(TopicPartition("t", n % 2), a_batch(bytes([n]) * 50)) for n in range(5)]


@pytest.mark.parametrize("damage", ["a byte", "the end", "the file"])
def test_a_damaged_file_gives_no_records(damage: str) -> None:
    spool = spooled(make("spark.x", "one"), 2)
    held = bytearray(Path(spool.path).read_bytes())
    if damage == "a byte":
        held[-1] ^= 1
    elif damage == "the end":
        del held[-1]
    else:
        Path(spool.path).unlink()
    if damage != "the file":
        Path(spool.path).write_bytes(held)
    with pytest.raises((SpoolDamaged, FileNotFoundError)):
        list(batches_in(spool.path, spool.spans))


def test_a_new_micro_batch_removes_the_files_of_the_one_before() -> None:
    before = make("spark.x", "one")
    other = make("spark.other", "one")
    spooled(before, 1)
    now = make("spark.x", "two")
    assert (is_here(before), is_here(now), is_here(other)) == (False, True, True)
    with pytest.raises(FileNotFoundError):  # a task of the micro-batch before, which still runs
        Spool(before, 0)
    remove(now)
    assert not is_here(now)
    assert not Path(now).parent.exists(), "a sink whose micro-batches are committed leaves nothing"
    remove_all("spark.other")
    assert not is_here(other)


def test_a_task_that_was_begun_before_is_refused() -> None:
    folder = make("spark.x", "one")
    Spool(folder, 0).close()
    with pytest.raises(FileExistsError):
        Spool(folder, 0)


def test_a_folder_of_somebody_else_is_not_used(temporary: Path) -> None:
    make("spark.x", "one")
    next(temporary.iterdir()).chmod(0o755)
    assert make("spark.x", "two") == NOWHERE
    assert not is_here(NOWHERE)


def test_a_task_of_another_user_does_not_see_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make("spark.x", "one")

    def refused(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refused)
    assert not is_here(folder)
