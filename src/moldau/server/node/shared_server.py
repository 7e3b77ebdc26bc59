"""● The shared parts of broker and controller in one process: the replica of the metadata log, and the image made from it.

It stands between the log and the loader, so that the broker too learns when another node leads.

Source: SharedServer.  Put together by `node.py`.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from moldau.metadata.loader import Loader
from moldau.net.transport import Address
from moldau.raft.config import QuorumConfig
from moldau.raft.driver import RaftDriver
from moldau.raft.listener import CommittedBatch
from moldau.raft.voters import Address as VoterAddress
from moldau.raft.voters import VoterSet
from moldau.server.node.config import NodeConfig
from moldau.server.node.folders import StartRefused
from moldau.server.node.outside import Outside
from moldau.server.node.taken_folders import TakenFolders
from moldau.server.peers.active_controller import Leading
from moldau.types import OffsetAndEpoch, uuid_to_text


class SharedServer:
    """See the module."""

    def __init__(self, config: NodeConfig, folders: TakenFolders, outside: Outside) -> None:
        quorum = config.of(QuorumConfig)
        self.on_leader_changed: Final[list[Callable[[], None]]] = []
        """Called when another node leads the metadata log, or none."""
        self._has_caught_up: Final = asyncio.Event()
        self._config: Final = config
        self.loader: Final = Loader(outside.clock)
        self.driver: Final = RaftDriver(
            files=outside.files,
            clock=outside.clock,
            directory=config.metadata_log_dir,
            node_id=config.node_id,
            directory_id=folders.ids[config.metadata_log_dir],
            config=quorum,
            static_voters=VoterSet.from_option(quorum.voters, config.controller_names[0]) if quorum.voters else None,
            addresses=_voter_addresses(config, quorum),
            on_failure=outside.fail,
            network=outside.network,
            chance=outside.random,
            cluster_id=folders.cluster_id,
            listener_name=config.controller_names[0],
        )

    async def start(self) -> None:
        """Start the replica.  Errors: CorruptQuorumState, CorruptSnapshot, LogDamaged, OSError."""
        await self.driver.start(self)

    def check_voters(self) -> None:
        """Check that this node is among the voters.  Errors: StartRefused if it could wait for ever for a leader."""
        if self._config.is_controller:
            refusal = _refusal(self._config, self.driver)
            if refusal is not None:
                raise StartRefused(refusal)

    async def wait_until_caught_up(self) -> None:
        """Wait until the image holds everything that was committed when this node came."""
        await self._has_caught_up.wait()

    async def stop(self) -> None:
        await self.loader.stop()
        await self.driver.stop()

    def leading(self) -> Leading:
        """The leader, and its controller's address."""
        node = self.driver.node
        at = node.leader_at
        return Leading(node.leader_id, None if at is None else Address(at.host, at.port))

    # Called by the metadata log

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, timestamp_ms: int, records: Sequence[bytes]) -> None:
        self.loader.load_snapshot(snapshot_id, timestamp_ms, records)

    def committed(self, batches: Sequence[CommittedBatch]) -> None:
        self.loader.committed(batches)

    def caught_up(self) -> None:
        self.loader.caught_up()
        self._has_caught_up.set()

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        self.loader.leader_changed(leader_id, epoch)
        for tell in self.on_leader_changed:
            tell()


def _voter_addresses(config: NodeConfig, quorum: QuorumConfig) -> tuple[VoterAddress, ...]:
    """This node's addresses for other voters.  A port that the system is to choose is left out; a host left out is that of a fixed set."""
    found = config.advertised_controller_listeners if config.is_controller else ()
    if not all(one.port for one in found):
        return ()
    fixed = VoterSet.from_option(quorum.voters, config.controller_names[0]).by_id.get(config.node_id) if quorum.voters else None
    host = fixed.addresses[0].host if fixed is not None and fixed.addresses else "localhost"
    return tuple(VoterAddress(one.name, one.host or host, one.port) for one in found)


def _refusal(config: NodeConfig, driver: RaftDriver) -> str | None:
    node_id, folder, voters = config.node_id, config.metadata_log_dir, driver.node.voters
    if node_id not in voters.by_id and config.of(QuorumConfig).voters:
        return f"node {node_id} is no voter of its quorum: add it to controller.quorum.voters, or take controller out of process.roles"
    if len(voters) == 1 and node_id in voters.by_id and not driver.is_lone_voter:
        known = uuid_to_text(voters.by_id[node_id].directory_id)
        return (
            f"{folder}/meta.properties has another directory.id than the quorum knows of controller {node_id}, {known}: "
            "bring the folder back that it was formatted with, or write that id into the file if it was damaged"
        )
    return None
