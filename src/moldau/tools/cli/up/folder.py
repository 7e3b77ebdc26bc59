"""● The folder of a cluster that `moldau up --brokers N` starts again: only one start works in it, and a node that was lost begins anew."""

import argparse
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.up.ports import held_ports
from moldau.tools.cli.up.properties import properties_text

if TYPE_CHECKING:
    from moldau.server.node.config import NodeConfig

REPLICAS: Final = 3
JOINS: Final = """
# This node was replaced: it takes the place of the controller that was lost.
controller.quorum.auto.join.enable=true
"""


def unusable(folder: Path, error: OSError) -> Failure:
    return Failure(f"{folder} cannot be used: {(error.strerror or str(error)).lower()}", "Choose another folder with --dir")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Make the folder if need be, and keep every other start out of it.  Errors: Failure."""
    from moldau.storage.files import LockHeld, SystemFiles
    from moldau.storage.folders.checkpoints import LOCK

    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = SystemFiles().lock(str(folder.absolute() / LOCK))
    except LockHeld as error:
        raise Failure(f"{folder} is in use by another process", "Stop that one, or choose another folder with --dir") from error
    except OSError as error:
        raise unusable(folder, error) from error
    try:
        yield
    finally:
        lock.release()


def folder_of(cluster: Path, node_id: int) -> Path:
    return cluster / f"node-{node_id}"


def cluster_size(cluster: Path) -> int:
    """The number of nodes of the cluster in the folder, those whose folders were lost too; 0 without settings.  Errors: Failure."""
    from moldau.tools.cli.node import load_config

    found = next(iter(sorted(cluster.glob("node-[1-9]/server.properties"))), None)
    return 0 if found is None else len(_controllers(load_config(found)))


def _controllers(config: "NodeConfig") -> list[str]:
    """host:port of every controller, in the order of their ids."""
    return [each.strip() for each in config.properties["controller.quorum.bootstrap.servers"].split(",")]


def lost_nodes(cluster: Path, count: int) -> list[int]:
    """The ids of the nodes whose settings or data are not there.  Errors: Failure when a majority is lost."""
    lost = [number for number in range(1, count + 1) if not _has_data(folder_of(cluster, number))]
    if 2 * len(lost) >= count:
        names = ", ".join(f"node-{number}" for number in lost)
        raise Failure(f"{cluster} has lost {names}: the others are no majority", "Bring the folders back, or choose another one with --dir")
    return lost


def _has_data(node: Path) -> bool:
    from moldau.tools.cli.node import load_config

    path = node / "server.properties"
    return path.exists() and (Path(load_config(path).metadata_log_dir) / "meta.properties").exists()


def hold_addresses(nodes: Sequence[Path]) -> None:
    """Errors: Failure if a node could not listen, since another process does."""
    from moldau.tools.cli.node import load_config

    for node in nodes:
        for at in load_config(node / "server.properties").listeners:
            with held_ports(at.host, [at.port], way_out=f"Stop what listens there, or change {node / 'server.properties'}"):
                pass


def replace_node(cluster: Path, number: int, lost: Sequence[int], count: int) -> None:
    """Make a lost node anew: empty, with a directory id of its own.  The other nodes fill it.  Errors: Failure."""
    from moldau.metadata.formatting.storage import FormatError
    from moldau.tools.cli.node import load_config
    from moldau.tools.cli.storage import format_node

    own = folder_of(cluster, number)
    if number not in lost:
        raise Failure(f"{own} has its data", "Remove the folder first if the node is to begin anew")
    other = next(each for each in range(1, count + 1) if each not in lost)
    like = load_config(folder_of(cluster, other) / "server.properties")
    path = own / "server.properties"
    try:
        own.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else _settings_like(like, number, own)
        path.write_text(text if JOINS in text else text + JOINS, encoding="utf-8")
        config = load_config(path)
        for log_dir in config.log_dirs:
            shutil.rmtree(log_dir, ignore_errors=True)
    except OSError as error:
        raise unusable(own, error) from error
    try:
        format_node(config, formatting(_cluster_id(like), no_initial_controllers=True))
    except FormatError as error:
        raise Failure(str(error)) from error


def formatting(
    cluster_id: str, *, standalone: bool = False, initial_controllers: str | None = None, no_initial_controllers: bool = False
) -> argparse.Namespace:
    """The options of `moldau storage format` for a node alone, or of a cluster."""
    return argparse.Namespace(
        cluster_id=cluster_id,
        standalone=standalone,
        initial_controllers=initial_controllers,
        no_initial_controllers=no_initial_controllers,
        release_version=None,
        feature=[],
        add_scram=[],
        ignore_formatted=True,
    )


def _settings_like(like: "NodeConfig", number: int, own: Path) -> str:
    """The settings of a node, as the first start wrote those of the others."""
    at, controllers = like.advertised_broker_listeners[0], _controllers(like)
    return properties_text(
        node_id=number,
        host=at.host,
        port=at.port + number - like.node_id,
        controller_port=int(controllers[number - 1].rpartition(":")[2]),
        bootstrap=",".join(controllers),
        data=own.absolute() / "data",
        replicas=min(len(controllers), REPLICAS),
    )


def _cluster_id(config: "NodeConfig") -> str:
    from moldau.storage.files import SystemFiles
    from moldau.storage.folders.checkpoints import read_meta_properties

    meta = read_meta_properties(SystemFiles(), config.metadata_log_dir)
    assert meta is not None, "a node that is not lost is formatted"
    return meta.cluster_id
