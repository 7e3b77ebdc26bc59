"""● A cluster of processes that stand apart: each has a network namespace of its own and, if wanted, a disk that can lose power.

    with ClusterApart(brokers=4, controllers=3, has_disks=True) as cluster:     # as root, on Linux
        cluster.net.cut(1, 2)
        cluster.lose_power(chance)                      # every disk keeps what chance decides, every process is gone
        cluster.start()

Everything else is as in `moldau.testing.cluster`.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Final, Self

from moldau.testing.cluster import FIRST_CONTROLLER, Cluster, ClusterNode
from proof.cluster.namespaces import Namespaces
from proof.storage.recorded_disk import RecordedDisk

DISK_BYTES: Final = 192 << 20
IN_MEMORY: Final = Path("/dev/shm")


class NodeApart(ClusterNode):
    """One process in a namespace."""

    def __init__(self, node_id: int, roles: Sequence[str], directory: Path, properties: Mapping[str, str], net: Namespaces) -> None:
        super().__init__(node_id, roles, directory, properties)
        self.disk: RecordedDisk | None = None
        self._net: Final = net

    def plug_in(self, disk: RecordedDisk | None) -> None:
        """Give the node its address and its disk.  Both are there once the cluster starts."""
        self.host = self._net.host(self.node_id)
        self.disk = disk

    @property
    def log_dir(self) -> Path:
        return self.disk.mount / "data" if self.disk else super().log_dir

    def command(self) -> Sequence[str]:
        return self._net.inside(self.node_id, super().command())


class ClusterApart(Cluster):
    """See the module."""

    def __init__(
        self,
        brokers: int = 4,
        controllers: int = 3,
        *,
        has_disks: bool = False,
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
    ) -> None:
        ids = [*range(1, brokers + 1), *range(FIRST_CONTROLLER, FIRST_CONTROLLER + controllers)]
        self.net: Final = Namespaces(ids)
        self._has_disks: Final = has_disks
        self._held: Final = ExitStack()
        super().__init__(brokers, controllers, properties=properties, directory=directory)

    def new_node(self, node_id: int, roles: Sequence[str], directory: Path, properties: Mapping[str, str]) -> ClusterNode:
        return NodeApart(node_id, roles, directory, properties, self.net)

    def lose_power(self, chance: Random) -> int:
        """Cut the power of all nodes at once, and switch it on again.  Returns the number of writes that the disks had in their caches."""
        disks = [node.disk for node in self._nodes_apart() if node.disk]
        cached = sum(disk.cut(chance) for disk in disks)
        for node in self.nodes.values():
            node.kill()
        for disk in disks:
            disk.detach()
            disk.attach()
        return cached

    def __enter__(self) -> Self:
        try:
            self._held.enter_context(self.net)
            for node in self._nodes_apart():
                node.plug_in(self._new_disk(node.node_id) if self._has_disks else None)
            return super().__enter__()
        except BaseException:
            self._held.close()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for node in self.nodes.values():
            node.kill()
        self._held.close()
        super().__exit__(kind, error, trace)

    def _new_disk(self, node_id: int) -> RecordedDisk:
        folder = self._held.enter_context(TemporaryDirectory(prefix=f"moldau-disk-{node_id}-", dir=IN_MEMORY, ignore_cleanup_errors=True))
        disk = self._held.enter_context(RecordedDisk(Path(folder), size=DISK_BYTES))
        disk.attach(format=True)
        return disk

    def _nodes_apart(self) -> list[NodeApart]:
        return [node for node in self.nodes.values() if isinstance(node, NodeApart)]
