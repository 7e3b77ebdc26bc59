"""● `moldau serve`: run a node from a server.properties, in the foreground."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.node import load_config, run_node, set_up_logging
from moldau.tools.cli.parser import Parser, key_value

if TYPE_CHECKING:
    from moldau.server.node.config import NodeConfig
    from moldau.server.node.node import Node


def main(arguments: list[str]) -> int:
    parser = Parser(
        "moldau serve",
        "Run a node as server.properties says, with Kafka's option names.  Log lines go to stderr; SIGTERM or Ctrl-C stops it cleanly.",
        examples=[
            "moldau storage format -t $(moldau storage random-uuid) -c server.properties --standalone",
            "moldau serve server.properties",
            "moldau serve server.properties --override log.retention.hours=24",
        ],
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="server.properties")
    parser.add_argument(
        "--override", action="append", default=[], type=key_value, metavar="K=V", help="an option that overrides the file; repeatable"
    )
    parser.add_argument("--check", action="store_true", help="only read the file and say what is wrong with it")
    if not {"-daemon", "--daemon"}.isdisjoint(arguments):
        raise Failure("serve stays in the foreground", "`moldau kafka-server-start -daemon server.properties` goes on in the background")
    options = parser.parse_args(arguments)
    overrides = dict(options.override)
    if not options.check:
        return serve(loaded(options.file, overrides))
    for warning in load_config(options.file, overrides).warnings:
        print(f"warning: {warning}")
    print(f"{options.file} is fine.")
    return 0


def loaded(file: Path, overrides: Mapping[str, str]) -> "NodeConfig":
    """The options of a node that can be started.  Errors: Failure."""
    config = load_config(file, overrides)
    if not config.log_dirs:
        raise Failure(f"{file}: log.dirs is missing", "Name the folder that holds the data")
    return config


def serve(config: "NodeConfig") -> int:
    """Run the node until SIGTERM, SIGINT or a failure.  Errors: Failure."""
    set_up_logging()

    def say_ready(node: "Node") -> None:
        from moldau.tools.cli.terminal import say

        addresses = ", ".join(f"{one.name}://{one.host}:{one.port}" for one in config.listeners)
        say(f"Node {config.node_id} is up: {addresses}")

    return run_node(config, say_ready)
