"""● `moldau connect`: a worker of Kafka Connect, in the foreground."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from moldau.tools.cli.connecting import read_properties
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.node import set_up_logging
from moldau.tools.cli.parser import Parser, key_value

if TYPE_CHECKING:
    from moldau.connect.worker.herder import Herder


def main(arguments: list[str]) -> int:
    parser = Parser(
        "moldau connect",
        "Run a Kafka Connect worker: connectors over Kafka Connect's REST API, with its properties, topics and configurations.  "
        "Workers with the same group.id share connectors.  Log lines go to stderr; SIGTERM or Ctrl-C stops it cleanly.",
        examples=[
            "moldau connect connect-distributed.properties",
            "moldau connect worker.properties --override listeners=http://127.0.0.1:8084",
            "curl localhost:8083/connector-plugins",
        ],
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="the worker's properties file, such as connect-distributed.properties")
    parser.add_argument(
        "--override", action="append", default=[], type=key_value, metavar="K=V", help="a property that overrides the file; repeatable"
    )
    parser.add_argument("--check", action="store_true", help="only read the file and say what is wrong with it")
    options = parser.parse_args(arguments)
    try:
        from moldau.connect.errors import ConnectError
        from moldau.connect.process import run
        from moldau.connect.worker.options import parse_worker
    except ModuleNotFoundError as error:
        raise Failure(f"{error.name} is not installed", "pip install 'moldau[connect]' brings what connect needs") from error
    from moldau.clients.cluster import Unreachable
    from moldau.clients.options import OptionError
    from moldau.errors import KafkaError

    try:
        worker = parse_worker({**read_properties(options.file), **dict(options.override)})
    except ConnectError as error:
        raise Failure(f"{options.file}: {error}") from error
    if options.check:
        print(f"{options.file} is fine.")
        return 0
    set_up_logging()
    try:
        return asyncio.run(run(worker, _say_ready))
    except Unreachable as error:
        raise Failure(f"no broker can be reached: {error}", "bootstrap.servers names the brokers") from error
    except (ConnectError, OptionError, KafkaError) as error:
        raise Failure(f"the worker cannot start: {error}") from error
    except OSError as error:
        raise Failure(f"the worker cannot start: {error.strerror or error}") from error


def _say_ready(herder: "Herder") -> None:
    from moldau.tools.cli.terminal import say

    say(f"The worker is up: {herder.options.url}")
