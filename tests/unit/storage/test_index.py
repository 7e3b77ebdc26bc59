"""Indexes where the state machine of the property tests does not go: questions at the edges, files that are wrong, markers."""

import struct

import pytest

from moldau.storage.index import AbortedTransaction, CorruptIndex, OffsetIndex, TimeIndex, TransactionIndex
from moldau.testing.files import Fault, MemoryFiles

BASE = 1000
FIRST, SECOND, THIRD = AbortedTransaction(7, 0, 9, 10), AbortedTransaction(8, 4, 12, 13), AbortedTransaction(7, 20, 25, 26)


def offsets(files: MemoryFiles, *entries: tuple[int, int]) -> OffsetIndex:
    index = OffsetIndex(files, "/index", BASE)
    for last_offset, position in entries:
        index.append(last_offset, position)
    return index


@pytest.fixture(params=["active", "sealed"])
def three(request: pytest.FixtureRequest) -> OffsetIndex:
    """An index of three entries, which gives the same answers from memory and from the disk."""
    index = offsets(MemoryFiles(), (1004, 100), (1009, 200), (1019, 400))
    if request.param == "sealed":
        index.seal()
    assert index.is_active == (request.param == "active")
    return index


def test_where_to_look_for_an_offset(three: OffsetIndex) -> None:
    assert (three.count, three.size, three.last) == (3, 24, (19, 400))
    assert [three.position_before(offset) for offset in (1000, 1003, 1004, 1008, 1009, 1018, 1019, 9999)] == [
        0,
        0,
        100,
        100,
        200,
        200,
        400,
        400,
    ]
    assert [three.entry_before(offset) for offset in (1003, 1004, 1018)] == [None, (1004, 100), (1009, 200)]
    assert [three.position_some_entries_before_the_end(count) for count in (1, 2, 3, 4)] == [400, 200, 0, 0]
    assert [three.first_at_or_after(position) for position in (0, 100, 101, 200, 400, 401)] == [4, 4, 9, 9, 19, None]


@pytest.mark.parametrize(("offset", "left"), [(1004, 0), (1005, 1), (1019, 2), (1020, 3)])
def test_entries_below_an_offset_stay(offset: int, left: int) -> None:
    files = MemoryFiles()
    index = offsets(files, (1004, 100), (1009, 200), (1019, 400))
    index.save()
    index.truncate_to(offset)
    assert index.count == left and len(files.read("/index")) == left * 8
    index.append(1030, 500)
    index.save()
    assert files.read("/index")[-8:] == struct.pack(">ii", 30, 500) and len(files.read("/index")) == left * 8 + 8


def test_only_what_is_new_is_written() -> None:
    files = MemoryFiles()
    index = offsets(files, (1004, 100))
    index.save()
    index.append(1009, 200)
    written = []
    files.hook = lambda call, path: written.append(call) if call in ("pwrite", "truncate") else None
    index.save()
    index.save()
    assert written == ["pwrite"]
    files.hook = None
    assert files.read("/index") == struct.pack(">iiii", 4, 100, 9, 200)


def test_what_an_earlier_life_left_behind_goes_with_the_first_save() -> None:
    files = MemoryFiles()
    files.write_atomically("/index", bytes(80))
    index = offsets(files, (1004, 100))
    index.save()
    assert len(files.read("/index")) == 8


def test_a_sealed_index_comes_back_into_memory() -> None:
    files = MemoryFiles()
    index = offsets(files, (1004, 100), (1009, 200))
    index.seal()
    index.unseal()
    index.append(1019, 400)
    index.seal()
    adopted = OffsetIndex(files, "/index", BASE)
    adopted.adopt()
    assert (adopted.count, adopted.is_active, adopted.last) == (3, False, (19, 400))


@pytest.mark.parametrize(
    ("entries", "rest", "kept"),
    [
        ([(4, 100), (9, 200)], b"", 2),
        ([(4, 100), (9, 100)], b"", 2),  # two batches may be indexed at one position
        ([(0, 0)], b"", 1),
        ([(4, 100)], bytes(16), 1),  # Kafka preallocates zeros
        ([], bytes(16), 1),  # an entry at the very beginning, and a preallocated one
        ([(4, 100), (4, 200)], b"", None),
        ([(4, 100), (9, 99)], b"", None),
        ([(4, 100), (3, 200)], b"", None),
        ([(4, 100)], bytes(8) + struct.pack(">ii", 9, 200), None),
        ([(4, 100)], b"\0", None),
    ],
)
def test_what_a_file_may_hold(entries: list[tuple[int, int]], rest: bytes, kept: int | None) -> None:
    files = MemoryFiles()
    files.write_atomically("/index", b"".join(struct.pack(">ii", *entry) for entry in entries) + rest)
    index = OffsetIndex(files, "/index", BASE)
    if kept is None:
        with pytest.raises(CorruptIndex, match="/index"):
            index.load()
        return
    index.load()
    assert index.count == kept and len(files.read("/index")) == kept * 8


