"""● One process: broker, controller or both, as a stack of started parts.

    start   take the folders → open the listeners (requests wait) → metadata log → controller → broker
    stop    the same parts, the last one first

Options, files, network, clock and random numbers are arguments.  So the same node runs on a simulated loop.
Source: KafkaRaftServer.  Called by `process.py`, and by `moldau.testing`.
"""

from contextlib import AsyncExitStack
from typing import Final, Self

from moldau.metadata.config_schema import ConfigSchema
from moldau.raft.roles import CorruptQuorumState
from moldau.raft.snapshots import CorruptSnapshot
from moldau.server.node.accepted import is_fixed
from moldau.server.node.broker_server import BrokerServer
from moldau.server.node.config import ROOMS, NodeConfig
from moldau.server.node.controller_server import ControllerServer
from moldau.server.node.folders import StartRefused
from moldau.server.node.log_loading import SeveralDamaged
from moldau.server.node.outside import Outside
from moldau.server.node.shared_server import SharedServer
from moldau.server.node.taken_folders import TakenFolders
from moldau.server.peers.active_controller import ActiveController
from moldau.server.peers.controller import LocalController
from moldau.server.requests.listeners import Listeners
from moldau.storage.epochs import CorruptCheckpoint
from moldau.storage.manager import DuplicateLog
from moldau.storage.recovery import LogDamaged

DAMAGES: Final = (CorruptCheckpoint, CorruptQuorumState, CorruptSnapshot, DuplicateLog, LogDamaged, SeveralDamaged)
"""Errors of files with impossible content.  The text names the file, the error and the way out."""


class Node:
    """A started node.  `start` makes it, `stop` ends it."""

    def __init__(
        self, outside: Outside, listeners: Listeners, shared: SharedServer, broker: BrokerServer | None, parts: AsyncExitStack
    ) -> None:
        self.failed: Final = outside.failed
        """A future that is done when the node cannot go on, because a disk that it needs is gone; or when its stop was no clean one."""
        self.listeners: Final = listeners
        self.shared: Final = shared
        self._broker: Final = broker
        self._parts: Final = parts

    @classmethod
    async def start(cls, config: NodeConfig, outside: Outside) -> Self:
        """Start a node; returns once clients are served.  If a part fails, the started ones are stopped.  Errors: StartRefused, OSError."""
        try:
            async with AsyncExitStack() as parts:
                folders = TakenFolders.take(config, outside)
                parts.push_async_callback(folders.give_back)
                listeners = Listeners(outside.network, config.server)
                parts.push_async_callback(listeners.close)
                await listeners.open(config.listeners)
                schema = ConfigSchema(config.properties, ROOMS, node_id=config.node_id, is_fixed=is_fixed)
                shared = SharedServer(config, folders, outside)
                controller = _controller_of(config, schema, folders, shared, listeners, outside) if config.is_controller else None
                active = ActiveController(
                    node_id=config.node_id,
                    local=None if controller is None else LocalController(controller.controller),
                    leading=shared.leading,
                    network=outside.network,
                    clock=outside.clock,
                    timeout_ms=config.server.request_timeout_ms,
                )
                shared.on_leader_changed.append(active.leader_changed)
                if controller is not None:
                    shared.on_leader_changed.append(controller.leader_changed)
                await shared.start()
                parts.push_async_callback(shared.stop)
                shared.check_voters()
                parts.callback(active.close)
                if controller is not None:
                    parts.push_async_callback(controller.stop)
                    await controller.start(active)
                await outside.unless_failed(shared.wait_until_caught_up())
                broker = None
                if config.is_broker:
                    broker = BrokerServer(
                        config=config,
                        schema=schema,
                        folders=folders,
                        shared=shared,
                        controller=active,
                        listeners=listeners,
                        outside=outside,
                    )
                    if controller is not None:
                        # These folders are locked, so the earlier process of this broker is gone, and its session need not end first.
                        controller.controller.sessions.forget(config.node_id)
                    parts.push_async_callback(broker.stop)
                    await broker.start()
                return cls(outside, listeners, shared, broker, parts.pop_all())
        except DAMAGES as error:
            raise StartRefused(str(error)) from error

    @property
    def broker(self) -> BrokerServer:
        """The broker part; only if this node is a broker."""
        assert self._broker is not None, "this node is only a controller"
        return self._broker

    async def stop(self) -> None:
        """Stop gracefully.  What a disk refuses is logged, and `failed` is done afterwards if the next start is not a clean one."""
        await self._parts.aclose()


def _controller_of(
    config: NodeConfig, schema: ConfigSchema, folders: TakenFolders, shared: SharedServer, listeners: Listeners, outside: Outside
) -> ControllerServer:
    return ControllerServer(
        config=config, schema=schema, cluster_id=folders.cluster_id, shared=shared, listeners=listeners, outside=outside
    )
