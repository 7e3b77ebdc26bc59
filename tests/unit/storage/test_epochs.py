import errno
import random

import pytest

from moldau.config import MAX_LONG
from moldau.storage.epochs import UNKNOWN_END, CorruptCheckpoint, EpochEnd, EpochEntry, LeaderEpochs
from moldau.testing.files import Fault, MemoryFiles


def some_epochs(files: MemoryFiles | None = None) -> LeaderEpochs:
    files = files or MemoryFiles()
    files.mkdir("/d")
    epochs = LeaderEpochs(files, "/d")
    for epoch, offset in ((0, 0), (2, 10), (2, 15), (5, 20)):
        epochs.assign(epoch, offset)
    return epochs


def test_where_an_epoch_ended() -> None:
    epochs = some_epochs()
    assert epochs.entries == [EpochEntry(0, 0), EpochEntry(2, 10), EpochEntry(5, 20)]
    assert [epochs.end_offset_for(epoch, 33) for epoch in (-1, 0, 1, 2, 4, 5, 6)] == [
        UNKNOWN_END,
        EpochEnd(0, 10),
        EpochEnd(0, 10),
        EpochEnd(2, 20),
        EpochEnd(2, 20),
        EpochEnd(5, 33),
        UNKNOWN_END,
    ]
    assert [epochs.epoch_for_offset(offset) for offset in (0, 9, 10, 19, 20, 99)] == [0, 0, 2, 2, 5, 5]


def test_what_contradicts_a_new_epoch_goes() -> None:
    epochs = some_epochs()
    epochs.assign(6, 12)
    assert epochs.entries == [EpochEntry(0, 0), EpochEntry(2, 10), EpochEntry(6, 12)]


@pytest.mark.parametrize(
    ("epoch", "offset", "left"),
    [
        (5, 20, [(0, 0), (2, 10), (5, 20)]),  # nothing changes
        (5, 25, [(0, 0), (2, 10), (5, 20)]),  # an epoch that is there already grows
        (5, 15, [(0, 0), (2, 10), (5, 15)]),  # the epoch began earlier than was known
        (2, 30, [(0, 0), (2, 30)]),  # newer epochs go, and this one begins anew
        (6, 10, [(0, 0), (6, 10)]),  # epochs that begin there or later go
        (0, 0, [(0, 0)]),
    ],
)
def test_an_epoch_stands_behind_older_ones_that_begin_before_it(epoch: int, offset: int, left: list[tuple[int, int]]) -> None:
    files = MemoryFiles()
    epochs = some_epochs(files)
    epochs.save()
    epochs.assign(epoch, offset)
    assert epochs.entries == left and epochs.latest_epoch == epochs.appendable_epoch == epoch
    epochs.save()
    assert LeaderEpochs(files, "/d").entries == left


def test_how_far_an_epoch_reaches() -> None:
    epochs = some_epochs()
    assert [epochs.end_of_epoch_at(offset) for offset in (0, 9, 10, 19, 20, 99)] == [10, 10, 20, 20, MAX_LONG, MAX_LONG]
    assert epochs.earliest == (0, 0)
    epochs.truncate_from_start(12)
    assert epochs.earliest == (2, 12)
    assert (epochs.epoch_for_offset(11), epochs.end_of_epoch_at(11)) == (-1, 12)
    epochs.clear()
    assert epochs.earliest is None


def test_a_log_reopened_goes_on_in_its_epoch() -> None:
    files = MemoryFiles()
    some_epochs(files).save()
    again = LeaderEpochs(files, "/d")
    assert again.appendable_epoch == 5
    again.loaded(21)
    assert again.appendable_epoch == 5 and again.latest_epoch == 5
    again.loaded(20)
    assert again.appendable_epoch == again.latest_epoch == LeaderEpochs(files, "/d").latest_epoch == 2
    again.truncate_from_end(10)
    assert again.appendable_epoch == again.latest_epoch == 0
    again.begin(7, 10)
    assert again.appendable_epoch == -1 and again.latest_epoch == 7
    other = MemoryFiles()
    other.mkdir("/d")
    assert LeaderEpochs(other, "/d").appendable_epoch == -1


def test_another_replicas_epochs_take_the_place_of_ones_own() -> None:
    files = MemoryFiles()
    epochs = some_epochs(files)
    given = [EpochEntry(4, 7)]
    epochs.replace(given)
    given.append(EpochEntry(9, 9))
    assert epochs.entries == LeaderEpochs(files, "/d").entries == [EpochEntry(4, 7)] and epochs.latest_epoch == 4