def test_a_torn_file_is_not_adopted() -> None:
    files = MemoryFiles()
    files.write_atomically("/index", bytes(7))
    with pytest.raises(CorruptIndex, match="no multiple of 8 bytes"):
        OffsetIndex(files, "/index", BASE).adopt()


def test_a_file_is_synced_once_there_is_one_and_found_under_another_name() -> None:
    files = MemoryFiles()
    index, aborted = offsets(files), TransactionIndex(files, "/txn")
    called: list[tuple[str, str]] = []
    files.hook = lambda call, path: called.append((call, path)) if call == "sync" else None
    index.sync()
    aborted.sync()
    assert called == []
    index.append(1004, 100)
    index.save()
    aborted.append(FIRST)
    files.rename("/index", "/index.swap")
    files.rename("/txn", "/txn.swap")
    index.moved_to("/index.swap")
    aborted.moved_to("/txn.swap")
    index.sync()
    aborted.sync()
    assert called == [("sync", "/index.swap"), ("sync", "/txn.swap")]
    index.append(1009, 200)
    index.save()
    aborted.append(SECOND)
    assert (len(files.read("/index.swap")), len(files.read("/txn.swap"))) == (16, 68)
    index.close()
    index.close()
    assert index.last == (9, 200)


def test_only_newer_timestamps_count() -> None:
    files = MemoryFiles()
    index = TimeIndex(files, "/times", BASE)
    for timestamp, offset in ((-1, 1000), (0, 1001), (50, 1004), (50, 1005), (49, 1009), (51, 1019)):
        index.maybe_append(timestamp, offset)
    assert index.count == 3
    assert [index.offset_before(timestamp) for timestamp in (-1, 0, 49, 50, 51)] == [1000, 1001, 1001, 1004, 1019]
    index.truncate_to(1019)
    assert index.last == (50, 4)
    index.truncate_to(1004)
    assert index.last == (0, 1)


# ------------------------------------------------------------ aborted transactions


def test_aborted_transactions_are_written_as_they_come_and_come_back() -> None:
    files = MemoryFiles()
    index = TransactionIndex(files, "/txn")
    assert index.entries() == [] and not index.is_unsynced and not files.exists("/txn")
    index.append(FIRST)
    index.append(SECOND)
    assert index.is_unsynced
    assert files.read("/txn") == struct.pack(">hqqqqhqqqq", 0, *FIRST, 0, *SECOND)
    assert TransactionIndex(files, "/txn").entries() == [FIRST, SECOND]
    assert [index.knows(offset) for offset in (11, 12, 13)] == [True, True, False]


@pytest.mark.parametrize(("offset", "left"), [(9, []), (10, [FIRST]), (12, [FIRST]), (13, [FIRST, SECOND])])
def test_a_truncation_takes_the_markers_beyond_it(offset: int, left: list[AbortedTransaction]) -> None:
    files = MemoryFiles()
    index = TransactionIndex(files, "/txn")
    index.append(FIRST)
    index.append(SECOND)
    index.is_unsynced = False
    index.truncate_to(offset)
    assert index.entries() == left and index.is_unsynced == (len(left) < 2)
    assert len(files.read("/txn")) == 34 * len(left)
    index.append(THIRD)
    assert TransactionIndex(files, "/txn").entries() == [*left, THIRD]


def test_nothing_is_written_while_a_recovery_looks() -> None:
    files = MemoryFiles()
    index = TransactionIndex(files, "/txn")
    index.append(FIRST)
    index.is_unsynced = False
    before = files.read("/txn")
    index.hold()
    index.forget()
    index.append(SECOND)
    assert files.read("/txn") == before and index.entries() == [SECOND]
    index.release()
    assert index.is_unsynced and TransactionIndex(files, "/txn").entries() == [SECOND]
    index.append(THIRD)
    assert TransactionIndex(files, "/txn").entries() == [SECOND, THIRD]
    index.hold()
    files.hook = lambda call, path: Fault()
    index.release()  # nothing was added meanwhile
    files.hook = None
    index.hold()
    index.forget()
    index.release()
    assert not files.exists("/txn") and index.entries() == []


@pytest.mark.parametrize(
    ("raw", "says"),
    [(b"", "0 bytes"), (bytes(33), "33 bytes"), (bytes(35), "35 bytes"), (b"\0\1" + bytes(32), "an entry of version 1")],
)
def test_a_wrong_file_of_aborted_transactions_is_refused(raw: bytes, says: str) -> None:
    files = MemoryFiles()
    files.write_atomically("/txn", raw)
    with pytest.raises(CorruptIndex, match=f"/txn has {says}"):
        TransactionIndex(files, "/txn").entries()
