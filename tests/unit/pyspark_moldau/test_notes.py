"""A note is taken by one process at most, and a file that is no note says nothing and stops nobody."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Final
from uuid import uuid4

import pytest

from pyspark_moldau import private
from pyspark_moldau.notes import Note, leave, take
from pyspark_moldau.private import private_folder

NAME: Final = "0123abcd"
TAKERS: Final = 8
ROUNDS: Final = 50


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(private.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path


def a_token() -> str:
    return uuid4().hex


def left_over() -> list[str]:
    return sorted(path.name for path in private_folder().iterdir())


@pytest.mark.parametrize("note", [Note(0, 0), Note(4_000, 17), Note(2**63 - 1, 2**15 - 1)])
def test_a_note_is_taken_once(note: Note) -> None:
    leave(NAME, note, a_token())
    assert left_over() == [NAME]
    assert (take(NAME, a_token()), take(NAME, a_token())) == (note, None)
    assert not left_over()


def test_the_newest_note_counts_and_notes_of_other_names_stay() -> None:
    for name, epoch in ((NAME, 1), ("other", 2), (NAME, 3)):
        leave(name, Note(5, epoch), a_token())
    assert (take(NAME, a_token()), take("other", a_token())) == (Note(5, 3), Note(5, 2))


def test_of_many_takers_one_gets_it() -> None:
    together = Barrier(TAKERS)

    def taken(_: int) -> Note | None:
        together.wait()
        return take(NAME, a_token())

    with ThreadPoolExecutor(TAKERS) as takers:
        for number in range(ROUNDS):
            leave(NAME, Note(number, 0), a_token())
            found = list(takers.map(taken, range(TAKERS)))
            assert [one for one in found if one is not None] == [Note(number, 0)]


@pytest.mark.parametrize("length", range(len(b"epoch 4000 17\n")))
def test_a_half_written_note_says_nothing(length: int) -> None:
    (private_folder() / NAME).write_bytes(b"epoch 4000 17\n"[:length])
    assert take(NAME, a_token()) is None
    assert not left_over()


@pytest.mark.parametrize(
    "held",
    [
        bytes(14),
        uuid4().hex.encode(),  # the form of an older release
        b"epoch -1 0\n",
        b"epoch 1 -1\n",
        b"epoch 1 2\n\n",
        b"epoch 1 2\nepoch 1 3\n",
        b"epoch 1 2 3\n",
        b"epoch 12345678901234567890 0\n",
        "epoch ١ ٢\n".encode(),
        b"[" * 100_000,
    ],
    ids=["zeros", "older", "no producer", "no epoch", "a line more", "two", "three numbers", "too large", "other digits", "long"],
)
def test_what_is_no_note_says_nothing(held: bytes) -> None:
    (private_folder() / NAME).write_bytes(held)
    assert take(NAME, a_token()) is None
    assert not left_over()


def a_link(file: Path) -> None:
    (file.parent / "elsewhere").write_bytes(b"epoch 4000 17\n")
    file.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, a_link], ids=["pipe", "folder", "link"])
def test_what_is_no_file_is_refused_and_stands_in_nobody_s_way(make: Callable[[Path], None]) -> None:
    make(private_folder() / NAME)
    with pytest.raises(OSError, match=r"is not a file of this user|symbolic links"):
        take(NAME, a_token())
    leave(NAME, Note(4_000, 17), a_token())
    assert take(NAME, a_token()) == Note(4_000, 17)


def test_what_cannot_be_left_leaves_no_file() -> None:
    (private_folder() / NAME).mkdir()
    with pytest.raises(IsADirectoryError):
        leave(NAME, Note(4_000, 17), a_token())
    assert left_over() == [NAME]


def test_a_folder_of_somebody_else_is_not_believed(temporary: Path) -> None:
    leave(NAME, Note(4_000, 17), a_token())
    next(temporary.iterdir()).chmod(0o755)
    with pytest.raises(PermissionError):
        take(NAME, a_token())
    with pytest.raises(PermissionError):
        leave(NAME, Note(4_000, 18), a_token())
