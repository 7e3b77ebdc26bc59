"""● Opens a cluster from a command's options, and turns any error there into a `Failure`."""

import argparse
import asyncio
import os
import select
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Final, NamedTuple

from moldau.clients.cluster import Cluster, NoSuchNode, Unreachable
from moldau.clients.connecting import cluster_of
from moldau.clients.options import ClientOptions, OptionError, parse_options
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.terminal import clear

DEFAULT_TIMEOUT_MS: Final = 30_000
CONNECT_WITHIN_MS: Final = 10_000


class ClientSettings(NamedTuple):
    client_id: str = "moldau-cli"
    request_timeout_ms: int = DEFAULT_TIMEOUT_MS
    properties: Mapping[str, str] = {}


Work = Callable[[Cluster], Awaitable[int]]


def on_cluster(options: argparse.Namespace, work: Work) -> int:
    """Runs `work` against `options.bootstrap_server`, with the settings of `options.command_config`.  With `options.watch`, `work` runs
    again every so many seconds until it is interrupted.
    """
    settings = client_settings(getattr(options, "command_config", None))
    every_s = getattr(options, "watch", None)
    if every_s is None:
        return run(options.bootstrap_server, work, settings, at_controllers=getattr(options, "bootstrap_controller", None) is not None)
    try:
        while True:
            clear()
            run(options.bootstrap_server, work, settings)
            sys.stdout.flush()
            time.sleep(every_s)
    except KeyboardInterrupt:
        return 0


def run(bootstrap: str, work: Work, settings: ClientSettings = ClientSettings(), *, at_controllers: bool = False) -> int:
    """Errors: Failure."""
    options = client_options(settings)

    async def session() -> int:
        async with cluster_of(bootstrap, options, at_controllers=at_controllers) as cluster:
            return await work(cluster)

    try:
        return asyncio.run(session())
    except NoSuchNode as error:
        raise Failure(str(error), "`moldau kafka-cluster list-endpoints` shows those that it has") from error
    except Unreachable as error:
        raise Failure(f"no broker can be reached: {error}", "Is one running there? `moldau up` starts one on localhost:9092") from error
    except OptionError as error:
        way_out = "Give --bootstrap-server as host:port" if "bootstrap.servers" in str(error) else ""
        raise Failure(str(error).removeprefix("bootstrap.servers: "), way_out) from error
    except ValueError as error:
        raise Failure(str(error)) from error
    except KafkaError as error:
        raise in_words(error) from error
    except OSError as error:
        if isinstance(error, BrokenPipeError) and output_is_gone():
            raise  # not the connection's: `main` ends in silence
        raise Failure(f"the connection failed: {str(error) or 'no answer came in time'}", "The broker's log says more") from error


def output_is_gone() -> bool:
    """Whether the reader of standard output, such as head(1), is gone."""
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # standard output is no file
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def in_words(error: KafkaError) -> Failure:
    if error.code is ErrorCode.UNSUPPORTED_VERSION:
        return Failure(f"the broker does not serve this: {error.detail}", "`moldau kafka-broker-api-versions` lists what it serves")
    return Failure(error.detail, f"({error.code.name})" if error.detail == error.code.text else "")


def client_settings(path: str | None, overrides: Mapping[str, str] | None = None) -> ClientSettings:
    """A client's properties file, as Kafka's tools take it.  Errors: Failure."""
    properties = {**(read_properties(path) if path else {}), **(overrides or {})}
    timeout = properties.get("request.timeout.ms", str(DEFAULT_TIMEOUT_MS))
    if not timeout.isdigit() or not int(timeout):
        raise Failure(f"request.timeout.ms={timeout} is not a number of milliseconds", f"The default is {DEFAULT_TIMEOUT_MS}")
    settings = ClientSettings(properties.get("client.id", "moldau-cli"), int(timeout), properties)
    client_options(settings)
    return settings


def client_options(settings: ClientSettings) -> ClientOptions:
    """The properties that concern connections.  Errors: Failure."""
    known = {one.name.replace("_", ".") for one in fields(ClientOptions)}
    chosen = {key: value for key, value in settings.properties.items() if key in known}
    connect_within_ms = min(CONNECT_WITHIN_MS, settings.request_timeout_ms)
    own = {
        "client.id": settings.client_id,
        "request.timeout.ms": settings.request_timeout_ms,
        "socket.connection.setup.timeout.ms": connect_within_ms,
    }
    try:
        return parse_options(ClientOptions, {**chosen, **own})
    except OptionError as error:
        raise Failure(str(error)) from error


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """Errors: Failure."""
    from moldau.server.node.properties import PropertiesError, parse_properties, values_of

    try:
        return values_of(parse_properties(Path(path).read_bytes()))
    except OSError as error:
        raise Failure(f"{path} cannot be read: {(error.strerror or str(error)).lower()}", "Check the path") from error
    except PropertiesError as error:
        raise Failure(f"{path}, {error}", "Each line has the form key=value") from error
