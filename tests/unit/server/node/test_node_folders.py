"""Several folders of one node: replicas move, disks fail or are full, and no log is mistaken for another."""

import asyncio
import errno

import pytest

from moldau.errors import ErrorCode
from moldau.net.channel import Channel
from moldau.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDir, AlterReplicaLogDirsRequest, AlterReplicaLogDirTopic
from moldau.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.server.node.folders import StartRefused
from moldau.testing.clock import EPOCH_MS
from moldau.testing.files import Fault
from moldau.types import TopicPartition, uuid_from_text
from tests.unit.server.node.one_node import PORT, World, create, fetch, produce

TWO_FOLDERS = {"log__dirs": "/data,/more"}


async def partitions_in(channel: Channel, folder: str) -> dict[int, bool]:
    """The partitions of the topic orders in a folder, each with whether it is on its way to the folder."""
    for result in (await channel.send(DescribeLogDirsRequest(topics=None))).results:
        if result.log_dir == folder:
            assert result.error_code == ErrorCode.NONE, folder
            return {one.partition_index: one.is_future_key for topic in result.topics for one in topic.partitions}
    raise AssertionError(folder)


async def alter(channel: Channel, folder: str, topic: str = "orders", partition: int = 0) -> int:
    wanted = AlterReplicaLogDir(path=folder, topics=[AlterReplicaLogDirTopic(name=topic, partitions=[partition])])
    (answered,) = (await channel.send(AlterReplicaLogDirsRequest(dirs=[wanted]))).results
    return answered.partitions[0].error_code


def test_partitions_are_spread_over_folders_and_the_controller_knows_where() -> None:
    world = World(folders=("/data", "/more"))
    node = world.up(**TWO_FOLDERS)

    async def dialogue(channel: Channel) -> None:
        await create(channel, "orders", 4)
        here, there = await partitions_in(channel, "/data"), await partitions_in(channel, "/more")
        assert len(here) == len(there) == 2 and here.keys() | there.keys() == {0, 1, 2, 3}
        await asyncio.sleep(1)
        ids = {directory.path: directory.directory_id for directory in node.broker.logs.directories}
        said = [partition.directories[0] for partition in node.shared.loader.image.topics["orders"].partitions]
        assert said == [ids["/data" if number in here else "/more"] for number in range(4)]

    world.talk(dialogue)


def test_a_replica_moves_to_another_folder_while_it_serves() -> None:
    world = World(folders=("/data", "/more"))
    node = world.up(**TWO_FOLDERS)

    async def dialogue(channel: Channel) -> str:
        await create(channel, "orders")
        source = node.broker.logs.directory_of(TopicPartition("orders", 0)).path
        target = "/more" if source == "/data" else "/data"
        for number in range(30):
            await produce(channel, "orders", b"%d" % number)
        assert await alter(channel, "/elsewhere") == ErrorCode.LOG_DIR_NOT_FOUND
        assert await alter(channel, target, "unknown") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await alter(channel, target, "x" * 249) == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert await alter(channel, source) == ErrorCode.NONE
        assert await alter(channel, target) == ErrorCode.NONE
        for number in range(30, 60):
            await produce(channel, "orders", b"%d" % number)
        await asyncio.sleep(2)
        assert await partitions_in(channel, target) == {0: False} and await partitions_in(channel, source) == {}
        for number in range(60, 70):
            await produce(channel, "orders", b"%d" % number)
        assert await fetch(channel, "orders") == [b"%d" % number for number in range(70)]
        await asyncio.sleep(1)
        moved_to = node.broker.logs.directory_of(TopicPartition("orders", 0))
        assert node.shared.loader.image.topics["orders"].partitions[0].directories == (moved_to.directory_id,)
        return target

    target = world.talk(dialogue)
    world.crash()
    world.up(**TWO_FOLDERS)

    async def afterwards(channel: Channel) -> None:
        assert await partitions_in(channel, target) == {0: False}
        assert await fetch(channel, "orders") == [b"%d" % number for number in range(70)]

    world.talk(afterwards)


def test_a_move_that_a_crash_broke_off_begins_again() -> None:
    world = World(folders=("/data", "/more"))
    node = world.up(**TWO_FOLDERS, replica__alter__log__dirs__io__max__bytes__per__second="1")

    async def dialogue(channel: Channel) -> str:
        await create(channel, "orders")
        source = node.broker.logs.directory_of(TopicPartition("orders", 0)).path
        await produce(channel, "orders", b"one")
        target = "/more" if source == "/data" else "/data"
        assert await alter(channel, target) == ErrorCode.NONE
        await asyncio.sleep(1)
        assert await partitions_in(channel, source) == {0: False} and await partitions_in(channel, target) == {0: True}
        return source

    source = world.talk(dialogue)
    world.crash()
    world.up(**TWO_FOLDERS)

    async def afterwards(channel: Channel) -> None:
        await asyncio.sleep(2)
        assert await partitions_in(channel, source) == {}
        assert await fetch(channel, "orders") == [b"one"]

    world.talk(afterwards)