def test_what_changes_nothing_writes_nothing() -> None:
    files = MemoryFiles()
    epochs = some_epochs(files)
    epochs.save()
    epochs.truncate_from_start(4)
    files.hook = lambda call, path: Fault()
    epochs.truncate_from_end(21)
    epochs.truncate_from_start(4)
    epochs.truncate_from_start(3)
    epochs.loaded(99)
    assert epochs.entries == [(0, 4), (2, 10), (5, 20)]
    nothing = MemoryFiles()
    nothing.mkdir("/d")
    none = LeaderEpochs(nothing, "/d")
    nothing.hook = lambda call, path: Fault()
    none.clear()


def test_the_file_is_kafkas_and_comes_back() -> None:
    files = MemoryFiles()
    epochs = some_epochs(files)
    epochs.save()
    assert files.read("/d/leader-epoch-checkpoint") == b"0\n3\n0 0\n2 10\n5 20\n"
    epochs.truncate_from_end(20)
    epochs.truncate_from_start(4)
    assert files.read("/d/leader-epoch-checkpoint") == b"0\n2\n0 4\n2 10\n"
    again = LeaderEpochs(files, "/d")
    assert again.entries == epochs.entries and again.latest_epoch == 2
    assert again.end_offset_for(0, 30) == EpochEnd(0, 10)
    again.truncate_from_start(25)
    assert again.entries == [EpochEntry(2, 25)] and again.end_offset_for(1, 30) == EpochEnd(1, 25)
    again.clear()
    assert again.latest_epoch == -1 and again.end_offset_for(2, 30) == UNKNOWN_END


def in_place(files: MemoryFiles) -> bytes:
    return files.read("/d/leader-epoch-checkpoint") if files.exists("/d/leader-epoch-checkpoint") else b""


def test_an_epoch_reaches_its_file_with_the_flush_and_not_before() -> None:
    files = MemoryFiles()
    epochs = some_epochs(files)
    assert in_place(files) == b"" and epochs.staged is not None
    epochs.staged.run()
    assert in_place(files) == b"0\n3\n0 0\n2 10\n5 20\n"
    epochs.written(epochs.staged)
    assert epochs.staged is None and files.listdir("/d") == ["leader-epoch-checkpoint"]
    files.hook = lambda call, path: Fault()
    epochs.save()  # nothing is left to be written


def test_an_epoch_that_has_no_room_on_the_disk_is_not_known() -> None:
    files = MemoryFiles()
    epochs = some_epochs(files)
    before = epochs.staged
    files.hook = lambda call, path: Fault(errno.ENOSPC, written=3) if call == "pwrite" else None
    with pytest.raises(OSError, match="No space"):
        epochs.assign(6, 30)
    assert epochs.latest_epoch == epochs.appendable_epoch == 5 and epochs.staged is before
    assert len(files.listdir("/d")) == 1, "only the staged file is there"
    with pytest.raises(OSError, match="No space"):
        epochs.assign(6, 30, at_once=True)
    assert epochs.latest_epoch == 5 and epochs.staged is before


@pytest.mark.parametrize("at_once", [False, True])
def test_an_epoch_of_a_batch_that_was_not_written_is_gone_before_the_log_goes_on(at_once: bool) -> None:
    files = MemoryFiles()
    files.mkdir("/d")
    epochs = LeaderEpochs(files, "/d")
    before = epochs.entries
    epochs.assign(3, 5, at_once=at_once)
    epochs.not_written(before)
    assert epochs.entries == [] and epochs.latest_epoch == epochs.appendable_epoch == -1
    epochs.clear()  # the log goes on elsewhere, behind a snapshot
    assert epochs.staged is None and LeaderEpochs(files, "/d").entries == []


def test_an_epoch_that_begins_is_staged_with_its_first_batch() -> None:
    files = MemoryFiles()
    epochs = some_epochs(files)
    epochs.save()
    epochs.begin(6, 30)
    assert epochs.end_offset_for(6, 30) == EpochEnd(6, 30) and epochs.end_offset_for(5, 30) == EpochEnd(5, 30)
    assert epochs.staged is None and epochs.appendable_epoch != 6
    epochs.assign(6, 30)
    assert epochs.staged is not None and epochs.appendable_epoch == 6
    assert LeaderEpochs(files, "/d").entries == [*some_epochs().entries, EpochEntry(6, 30)], "a process that was killed leaves it behind"


def test_an_epoch_is_on_the_disk_at_once_where_cut_off_bytes_could_come_back() -> None:
    files = MemoryFiles()
    epochs = some_epochs(files)
    files.sync_dir("")
    epochs.assign(6, 30, at_once=True)
    after = files.crashed(random.Random(0))
    assert LeaderEpochs(after, "/d").entries == [*some_epochs().entries, EpochEntry(6, 30)]


