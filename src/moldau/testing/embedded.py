"""● A broker inside a test's own process: real sockets, real files in a folder that goes away, any Kafka client.

    with EmbeddedBroker() as broker:                          # `async with` as well
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

The broker runs on a loop of its own in a thread of its own, so that blocking clients and clients on the test's loop can both use it.  It
does not wait for the disk: an acknowledged record is in the page cache, which is enough for a test.  The pytest fixture `moldau_broker`
gives one broker to a whole session.
"""

import asyncio
import random
import shutil
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from uuid import UUID

from moldau.clock import SystemClock
from moldau.metadata.formatting.storage import FormatRequest, format_storage
from moldau.net.sockets import SystemNetwork
from moldau.raft.voters import Address
from moldau.server.node.config import NodeConfig
from moldau.server.node.node import Node
from moldau.server.node.outside import Outside
from moldau.storage.files import SystemFiles
from moldau.testing.calls import Calls
from moldau.testing.faults import Faults, FaultyNetwork, MovableClock
from moldau.types import uuid_to_text

HOST: Final = "127.0.0.1"
START_WITHIN_S: Final = 120.0
STOP_WITHIN_S: Final = 120.0
DEFAULTS: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": f"{HOST}:0",
    "listeners": f"PLAINTEXT://{HOST}:0,CONTROLLER://{HOST}:0",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.num.partitions": "5",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "5",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "5",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.flush.policy": "os",
}


class EmbeddedBroker(Calls):
    """A broker; see the module.  `directory` keeps the data; without it the data goes with the broker."""

    def __init__(self, *, properties: Mapping[str, str] | None = None, directory: Path | None = None) -> None:
        self._owns_directory = directory is None
        self._directory = directory or Path(tempfile.mkdtemp(prefix="moldau-embedded-"))
        self._properties = {**DEFAULTS, "log.dirs": str(self._directory / "data"), **(properties or {})}
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._port = 0
        self.faults: Final = Faults()
        """The faults of the next requests."""

    @property
    def bootstrap_servers(self) -> str:
        assert self._thread is not None, "the broker is not running"
        return f"{HOST}:{self._port}"

    @property
    def bootstrap(self) -> str:
        """The same as `bootstrap_servers`."""
        return self.bootstrap_servers

    @property
    def port(self) -> int:
        assert self._thread is not None, "the broker is not running"
        return self._port

    def start(self) -> None:
        """Start the broker.  Errors: the error that keeps the node from starting."""
        assert self._thread is None, "the broker is running already"
        started: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(started)), name="moldau-embedded", daemon=True)
        self._thread.start()
        try:
            self._port = started.result(START_WITHIN_S)
        except BaseException:
            self._thread = None
            raise

    def stop(self) -> None:
        """Stop the broker cleanly.  With a `directory` of one's own, `start` goes on from there."""
        thread, self._thread = self._thread, None
        if thread is not None and self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
            thread.join(STOP_WITHIN_S)
            assert not thread.is_alive(), f"the broker did not stop within {STOP_WITHIN_S:.0f} s"

    def restart(self) -> None:
        """Stop cleanly, and start on the same data and the same port."""
        port = self._port
        self.stop()
        listeners = self._properties["listeners"].replace(f"PLAINTEXT://{HOST}:0", f"PLAINTEXT://{HOST}:{port}")
        self._properties = {**self._properties, "listeners": listeners}
        self.start()

    async def _serve(self, started: "Future[int]") -> None:
        try:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            files, chance = SystemFiles(), random.SystemRandom()
            config = NodeConfig.parse(self._properties)
            self._format(config, files, chance)
            network = FaultyNetwork(SystemNetwork(), self.faults)
            outside = Outside(files=files, network=network, clock=MovableClock(self.faults), random=chance)
            node = await Node.start(config, outside)
            (endpoint,) = config.advertised_broker_listeners[:1]
            started.set_result(node.listeners.ports[endpoint.name])
        except BaseException as error:
            started.set_exception(error)
            return
        await self._stop.wait()
        await node.stop()

    def _format(self, config: NodeConfig, files: SystemFiles, chance: random.Random) -> None:
        if files.exists(f"{config.metadata_log_dir}/meta.properties"):
            return

        def new_id() -> UUID:
            return UUID(int=chance.getrandbits(128), version=4)

        (controller,) = config.controller_listeners[:1]
        request = FormatRequest(
            cluster_id=uuid_to_text(new_id()),
            node_id=config.node_id,
            log_dirs=config.log_dirs,
            metadata_log_dir=config.metadata_log_dir,
            is_controller=True,
            has_static_voters=False,
            controller_address=Address(controller.name, controller.host, controller.port),
            standalone=True,
        )
        format_storage(files, request, now_ms=SystemClock().now_ms(), new_id=new_id, new_salt=lambda: chance.randbytes(16))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()
        if self._owns_directory:
            shutil.rmtree(self._directory, ignore_errors=True)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)
