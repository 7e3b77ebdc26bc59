"""● `moldau up --brokers N`: a whole cluster right here, each node a process of its own.

    DIR/node-1/server.properties, DIR/node-1/data, DIR/node-1/server.log      written on first use; later starts go by it
    DIR/node-2/…

Every node is broker and controller.  Ctrl-C, SIGTERM and the end of the terminal stop all of them, each cleanly; a second Ctrl-C kills
those that are left.  A node that ends by itself is reported, and the others go on.  So is a node whose folder was lost: `--replace` makes
it anew.  A preparation that was interrupted is begun anew by the next start: no node has run yet.
"""

import argparse
import asyncio
import contextlib
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from moldau.server.node.signals import on_stop_signals
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.up.folder import (
    REPLICAS,
    alone_in,
    cluster_size,
    folder_of,
    formatting,
    hold_addresses,
    lost_nodes,
    replace_node,
    unusable,
)
from moldau.tools.cli.up.ports import DEFAULT_HOST, DEFAULT_PORT, checked_port, free_ports, held_ports
from moldau.tools.cli.up.properties import properties_text

HOST: Final = "localhost"
MOST: Final = 9
"""A cluster of more processes is no trial any more."""
LOOK_S: Final = 0.05
UNFINISHED: Final = "unfinished"
"""The name of a file in the cluster's folder while the nodes' folders are made.  No node is started before it is gone."""


class Planned(NamedTuple):
    """One node before its first start."""

    node_id: int
    port: int
    controller_port: int
    directory_id: str


def main(options: argparse.Namespace) -> int:
    """Run until Ctrl-C, SIGTERM, SIGHUP, or the end of the last node.  Errors: Failure."""
    folder = Path(options.dir)
    if not 2 <= options.brokers <= MOST:
        raise Failure(f"--brokers {options.brokers} cannot be", f"Give a number from 1 to {MOST}")
    if (folder / "server.properties").exists():
        raise Failure(f"{folder} holds a single node", "Choose another folder with --dir")
    size = 0 if (folder / UNFINISHED).exists() else cluster_size(folder)
    if size not in (0, options.brokers):
        raise Failure(f"{folder} holds a cluster of {size} nodes", f"Say --brokers {size}, or choose another folder with --dir")
    is_known = size > 0
    if is_known and (options.port is not None or options.host is not None):
        raise Failure(f"the nodes in {folder} have their addresses already", f"Change listeners in {folder}/node-*/server.properties")
    if options.replace is not None and not (is_known and 1 <= options.replace <= options.brokers):
        raise Failure(f"there is no node-{options.replace} in {folder}", "--replace makes a node of a cluster anew that lost its folder")
    planned = [] if is_known else _plan(options.brokers, options.host or DEFAULT_HOST, options.port or DEFAULT_PORT)
    with alone_in(folder):
        nodes = _found(folder, options) if is_known else _prepare(folder, planned, options.host or DEFAULT_HOST)
        return asyncio.run(_run(folder, nodes))


def _found(folder: Path, options: argparse.Namespace) -> list[Path]:
    """The nodes of a cluster that is started again.  Errors: Failure."""
    lost = lost_nodes(folder, options.brokers)
    if options.replace is not None:
        replace_node(folder, options.replace, lost, options.brokers)
        _say(f"node-{options.replace} begins anew: the other nodes fill it")
        lost.remove(options.replace)
    for number in lost:
        way_out = f"`moldau up --brokers {options.brokers} --dir {folder} --replace {number}` makes it anew"
        _say(f"node-{number} has lost its folder: the other nodes go on.  Bring the folder back, or {way_out}")
    nodes = [folder_of(folder, number) for number in range(1, options.brokers + 1) if number not in lost]
    hold_addresses(nodes)
    return nodes


def _clear(folder: Path) -> None:
    """Remove the nodes' folders of a preparation that was interrupted.  Errors: Failure."""
    for node in folder.glob("node-*/"):
        try:
            shutil.rmtree(node)
        except OSError as error:
            raise unusable(node, error) from error


def _plan(count: int, host: str, port: int) -> list[Planned]:
    """The addresses and ids of new nodes.  Errors: Failure."""
    from moldau.tools.cli.storage import random_id
    from moldau.types import uuid_to_text

    checked_port(port), checked_port(port + count - 1)
    with held_ports(host, range(port, port + count)):
        controllers = free_ports(count)
    return [Planned(number, port + number - 1, controllers[number - 1], uuid_to_text(random_id())) for number in range(1, count + 1)]


def _prepare(folder: Path, nodes: Sequence[Planned], host: str) -> list[Path]:
    """Writes and formats what a first start needs.  Errors: Failure."""
    from moldau.metadata.formatting.storage import FormatError
    from moldau.tools.cli.node import load_config
    from moldau.tools.cli.storage import format_node, random_id
    from moldau.types import uuid_to_text

    voters = ",".join(f"{each.node_id}@{HOST}:{each.controller_port}:{each.directory_id}" for each in nodes)
    cluster_id = uuid_to_text(random_id())
    replicas = min(len(nodes), REPLICAS)
    folders = []
    if (folder / UNFINISHED).exists():
        _clear(folder)
    try:
        (folder / UNFINISHED).touch()
    except OSError as error:
        raise unusable(folder, error) from error
    for node in nodes:
        own = folder_of(folder, node.node_id)
        text = properties_text(
            node_id=node.node_id,
            host=host,
            port=node.port,
            controller_port=node.controller_port,
            bootstrap=",".join(f"{HOST}:{each.controller_port}" for each in nodes),
            data=own.absolute() / "data",
            replicas=replicas,
        )
        try:
            own.mkdir(parents=True, exist_ok=True)
            path = own / "server.properties"
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise unusable(own, error) from error
        try:
            format_node(load_config(path), formatting(cluster_id, initial_controllers=voters))
        except FormatError as error:
            raise Failure(str(error)) from error
        folders.append(own)
    (folder / UNFINISHED).unlink()
    return folders