def test_a_folder_whose_disk_fails_goes_offline_and_the_others_serve_on() -> None:
    world = World(folders=("/data", "/more"))
    node = world.up(**TWO_FOLDERS)

    async def before(channel: Channel) -> tuple[str, str]:
        await create(channel, "first")
        await create(channel, "second")
        await produce(channel, "first", b"one")
        await produce(channel, "second", b"two")
        await asyncio.sleep(1)
        by_folder = {node.broker.logs.directory_of(where).path: where.topic for where in node.broker.logs.logs}
        return by_folder["/data"], by_folder["/more"]

    well, ill = world.talk(before)

    def fail(call: str, path: str) -> Fault | None:
        return Fault(errno.EIO) if path.startswith("/more") else None

    async def during(channel: Channel) -> None:
        request = ProduceRequest(
            acks=-1,
            timeout_ms=5000,
            topic_data=[
                TopicProduceData(
                    name=ill,
                    partition_data=[PartitionProduceData(index=0, records=memoryview(build_batch([NewRecord(EPOCH_MS, None, b"x")])))],
                )
            ],
        )
        assert (await channel.send(request, 9)).responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await produce(channel, well, b"more") == 1
        told = {one.log_dir: one.error_code for one in (await channel.send(DescribeLogDirsRequest(topics=None))).results}
        assert told == {"/data": ErrorCode.NONE, "/more": ErrorCode.KAFKA_STORAGE_ERROR}
        assert await alter(channel, "/more", well) == ErrorCode.KAFKA_STORAGE_ERROR
        await asyncio.sleep(5)
        assert node.shared.loader.image.topics[ill].partitions[0].leader == -1, "the controller was told"

    world.files.hook = fail
    world.talk(during)
    world.crash()
    world.files.hook = fail
    world.up(**TWO_FOLDERS)

    async def still(channel: Channel) -> None:
        assert await fetch(channel, well) == [b"one" if well == "first" else b"two", b"more"]
        assert await partitions_in(channel, "/data") == {0: False}, "no empty log stands in for the one that is offline"

    world.talk(still)
    world.crash()
    world.up(**TWO_FOLDERS)
    assert world.talk(lambda channel: fetch(channel, ill)) == [b"two" if well == "first" else b"one"]


def test_a_full_disk_refuses_what_it_has_no_room_for_and_goes_on_when_it_has(caplog: pytest.LogCaptureFixture) -> None:
    """Kafka's broker ends.  Ours refuses records and keeps acknowledged ones; checkpoints, leader epochs, new logs and metadata wait."""
    world = World()
    options = {"offsets__topic__replication__factor": "1", "log__retention__check__interval__ms": "1000"}
    node = world.up(**options)

    async def code_of(channel: Channel, topic: str) -> int:
        data = memoryview(build_batch([NewRecord(EPOCH_MS, None, b"x")]))
        wanted = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])]
        response = await channel.send(ProduceRequest(acks=-1, timeout_ms=5000, topic_data=wanted), 9)
        code: int = response.responses[0].partition_responses[0].error_code
        return code

    async def commit(channel: Channel) -> int:
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
        topics = [OffsetCommitRequestTopic(name="orders", partitions=[partition])]
        code: int = (
            (await channel.send(OffsetCommitRequest(group_id="g", member_id="", topics=topics), 8)).topics[0].partitions[0].error_code
        )
        return code

    async def until_committed(channel: Channel) -> None:
        for _ in range(100):
            if (await channel.send(FindCoordinatorRequest(key="g"), 3)).error_code == 0 and await commit(channel) == ErrorCode.NONE:
                return
            await asyncio.sleep(0.1)
        raise AssertionError("no coordinator takes commits")

    async def before(channel: Channel) -> None:
        await create(channel, "orders")
        await produce(channel, "orders", b"one")
        await until_committed(channel)

    async def during(channel: Channel) -> None:
        assert await code_of(channel, "orders") == ErrorCode.KAFKA_STORAGE_ERROR
        assert await commit(channel) != ErrorCode.NONE
        other = await Channel.connect(world.network, "server", PORT, client_id="test", timeout_s=1000)
        waiting = asyncio.get_running_loop().create_task(create(other, "later"))
        await asyncio.sleep(70)  # long enough for everything that is done from time to time
        assert await code_of(channel, "orders") == ErrorCode.KAFKA_STORAGE_ERROR
        assert not waiting.done() and not node.failed.done()
        world.files.hook = None
        await waiting
        other.close()
        await asyncio.sleep(2)
        assert await produce(channel, "later", b"first") == 0
        assert await produce(channel, "orders", b"two") == 1
        await until_committed(channel)

    world.talk(before)
    world.files.hook = lambda call, path: Fault(errno.ENOSPC, written=1) if call == "pwrite" else None
    world.talk(during)
    assert "No space left" in caplog.text and "Make room" in caplog.text
    world.crash()
    world.up()
    assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one", b"two"]
    assert world.talk(lambda channel: fetch(channel, "later")) == [b"first"]


