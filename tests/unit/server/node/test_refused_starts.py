"""A node that refuses to start says why, and leaves the folders as they are."""

from uuid import UUID

import pytest

from moldau.server.node.folders import StartRefused
from moldau.server.node.publisher import Publisher
from moldau.storage.folders.checkpoints import MetaProperties
from tests.unit.server.node.one_node import CLUSTER_ID, CONTROLLER_PORT, PORT, World, create, fetch, produce


def test_a_start_that_cannot_follow_the_metadata_says_so_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    def fail(*_: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(Publisher, "publish", fail)
    assert refused(world) == "the metadata cannot be followed: planted"
    assert world.loop.time() < 10, "the start is not tried for as long as a controller may be away"
    monkeypatch.undo()
    world.up()


def refused(world: World, **changed: str) -> str:
    with pytest.raises(StartRefused) as caught:
        world.up(**changed)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_metadata_log_has_a_folder_of_its_own() -> None:
    world = World(folders=("/metadata", "/data"))
    apart = {"log__dirs": "/data", "metadata__log__dir": "/metadata"}
    node = world.up(**apart)
    world.talk(lambda channel: create(channel, "orders"))
    world.talk(lambda channel: produce(channel, "orders", b"one"))
    assert world.files.is_dir("/metadata/__cluster_metadata-0") and not world.files.exists("/data/__cluster_metadata-0")
    world.run(world.server, node.stop())
    world.network.crash(world.server, silently=False)
    world.server = world.machine("server")
    world.up(**apart)
    assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one"]


def test_a_folder_that_was_not_formatted_says_how() -> None:
    world = World(formatted=False)
    world.files.mkdir("/data")
    assert "storage format" in refused(world)
    assert world.files.listdir("/data") == []


def test_a_folder_that_is_not_there_is_not_made() -> None:
    world = World(formatted=False)
    assert "storage format" in refused(world)
    assert not world.files.is_dir("/data")


def test_a_folder_of_another_node_says_so() -> None:
    world = World(formatted=False)
    world.format(node_id=7)
    before = world.files.listdir("/data")
    assert "node.id=7" in refused(world)
    assert world.files.listdir("/data") == before


def test_a_refused_start_is_no_stop() -> None:
    """The controller decides by the notes of the last stop whether to trust the replicas here, in the folders without logs too."""
    world = World(folders=("/data", "/more"))
    folders = "/data,/more"
    node = world.up(log__dirs=folders)
    world.run(world.server, node.stop())
    noted = {path: world.files.read(path) for path in ("/data/.kafka_cleanshutdown", "/more/.kafka_cleanshutdown")}
    world.network.crash(world.server, silently=False)
    world.server = world.machine("server")
    _with_taken_port(world, log__dirs=folders)
    assert {path: world.files.read(path) for path in noted} == noted


def test_a_first_start_that_is_refused_notes_nothing() -> None:
    world = World()
    before = set(world.files.listdir("/data"))
    _with_taken_port(world)
    assert set(world.files.listdir("/data")) <= {*before, ".lock"}


def test_folders_of_two_clusters_say_so() -> None:
    world = World()
    world.files.mkdir("/more")
    world.files.write_atomically("/more/meta.properties", MetaProperties("somebodyElse", 1, UUID(int=1 << 100)).text())
    text = refused(world, log__dirs="/data,/more")
    assert "somebodyElse" in text and CLUSTER_ID in text


def test_a_second_start_on_the_same_folders_leaves_the_first_alone() -> None:
    world = World()
    world.up()
    world.talk(lambda channel: create(channel, "orders"))
    before = world.server
    world.server = world.machine("other")
    assert "/data is in use" in refused(world)
    world.server = before
    assert world.talk(lambda channel: produce(channel, "orders", b"still here")) == 0


def test_a_busy_port_says_which() -> None:
    world = World()
    assert f"listeners=CONTROLLER://:{PORT + 1}" in _with_taken_port(world)


def _with_taken_port(world: World, **changed: str) -> str:
    async def take() -> None:
        await world.network.listen("", CONTROLLER_PORT, lambda transport: None)

    world.run(world.server, take())
    return refused(world, **changed)
