"""The offsets of a worker alone: in a file that is whole at any moment, and that a Java worker's spelling of keys stays in."""

import errno
import random

import pytest

from moldau.connect.errors import ConfigError, ConnectError
from moldau.connect.store.java_map import decode, encode
from moldau.connect.store.local_log import OffsetFile
from moldau.connect.store.offsets import OffsetState, offset_record
from moldau.testing.files import Fault, MemoryFiles

PATH = "/connect/offsets"


def a_disk() -> MemoryFiles:
    files = MemoryFiles()
    files.mkdir("/connect")
    files.sync_everything()
    return files


async def opened(files: MemoryFiles) -> tuple[OffsetFile, OffsetState]:
    state = OffsetState()
    file = OffsetFile(files, PATH, lambda _, key, value: state.replay(key, value))
    await file.start()
    return file, state


async def test_offsets_are_there_after_a_power_loss() -> None:
    files = a_disk()
    file, _ = await opened(files)
    await file.write([offset_record("lines", {"filename": "/a"}, {"position": 1})])
    await file.write([offset_record("lines", {"filename": "/b"}, {"position": 2})])
    for seed in range(20):
        _, state = await opened(files.crashed(random.Random(seed)))
        assert state.offsets("lines") == [({"filename": "/a"}, {"position": 1}), ({"filename": "/b"}, {"position": 2})]


async def test_a_tombstone_takes_the_offset_out() -> None:
    files = a_disk()
    file, state = await opened(files)
    await file.write([offset_record("lines", {"filename": "/a"}, {"position": 1})])
    await file.write([offset_record("lines", {"filename": "/a"}, None)])
    assert state.offsets("lines") == []
    assert decode(files.read(PATH)) == []


async def test_a_key_of_another_order_is_the_same_key_and_stays_as_it_was() -> None:
    javas = b'["c",{"topic":"t","cluster":"a"}]'
    files = a_disk()
    files.write_atomically(PATH, encode([(javas, b'{"offset":1}'), (b'["c",{"x":1}]', None)]))
    file, state = await opened(files)
    assert state.offset("c", {"cluster": "a", "topic": "t"}) == {"offset": 1}
    await file.write([offset_record("c", {"cluster": "a", "topic": "t"}, {"offset": 2})])
    assert decode(files.read(PATH)) == [(javas, b'{"offset":2}')]


async def test_a_write_that_fails_leaves_the_offsets_as_they_were() -> None:
    files = a_disk()
    file, state = await opened(files)
    await file.write([offset_record("c", {"x": 1}, {"n": 1})])
    files.hook = lambda call, path: Fault(errno.ENOSPC) if call == "pwrite" else None
    with pytest.raises(ConnectError, match="cannot be written"):
        await file.write([offset_record("c", {"x": 1}, {"n": 2})])
    files.hook = None
    assert state.offset("c", {"x": 1}) == {"n": 1}
    await file.write([offset_record("c", {"y": 1}, {"n": 3})])
    assert dict(decode(files.read(PATH))) == {b'["c",{"x":1}]': b'{"n":1}', b'["c",{"y":1}]': b'{"n":3}'}


async def test_a_damaged_file_is_refused_and_not_taken_for_a_new_one() -> None:
    files = a_disk()
    files.write_atomically(PATH, encode([(b"[]", b"{}")])[:-1])
    with pytest.raises(ConnectError, match="/connect/offsets is no file of offsets"):
        await opened(files)


async def test_two_workers_do_not_share_a_file() -> None:
    files = a_disk()
    await opened(files)
    with pytest.raises(ConnectError, match="in use"):
        await opened(files)


async def test_a_folder_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value /connect/offsets for configuration offset\.storage\.file\.filename"):
        await opened(MemoryFiles())