def test_a_stop_on_a_full_disk_ends_and_claims_no_clean_stop_and_the_records_are_on_the_disk(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    options = {"log__flush__policy": "os"}
    node = world.up(**options)
    world.talk(lambda channel: create(channel, "orders"))
    world.talk(lambda channel: produce(channel, "orders", b"one", b"two", acks=1))
    world.files.hook = lambda call, path: Fault(errno.ENOSPC, written=1) if call == "pwrite" else None
    world.run(world.server, node.stop())
    assert node.failed.done(), "the process says so with its exit code"
    assert "/data was not closed whole, and its next start recovers its logs: [Errno 28] No space left" in caplog.text
    assert not world.files.exists("/data/.kafka_cleanshutdown") and not world.files.held_locks
    world.crash()
    world.up(**options)
    assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one", b"two"]


def test_of_two_folders_the_one_with_room_is_stopped_cleanly() -> None:
    world = World(folders=("/data", "/more"))
    node = world.up(**TWO_FOLDERS)
    world.talk(lambda channel: create(channel, "orders", partitions=2))
    world.files.hook = lambda call, path: Fault(errno.ENOSPC) if call == "pwrite" and path.startswith("/more/") else None
    world.run(world.server, node.stop())
    assert node.failed.done()
    assert world.files.exists("/data/.kafka_cleanshutdown") and not world.files.exists("/more/.kafka_cleanshutdown")


def test_logs_that_the_cluster_does_not_know_are_kept_under_another_name() -> None:
    world = World()
    world.up()
    world.talk(lambda channel: create(channel, "orders"))
    world.talk(lambda channel: produce(channel, "orders", b"one"))
    world.crash()
    world.files.mkdir("/data/gone-3")
    world.files.write_atomically("/data/gone-3/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAA_w\n")
    world.files.mkdir("/data/orders-7")
    world.files.sync_dir("/data")
    node = world.up()
    assert list(node.broker.logs.logs) == [TopicPartition("orders", 0)]
    assert [name.partition(".")[0] for name in world.files.listdir("/data") if name.endswith("-stray")] == ["gone-3", "orders-7"]
    assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one"]


def same_id(one: bytes, other: bytes) -> bool:
    try:
        return uuid_from_text(one.decode().split()[-1]) == uuid_from_text(other.decode().split()[-1])
    except ValueError:
        return False


@pytest.mark.parametrize("bit", range(0, 22 * 8, 5))
def test_a_damaged_topic_id_never_puts_an_empty_log_in_the_place_of_a_full_one(bit: int) -> None:
    world = World()
    world.up()
    world.talk(lambda channel: create(channel, "orders"))
    world.talk(lambda channel: produce(channel, "orders", b"one"))
    world.crash()
    path = "/data/orders-0/partition.metadata"
    before = world.files.read(path)
    content = bytearray(before)
    content[len(b"version: 0\ntopic_id: ") + bit // 8] ^= 1 << bit % 8
    world.files.write_atomically(path, content)
    if same_id(before, bytes(content)):
        world.up()  # the last character has bits that say nothing
        assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one"]
    else:
        with pytest.raises(StartRefused, match=r"partition\.metadata"):
            world.up()


def test_a_log_without_a_topic_id_is_that_of_its_name() -> None:
    world = World()
    world.up()
    world.talk(lambda channel: create(channel, "orders"))
    world.talk(lambda channel: produce(channel, "orders", b"one"))
    world.crash()
    world.files.unlink("/data/orders-0/partition.metadata")
    world.up()
    assert world.talk(lambda channel: fetch(channel, "orders")) == [b"one"]
