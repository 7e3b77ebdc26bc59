"""One whole node, unchanged, on a simulated loop: files and network in memory, time that jumps."""

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from moldau.errors import ErrorCode
from moldau.metadata.formatting.storage import FormatRequest, format_storage
from moldau.net.channel import Channel
from moldau.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from moldau.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from moldau.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from moldau.protocol.records.batch import batches, records_of
from moldau.protocol.records.builder import NewRecord, build_batch
from moldau.raft.voters import Address
from moldau.server.node.config import NodeConfig
from moldau.server.node.node import Node
from moldau.server.node.outside import Outside
from moldau.testing.clock import EPOCH_MS, SimClock
from moldau.testing.files import MemoryFiles
from moldau.testing.loop import Machine, SimLoop
from moldau.testing.network import SimNetwork

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
PORT, CONTROLLER_PORT = 9092, 9093


def node_config(**changed: str) -> NodeConfig:
    return NodeConfig.parse(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"server:{CONTROLLER_PORT}",
            "listeners": f"PLAINTEXT://:{PORT},CONTROLLER://:{CONTROLLER_PORT}",
            "advertised.listeners": f"PLAINTEXT://server:{PORT}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": "/data",
        }
        | {key.replace("__", "."): value for key, value in changed.items()}
    )


class World:
    """One server and one client."""

    def __init__(self, *, formatted: bool = True, folders: tuple[str, ...] = ("/data",)) -> None:
        self.folders = folders
        self.loop = SimLoop()
        self.network = SimNetwork(self.loop, seed=1)
        self.files = MemoryFiles(seed=1, slow_ms=1)
        self.client = self.machine("client")
        self.server = self.machine("server")
        self.chance = random.Random(2)
        if formatted:
            self.format()

    def machine(self, host: str) -> Machine:
        machine = Machine(host)
        self.network.add(machine)
        return machine

    def format(self, *, cluster_id: str = CLUSTER_ID, node_id: int = 1) -> None:
        request = FormatRequest(
            cluster_id=cluster_id,
            node_id=node_id,
            log_dirs=list(self.folders),
            metadata_log_dir=self.folders[0],
            is_controller=True,
            has_static_voters=False,
            controller_address=Address("CONTROLLER", "server", CONTROLLER_PORT),
            standalone=True,
        )
        ids = random.Random(3)
        format_storage(
            self.files,
            request,
            now_ms=EPOCH_MS,
            new_id=lambda: UUID(int=ids.getrandbits(128), version=4),
            new_salt=lambda: ids.randbytes(16),
        )

    def run(self, machine: Machine, work: Coroutine[Any, Any, Any]) -> Any:
        result = self.loop.run_until_complete(self.loop.start(machine, work))
        assert not self.loop.failures, self.loop.failures
        return result

    def up(self, **changed: str) -> Node:
        async def start() -> Node:
            outside = Outside(files=self.files, network=self.network, clock=SimClock(self.loop), random=self.chance)
            return await Node.start(node_config(**changed), outside)

        node: Node = self.run(self.server, start())
        return node

    def crash(self) -> None:
        """The power fails: what was not synced may be lost."""
        self.loop.kill(self.server)
        self.network.crash(self.server, silently=False)
        self.files = self.files.crashed(self.chance)
        self.server = self.machine("server")

    def talk(self, dialogue: Callable[[Channel], Coroutine[Any, Any, Any]]) -> Any:
        async def work() -> Any:
            channel = await Channel.connect(self.network, "server", PORT, client_id="test", timeout_s=10)
            try:
                return await dialogue(channel)
            finally:
                channel.close()

        return self.run(self.client, work())


async def wait_a_second(channel: Channel) -> None:
    await asyncio.sleep(1)


async def create(channel: Channel, topic: str, partitions: int = 1) -> None:
    made = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    response = await channel.send(CreateTopicsRequest(topics=[made], timeout_ms=5000))
    assert response.topics[0].error_code == ErrorCode.NONE


async def produce(channel: Channel, topic: str, *values: bytes, acks: int = -1) -> int:
    data = memoryview(build_batch([NewRecord(EPOCH_MS, None, value) for value in values]))
    request = ProduceRequest(
        acks=acks,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=data)])],
    )
    slot = (await channel.send(request, 9)).responses[0].partition_responses[0]
    assert slot.error_code == ErrorCode.NONE, slot
    return slot.base_offset


async def fetch(channel: Channel, topic: str, offset: int = 0, *, max_wait_ms: int = 0) -> list[bytes]:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, session_epoch=-1, topics=[FetchTopic(topic=topic, partitions=[wanted])])
    found = (await channel.send(request, 12)).responses[0].partitions[0]
    assert found.error_code == ErrorCode.NONE, found
    data = memoryview(bytes(found.records or b""))  # type: ignore[arg-type]
    return [
        bytes(record.value or b"") for position, header in batches(data) for record in records_of(data[position : position + header.size])
    ]
