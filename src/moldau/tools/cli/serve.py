"""● `moldau serve`: run a node from a server.properties, in the foreground."""

from pathlib import Path
from typing import TYPE_CHECKING

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.node import load_config, run_node, set_up_logging
from moldau.tools.cli.parser import Parser, key_value

if TYPE_CHECKING:
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
    options = parser.parse_args(arguments)
    config = load_config(options.file, dict(options.override))
    set_up_logging()
    if options.check:
        for warning in config.warnings:
            print(f"warning: {warning}")
        print(f"{options.file} is fine.")
        return 0
    if not config.log_dirs:
        raise Failure(f"{options.file}: log.dirs is missing", "Name the folder that holds the data")

    def say_ready(node: "Node") -> None:
        from moldau.tools.cli.terminal import say

        addresses = ", ".join(f"{one.name}://{one.host}:{one.port}" for one in config.listeners)
        say(f"Node {config.node_id} is up: {addresses}")

    return run_node(config, say_ready)
