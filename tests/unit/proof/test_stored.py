"""Each check of `proof.cluster.stored` finds what is wrong on disks."""

import struct
from pathlib import Path

import pytest

from moldau.protocol.records.builder import NewRecord, build_batch
from proof.cluster.stored import Written, around, different_histories, written, wrong_indexes


def replica(folder: Path) -> Path:
    """Two batches of the epochs 3 and 5, as any broker leaves them."""
    folder.mkdir()
    first = build_batch([NewRecord(value=b"1", timestamp=10), NewRecord(value=b"2", timestamp=30)], leader_epoch=3)
    second = build_batch([NewRecord(value=b"3", timestamp=20)], base_offset=2, leader_epoch=5)
    (folder / "00000000000000000000.log").write_bytes(bytes(first) + bytes(second))
    (folder / "00000000000000000000.index").write_bytes(struct.pack(">ii", 2, len(first)))
    (folder / "00000000000000000000.timeindex").write_bytes(struct.pack(">qi", 30, 1))
    (folder / "00000000000000000000.txnindex").write_bytes(b"")
    (folder / "leader-epoch-checkpoint").write_text("0\n3\n3 0\n4 2\n5 2\n", encoding="ascii")
    (folder / "00000000000000000003.snapshot").write_bytes(bytes(10) + b"a" * 46 + b"b" * 46)
    return folder


def test_replicas_that_say_the_same_are_well(tmp_path: Path) -> None:
    folders = {number: replica(tmp_path / str(number)) for number in (1, 2)}
    (folders[2] / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n5 2\n", encoding="ascii")  # no empty epoch here
    (folders[2] / "00000000000000000003.snapshot").write_bytes(bytes(10) + b"b" * 46 + b"a" * 46)
    assert list(different_histories("t-0", folders)) == []
    assert [wrong for folder in folders.values() for wrong in wrong_indexes(folder)] == []
    assert [line.split(",")[0] for line in around(folders[1], b"3")] == ["1 offsets 0 to 1", "1 offsets 2 to 2"]


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("leader-epoch-checkpoint", b"0\n2\n3 0\n5 1\n", "epochs differ"),
        ("00000000000000000000.txnindex", b"x" * 34, "transaction indexes differ"),
        ("00000000000000000003.snapshot", bytes(10) + b"a" * 46, "producers differ"),
    ],
)
def test_replicas_that_differ(file: str, content: bytes, told: str, tmp_path: Path) -> None:
    folders = {number: replica(tmp_path / str(number)) for number in (1, 2)}
    (folders[2] / file).write_bytes(content)
    assert [told in line for line in different_histories("t-0", folders)] == [True]


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("index", struct.pack(">ii", 2, 1), "offset 2 is not at 1"),
        ("index", struct.pack(">ii", 1, 0) * 2, "do not count up"),
        ("timeindex", struct.pack(">qi", 20, 2), "where it is 30"),
        ("timeindex", struct.pack(">qiqi", 30, 2, 30, 1), "do not count up"),
    ],
)
def test_an_index_that_says_what_the_log_does_not(file: str, content: bytes, told: str, tmp_path: Path) -> None:
    folder = replica(tmp_path / "1")
    (folder / f"00000000000000000000.{file}").write_bytes(content)
    assert [told in line for line in wrong_indexes(folder)] == [True]


def test_what_a_producer_sends_again_under_a_newer_epoch_is_its_own_doing_and_nothing_else_is(tmp_path: Path) -> None:
    def batch(producer_id: int, epoch: int, *values: int) -> bytes:
        records = [NewRecord(value=b"%d" % value, timestamp=10) for value in values]
        return bytes(build_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0))

    def found(*batches: bytes) -> Written:
        (tmp_path / "00000000000000000000.log").write_bytes(b"".join(batches))
        return written(tmp_path)

    again = found(batch(7, 0, 1, 2, 3), batch(7, 1, 2, 3), batch(7, 1, 4))
    assert (again.values, again.sent_once, again.resent) == ([1, 2, 3, 2, 3, 4], [1, 2, 3, 4], 2)
    assert (3, 2) in again.seams
    for twice in (
        found(batch(7, 0, 1, 2), batch(7, 0, 2)),
        found(batch(7, 1, 1, 2), batch(7, 0, 2)),
        found(batch(7, 0, 1, 2), batch(8, 1, 2)),
    ):
        assert (twice.sent_once, twice.resent, twice.seams) == ([1, 2, 2], 0, set())
    assert found(batch(7, 0, 1, 2), batch(7, 1, 2), batch(7, 1, 2)).sent_once == [1, 2, 2], "the second is in the newer epoch"
