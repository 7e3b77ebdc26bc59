"""The object store in a folder; the S3 API is tested with the whole broker."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.config import ConfigError
from moldau.storage.tiered.config import StoreConfig
from moldau.storage.tiered.store import Obstore

NAME = "t-0-AAAAAAAAAAAAAAAAAAAACQ/00000000000000000000-AAECAwQFBgcICQoLDA0ODw.log"


@pytest.fixture
def store(tmp_path: Path) -> Obstore:
    return Obstore.open(StoreConfig(url=f"file://{tmp_path}/tier"), "rsm.config.")


def test_what_was_put_is_there_in_whole_and_in_part(store: Obstore) -> None:
    store.put(NAME, (b"%05d" % number for number in range(1000)))
    assert bytes(store.get(NAME)) == b"".join(b"%05d" % number for number in range(1000))
    assert bytes(store.get(NAME, 5, 10)) == b"0000100002"
    assert bytes(store.get(NAME, 4990, 100)) == b"0099800999", "a range that goes beyond the end is cut"
    (found,) = store.list("t-0-AAAAAAAAAAAAAAAAAAAACQ/")
    assert (found.name, found.size) == (NAME, 5000) and found.modified_ms > 1_700_000_000_000
    assert not list(store.list("t-0/"))


def test_an_object_comes_to_be_all_at_once(store: Obstore, tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x" * (10 << 20)
        raise OSError("the disk failed")

    with pytest.raises(OSError, match="the disk failed"):
        store.put(NAME, broken())
    with pytest.raises(FileNotFoundError):
        store.get(NAME)


def test_what_is_deleted_leaves_nothing(store: Obstore, tmp_path: Path) -> None:
    store.put(NAME, [b"x"])
    folder = (tmp_path / "tier" / NAME).parent
    (folder / (Path(NAME).name + "#1")).write_bytes(b"a process was killed while it wrote this")
    store.delete([NAME, NAME.replace(".log", ".index")])
    store.delete([NAME])
    assert not folder.exists() or not list(folder.iterdir())


def test_without_the_library_the_start_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ConfigError, match=r"rsm\.config\.storage\.url.*pip install obstore"):
        Obstore.open(StoreConfig(url="file:///nowhere"), "rsm.config.")


def test_a_store_that_cannot_be_opened_names_the_key(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"rsm\.config\.storage\.url"):
        Obstore.open(StoreConfig(url=f"file://{tmp_path}/file/below"), "rsm.config.")
