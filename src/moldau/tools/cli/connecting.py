"""● From a command's options to an open cluster, and from whatever goes wrong there to a `Failure`."""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from moldau.clients.cluster import Cluster, Unreachable
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.failure import Failure

DEFAULT_TIMEOUT_MS: Final = 30_000
CONNECT_WITHIN_S: Final = 10.0

IGNORED_UNTIL_TLS: Final = ("PLAINTEXT",)
"""What `security.protocol` may be so far."""


class ClientSettings(NamedTuple):
    client_id: str = "moldau-cli"
    request_timeout_ms: int = DEFAULT_TIMEOUT_MS
    properties: Mapping[str, str] = {}


Work = Callable[[Cluster], Awaitable[int]]


def on_cluster(options: argparse.Namespace, work: Work) -> int:
    """Runs `work` against `options.bootstrap_server`, with the settings of `options.command_config`."""
    settings = client_settings(getattr(options, "command_config", None))
    return run(options.bootstrap_server, work, settings)


def run(bootstrap: str, work: Work, settings: ClientSettings = ClientSettings()) -> int:
    """Errors: Failure."""
    answer_within_s = settings.request_timeout_ms / 1000

    async def session() -> int:
        async with Cluster.connect(
            bootstrap,
            client_id=settings.client_id,
            connect_within_s=min(CONNECT_WITHIN_S, answer_within_s),
            answer_within_s=answer_within_s,
        ) as cluster:
            return await work(cluster)

    try:
        return asyncio.run(session())
    except Unreachable as error:
        raise Failure(f"no broker can be reached: {error}", "Is one running there? `moldau up` starts one on localhost:9092") from error
    except ValueError as error:
        raise Failure(str(error), "Give --bootstrap-server as host:port") from error
    except KafkaError as error:
        raise in_words(error) from error
    except OSError as error:
        raise Failure(f"the connection failed: {error}", "The broker's log says more") from error


def in_words(error: KafkaError) -> Failure:
    if error.code is ErrorCode.UNSUPPORTED_VERSION:
        return Failure(f"the broker does not serve this: {error.detail}", "`moldau kafka-broker-api-versions` lists what it serves")
    return Failure(error.detail, f"({error.code.name})" if error.detail == error.code.text else "")


def client_settings(path: str | None, overrides: Mapping[str, str] | None = None) -> ClientSettings:
    """A client's properties file, as Kafka's tools take it.  Errors: Failure."""
    properties = {**(read_properties(path) if path else {}), **(overrides or {})}
    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in IGNORED_UNTIL_TLS:
        raise Failure(f"security.protocol={protocol} is not supported yet", "Use a PLAINTEXT listener")
    timeout = properties.get("request.timeout.ms", str(DEFAULT_TIMEOUT_MS))
    if not timeout.isdigit() or not int(timeout):
        raise Failure(f"request.timeout.ms={timeout} is not a number of milliseconds", f"The default is {DEFAULT_TIMEOUT_MS}")
    return ClientSettings(properties.get("client.id", "moldau-cli"), int(timeout), properties)


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """Errors: Failure."""
    from moldau.server.properties import PropertiesError, parse_properties, values_of

    try:
        return values_of(parse_properties(Path(path).read_bytes()))
    except OSError as error:
        raise Failure(f"{path} cannot be read: {(error.strerror or str(error)).lower()}", "Check the path") from error
    except PropertiesError as error:
        raise Failure(f"{path}, {error}", "Each line has the form key=value") from error
