"""● `moldau up`: a broker right here, without a file to write first.

With `--brokers N` a cluster of N processes: see `cluster.py`.

DIR/server.properties    written on first use; you may edit it: later starts go by it
DIR/data                 the node's folder, formatted on first use
"""

import argparse
import logging
import shlex
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.parser import Parser
from moldau.tools.cli.up.folder import cluster_size, formatting
from moldau.tools.cli.up.ports import DEFAULT_HOST, DEFAULT_PORT, checked_port, free_ports
from moldau.tools.cli.up.properties import properties_text

if TYPE_CHECKING:
    from moldau.server.node.config import NodeConfig
    from moldau.server.node.node import Node

DEFAULT_DIR: Final = "moldau-data"
NODE_ID: Final = 1


def main(arguments: list[str]) -> int:
    started_s = time.monotonic()
    options = _parser().parse_args(arguments)
    folder = Path(options.dir)
    if options.replace is not None and options.brokers == 1:
        raise Failure("--replace is for a cluster", "Say --brokers N, too")
    if options.brokers != 1:
        from moldau.tools.cli.up import cluster

        return cluster.main(options)
    if any(folder.glob("node-[1-9]")):
        raise Failure(f"{folder} holds a cluster", f"Say --brokers {cluster_size(folder) or 'N'}, or choose another folder with --dir")
    from moldau.tools.cli.node import load_config, run_node, set_up_logging

    set_up_logging(logging.INFO if options.verbose else logging.WARNING)
    path = folder / "server.properties"
    if not path.exists():
        _write_properties(path, options)
    config = load_config(path, _overrides(path, folder, options))
    if not (Path(config.metadata_log_dir) / "meta.properties").exists():
        _format(config)

    def say_ready(node: "Node") -> None:
        with suppress(BrokenPipeError):  # the text needs no reader
            print(ready_text(config, folder, time.monotonic() - started_s), flush=True)

    def say_progress(line: str) -> None:
        with suppress(BrokenPipeError):
            print(f"Starting: {line}", flush=True)

    return run_node(config, say_ready, say_progress)


def _parser() -> Parser:
    parser = Parser(
        "moldau up",
        "Start a broker right here, or a cluster.  Its folder is made and formatted on first use; Ctrl-C stops it cleanly.",
        examples=["moldau up", "moldau up --dir /tmp/try --port 19092", "moldau up --brokers 3 --dir three"],
    )
    parser.add_argument("--dir", default=DEFAULT_DIR, metavar="DIR", help="folder of its data and settings (%(default)s)")
    parser.add_argument("--port", type=int, metavar="N", help=f"the port for clients ({DEFAULT_PORT}, or the one in its settings)")
    parser.add_argument("--host", metavar="NAME", help=f"the host for clients, to listen on ({DEFAULT_HOST}, or the one in its settings)")
    parser.add_argument("--brokers", type=int, default=1, metavar="N", help="number of nodes, each a process of its own (%(default)s)")
    parser.add_argument(
        "--replace", type=int, metavar="ID", help="with --brokers: make a node anew that lost its folder; the others fill it"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="all log lines, not only warnings")
    return parser


def _write_properties(path: Path, options: argparse.Namespace) -> None:
    controller_port = _free_port()
    text = properties_text(
        node_id=NODE_ID,
        host=options.host or DEFAULT_HOST,
        port=checked_port(options.port or DEFAULT_PORT),
        controller_port=controller_port,
        bootstrap=f"localhost:{controller_port}",
        data=path.parent.absolute() / "data",
        replicas=1,
    )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(
            f"{path.parent} cannot be used: {(error.strerror or str(error)).lower()}", "Choose another folder with --dir"
        ) from error


def _free_port() -> int:
    """A free port for the controller's listener, which only this node uses."""
    return free_ports(1)[0]


def _overrides(path: Path, folder: Path, options: argparse.Namespace) -> dict[str, str]:
    """The options that override the file.

    The folder may have been moved, the controller's port may be taken, and the command line counts more than the file.
    """
    from moldau.tools.cli.connecting import read_properties

    properties = read_properties(path)
    controller = properties.get("controller.quorum.bootstrap.servers", "")
    now = _free_address(controller)
    overrides = {"log.dirs": str(folder.absolute() / "data")}
    if now != controller:
        overrides["controller.quorum.bootstrap.servers"] = now
    for key in ("listeners", "advertised.listeners"):
        if key in properties:
            overrides[key] = ",".join(_moved(text.strip(), options, {controller: now}) for text in properties[key].split(","))
    return overrides


def _free_address(controller: str) -> str:
    """The same address while its port is free, else one with a free port.

    A port that was free at the first start may belong to another process at the next one.
    """
    host, _, port = controller.rpartition(":")
    if host != DEFAULT_HOST or not port.isdigit():
        return controller  # `moldau up` did not write this address
    try:
        socket.create_server(("127.0.0.1", int(port))).close()
    except OSError:
        return f"{host}:{_free_port()}"
    return controller


def _moved(listener: str, options: argparse.Namespace, controllers: Mapping[str, str]) -> str:
    """`NAME://host:port` with the host and port that were asked for; the controller's listener with its present address."""
    name, _, address = listener.partition("://")
    if name == "CONTROLLER":
        return f"{name}://{controllers.get(address, address)}"
    host, _, port = address.rpartition(":")
    return f"{name}://{options.host or host}:{checked_port(options.port) if options.port is not None else port}"


def _format(config: "NodeConfig") -> None:
    from moldau.metadata.formatting.storage import FormatError
    from moldau.tools.cli.storage import format_node, random_id
    from moldau.types import uuid_to_text

    try:
        format_node(config, formatting(uuid_to_text(random_id()), standalone=True))
    except FormatError as error:
        raise Failure(str(error)) from error


def ready_text(config: "NodeConfig", folder: Path, seconds: float) -> str:
    """The next commands to try, as they can be typed."""
    at = config.advertised_broker_listeners[0]
    address = f"{at.host}:{at.port}"
    where = "" if address == f"{DEFAULT_HOST}:{DEFAULT_PORT}" else f" -b {shlex.quote(address)}"
    moldau = shlex.quote(Path(sys.argv[0]).name) if Path(sys.argv[0]).name == "moldau" else "moldau"
    return f"""\
Moldau is up at {address}, in {seconds:.1f} s.  Data and settings: {folder}/

In another terminal:
  {moldau} topics create hello{where}
  {moldau} produce hello "Hello, world"{where}
  {moldau} consume hello --from-beginning{where}

Ctrl-C stops it."""