async def _run(folder: Path, nodes: Sequence[Path]) -> int:
    started_s = time.monotonic()
    stop = asyncio.Event()
    on_stop_signals(stop.set)
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, _interrupted, stop, killing := asyncio.Event())
    begins = [_size_of(node / "server.log") for node in nodes]
    processes = await _launch_all(nodes)
    stopping = asyncio.ensure_future(stop.wait())
    ends = {asyncio.ensure_future(process.wait()): (node, process) for node, process in zip(nodes, processes, strict=True)}
    readies = [asyncio.ensure_future(_tell_ready(node, begin)) for node, begin in zip(nodes, begins, strict=True)]
    everyone = asyncio.gather(*readies)
    everyone.add_done_callback(lambda done: None if done.cancelled() or done.exception() else _say_all_up(folder, nodes, started_s))
    code = 0
    while ends and not stop.is_set():
        await asyncio.wait((stopping, *ends), return_when=asyncio.FIRST_COMPLETED)
        for end in [each for each in ends if each.done()]:
            node, _ = ends.pop(end)
            if not stop.is_set():
                code = 1
                _say(_ended(node, end.result(), len(ends)))
    await _stop([process for _, process in ends.values()], killing)
    for each in readies:
        each.cancel()
    await asyncio.gather(*readies, everyone, return_exceptions=True)
    stopping.cancel()
    return code


def _interrupted(stop: asyncio.Event, killing: asyncio.Event) -> None:
    """Ctrl-C: stop; and again: do not wait for a clean end."""
    (killing if stop.is_set() else stop).set()


async def _stop(processes: Sequence[asyncio.subprocess.Process], killing: asyncio.Event) -> None:
    """Stop nodes cleanly.  Nodes that still run are killed when `killing` is set: what was acknowledged is on their disks."""
    if processes:
        _say(f"Stopping {len(processes)} node{'s' if len(processes) > 1 else ''}.  Ctrl-C again kills what is left.")
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    ended = asyncio.gather(*(process.wait() for process in processes))
    killed = asyncio.ensure_future(killing.wait())
    await asyncio.wait((ended, killed), return_when=asyncio.FIRST_COMPLETED)
    if killing.is_set():
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    killed.cancel()
    await ended


def _ended(node: Path, code: int, left: int) -> str:
    """One line about a node that ended by itself."""
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code} ({_last_line(node)})"
    others = "the other nodes go on" if left else "it was the last one"
    return f"{node.name} {how}: {others}.  `moldau serve {node / 'server.properties'}` starts it again; its log: {node / 'server.log'}"


async def _launch_all(nodes: Sequence[Path]) -> list[asyncio.subprocess.Process]:
    """Start all nodes, or none.  Errors: Failure."""
    processes: list[asyncio.subprocess.Process] = []
    for node in nodes:
        try:
            processes.append(await _launch(node))
        except OSError as error:
            for process in processes:
                process.terminate()
            raise Failure(f"{node.name} cannot be started: {(error.strerror or str(error)).lower()}") from error
    return processes


async def _launch(node: Path) -> asyncio.subprocess.Process:
    """Start a node in a session of its own: Ctrl-C reaches this process, which stops the nodes in order."""
    with (node / "server.log").open("ab") as log:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "moldau.tools.cli.main",
            "serve",
            str(node / "server.properties"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


async def _tell_ready(node: Path, begin: int) -> None:
    """Passes on the line with which a node says that it is up.  `begin`: the size of its log before it was launched, in bytes."""
    while True:
        await asyncio.sleep(LOOK_S)
        with (node / "server.log").open("rb") as log:
            log.seek(begin)
            for line in log.read().decode(errors="replace").splitlines():
                if line.startswith("Node ") and " is up: " in line:
                    _say(line)
                    return


def _say_all_up(folder: Path, nodes: Sequence[Path], started_s: float) -> None:
    from moldau.tools.cli.node import load_config

    at = load_config(nodes[0] / "server.properties").advertised_broker_listeners[0]
    _say(
        f"""
{len(nodes)} nodes are up, in {time.monotonic() - started_s:.1f} s.  Data, settings and logs: {folder}/node-*/

In another terminal:
  moldau topics create hello -b {at.host}:{at.port}
  moldau produce hello "Hello, world" -b {at.host}:{at.port}
  moldau consume hello --from-beginning -b {at.host}:{at.port}

Ctrl-C stops them all."""
    )


def _size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _last_line(node: Path) -> str:
    lines = (node / "server.log").read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1].removeprefix("moldau: ") if lines else "it said nothing"


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the reader, or the terminal, is gone
        print(text, flush=True)