def test_what_a_flush_was_given_is_taken_back_by_what_is_newer() -> None:
    files = MemoryFiles()
    epochs = some_epochs(files)
    late = epochs.staged
    assert late is not None
    epochs.truncate_from_end(20)
    late.run()  # it runs on its thread after all
    epochs.written(late)
    assert not late.is_in_place and in_place(files) == b"0\n2\n0 0\n2 10\n"
    epochs.assign(7, 20)
    early = epochs.staged
    assert early is not None
    early.run()
    epochs.truncate_from_end(20)
    epochs.written(early)
    assert in_place(files) == b"0\n2\n0 0\n2 10\n" and LeaderEpochs(files, "/d").entries == epochs.entries


@pytest.mark.parametrize("content", [b"0\n2\n0 0\n2 1", b"0\n2\n0 0\n", b"", b"\0\0", b"0\n1\n3 0\n", b"0\n2\n1 0\n2 10\n"])
def test_what_was_staged_counts_only_whole_and_if_it_goes_on_from_what_is_saved(content: bytes) -> None:
    files = MemoryFiles()
    files.mkdir("/d")
    files.write_atomically("/d/leader-epoch-checkpoint", b"0\n1\n0 0\n")
    files.open("/d/leader-epoch-checkpoint.4.next", create=True).pwrite([content], 0)
    epochs = LeaderEpochs(files, "/d")
    assert epochs.entries == [EpochEntry(0, 0)]
    epochs.assign(2, 10)
    assert files.exists("/d/leader-epoch-checkpoint.5.next")
    epochs.loaded(20)
    assert files.listdir("/d") == ["leader-epoch-checkpoint", "leader-epoch-checkpoint.5.next"]


def test_epochs_beyond_the_end_of_the_log_found_are_gone_before_an_older_one_grows_over_them() -> None:
    files = MemoryFiles()
    some_epochs(files).save()
    again = LeaderEpochs(files, "/d")
    again.loaded(20)
    assert again.latest_epoch == 2
    assert LeaderEpochs(files, "/d").entries == [EpochEntry(0, 0), EpochEntry(2, 10)]


def test_a_truncation_that_does_not_reach_the_disk_has_not_happened() -> None:
    files = MemoryFiles()
    epochs = some_epochs(files)
    epochs.save()
    files.hook = lambda call, path: Fault() if call == "sync" else None
    with pytest.raises(OSError, match="Input/output"):
        epochs.truncate_from_end(20)
    assert epochs.latest_epoch == 5 and LeaderEpochs(files, "/d").latest_epoch == 5


@pytest.mark.parametrize(
    ("garbage", "says"),
    [
        ("\n", "line 1 must be the version 0, it is ''"),
        ("1\n0\n", "line 1 must be the version 0, it is '1'"),
        ("0\n", "line 2 must be the number of entries, 0, it is ''"),
        ("0\nx\n", "line 2 must be the number of entries, 0, it is 'x'"),
        ("0\n2\n0 0\n", "line 2 must be the number of entries, 1, it is '2'"),
        ("0\n1\n0 0\n1 5\n", "line 2 must be the number of entries, 2, it is '1'"),
        ("0\n1\n0 x\n", "line 3 is malformed: '0 x'"),
        ("0\n2\n0 0\nx 5\n", "line 4 is malformed: 'x 5'"),
        ("0\n1\n0 0 0\n", "line 3 is malformed: '0 0 0'"),
        (f"0\n1\n0 {10**19}\n", f"line 3 is malformed: '0 {10**19}'"),
        ("0\n2\n3 0\n2 5\n", ""),
        ("0\n2\n3 0\n3 5\n", ""),
        ("0\n2\n2 9\n3 5\n", ""),
    ],
)
def test_garbage_is_refused_with_the_files_name(garbage: str, says: str) -> None:
    files = MemoryFiles()
    files.mkdir("/d")
    files.write_atomically("/d/leader-epoch-checkpoint", garbage.encode())
    with pytest.raises(CorruptCheckpoint) as error:
        LeaderEpochs(files, "/d")
    assert str(error.value).startswith("/d/leader-epoch-checkpoint") and says in str(error.value)


def test_a_file_that_was_only_made_has_no_epochs() -> None:
    files = MemoryFiles()
    files.mkdir("/d")
    files.write_atomically("/d/leader-epoch-checkpoint", b"")
    assert LeaderEpochs(files, "/d").entries == []
