"""● Network namespaces for the nodes of a cluster: each node has an address of its own, and links fail in one direction.

    with Namespaces([1, 2, 3]) as net:                  # as root, on Linux, with iproute2
        Popen(net.inside(1, ["moldau", "serve", …]))    # listens on net.host(1); this process reaches it, too
        net.cut(1, 2)                                   # no packet goes from 1 to 2; those from 2 to 1 arrive
        net.silence(3)                                  # 3 is unplugged
        net.heal()

Every namespace hangs on one bridge.  A cut gives the sender a wrong hardware address for the receiver.  So packets vanish without an
error, as they do on a broken line.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Final, Self

TOOLS: Final = ("ip", "nsenter")
NETWORKS: Final = 200
OWN_NUMBER: Final = 254
"""The last number of the address of this process on the bridge."""
NOBODY: Final = "02:00:00:00:00:01"
DEVICE: Final = "eth0"


class Namespaces:
    """See the module.  The ids of the nodes are numbers from 1 to 253."""

    def __init__(self, node_ids: Iterable[int]) -> None:
        self._node_ids: Final = list(node_ids)
        self._network = -1
        self._cuts: Final[set[tuple[int, int]]] = set()
        self._silent: Final[set[int]] = set()

    def host(self, node_id: int) -> str:
        return f"10.213.{self._network}.{node_id}"

    def inside(self, node_id: int, command: Sequence[str]) -> list[str]:
        """The command line that runs a command in the namespace of a node, without a process in between."""
        return ["nsenter", f"--net=/run/netns/{self._name(node_id)}", *command]

    def cut(self, sender: int, receiver: int) -> None:
        """Drop the packets from one node to another.  Errors: CalledProcessError."""
        _ip("-n", self._name(sender), "neigh", "replace", self.host(receiver), "lladdr", NOBODY, "dev", DEVICE, "nud", "permanent")
        self._cuts.add((sender, receiver))

    def silence(self, node_id: int) -> None:
        """Unplug a node: nothing comes or goes, not even the end of a connection.  Errors: CalledProcessError."""
        _ip("-n", self._name(node_id), "link", "set", DEVICE, "down")
        self._silent.add(node_id)

    def heal(self) -> None:
        """End every cut and silence.  Errors: CalledProcessError."""
        for node_id in self._silent:
            _ip("-n", self._name(node_id), "link", "set", DEVICE, "up")
        for sender, receiver in self._cuts:
            # An unplugged device has forgotten its neighbours already.
            _is_made("-n", self._name(sender), "neigh", "del", self.host(receiver), "dev", DEVICE)
        self._silent.clear()
        self._cuts.clear()

    def __enter__(self) -> Self:
        self._network = next(number for number in range(NETWORKS) if _is_made("link", "add", f"moldau-{number}", "type", "bridge"))
        try:
            _ip("addr", "add", f"{self.host(OWN_NUMBER)}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for node_id in self._node_ids:
                self._plug_in(node_id)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for node_id in self._node_ids:
            _is_made("link", "del", self._name(node_id))  # the end of the namespace would remove it later, at some time
            _is_made("netns", "del", self._name(node_id))
        _is_made("link", "del", self._bridge)

    @property
    def _bridge(self) -> str:
        return f"moldau-{self._network}"

    def _name(self, node_id: int) -> str:
        return f"moldau-{self._network}-{node_id}"

    def _plug_in(self, node_id: int) -> None:
        name = self._name(node_id)
        _ip("netns", "add", name)
        _ip("link", "add", name, "type", "veth", "peer", "name", DEVICE, "netns", name)
        _ip("link", "set", name, "master", self._bridge, "up")
        _ip("-n", name, "addr", "add", f"{self.host(node_id)}/24", "dev", DEVICE)
        for device in (DEVICE, "lo"):
            _ip("-n", name, "link", "set", device, "up")


def why_not() -> str | None:
    """The reason why there can be no namespaces here, or None."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"there is no {' and no '.join(missing)}"
    try:
        with Namespaces([1]):
            return None
    except (StopIteration, subprocess.CalledProcessError) as error:
        return f"this machine allows no network namespaces: {getattr(error, 'stderr', '') or 'no bridge can be made'}".strip()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def _is_made(*arguments: str) -> bool:
    return subprocess.run(["ip", *arguments], check=False, capture_output=True).returncode == 0
