"""● Runs a worker from its files until it is told to stop; what is wrong with a file, or keeps the worker from starting, is a `Failure`."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.tools.cli.connecting import read_properties
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.node import set_up_logging

if TYPE_CHECKING:
    from moldau.connect.worker.herder import Herder

CONNECTOR_FAILED: Final = 3
"""The exit code of Kafka's script when one of its connectors cannot be created."""


def run_worker(file: Path, connectors: Sequence[str] | None, overrides: Mapping[str, str], *, only_checks: bool = False) -> int:
    """`connectors`: the files of connectors for a worker alone; None: the worker is in a group.  Errors: Failure."""
    try:
        from moldau.connect.errors import ConfigError, ConnectError
        from moldau.connect.process import NotCreated, run
        from moldau.connect.worker.connector_files import read_connector
        from moldau.connect.worker.options import parse_standalone, parse_worker
    except ModuleNotFoundError as error:
        raise Failure(f"{error.name} is not installed", "pip install 'moldau[connect]' brings what connect needs") from error
    from moldau.clients.cluster import Unreachable
    from moldau.clients.options import OptionError
    from moldau.errors import KafkaError

    given = {**read_properties(file), **overrides}
    try:
        worker = parse_worker(given) if connectors is None else parse_standalone(given)
    except ConnectError as error:
        raise Failure(f"{file}: {error}", _way_out(given, is_alone=connectors is not None)) from error
    try:
        created = None if connectors is None else [read_connector(one) for one in connectors]
    except ConfigError as error:
        raise Failure(str(error), exit_code=CONNECTOR_FAILED) from error
    if only_checks:
        for one in (str(file), *(connectors or ())):
            print(f"{one} is fine.")
        return 0
    set_up_logging()
    try:
        return asyncio.run(run(worker, _say_ready, created))
    except Unreachable as error:
        raise Failure(f"no broker can be reached: {error}", "bootstrap.servers names the brokers") from error
    except NotCreated as error:
        raise Failure(str(error), exit_code=CONNECTOR_FAILED) from error
    except (ConnectError, OptionError, KafkaError) as error:
        raise Failure(f"the worker cannot start: {error}") from error
    except OSError as error:
        raise Failure(f"the worker cannot start: {error.strerror or error}") from error


def _way_out(given: Mapping[str, str], *, is_alone: bool) -> str:
    """The file may be meant for the other kind of worker."""
    if is_alone and "group.id" in given and "offset.storage.file.filename" not in given:
        return "It is the file of a worker in a group: `moldau connect FILE` runs it"
    if not is_alone and "offset.storage.file.filename" in given and "group.id" not in given:
        return "It is the file of a worker alone: `moldau connect --standalone FILE` runs it"
    return ""


def _say_ready(herder: "Herder") -> None:
    from moldau.tools.cli.terminal import say

    say(f"The worker is up: {herder.options.url}")
