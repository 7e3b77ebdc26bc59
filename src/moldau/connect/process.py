"""● A worker as a process: herder and REST server, from the start to SIGTERM; alone, or in a group of workers."""

import asyncio
import logging
import signal
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import uvicorn

from moldau.clients.connecting import cluster_of
from moldau.clients.options import ClientOptions, parse_options
from moldau.connect.errors import ConnectError
from moldau.connect.rest.app import RestApp
from moldau.connect.worker.alone import LocalStorage
from moldau.connect.worker.connector_files import NewConnector
from moldau.connect.worker.herder import Herder
from moldau.connect.worker.options import WorkerOptions
from moldau.connect.worker.requests import Requests
from moldau.connect.worker.storage import TopicStorage

LOG = logging.getLogger(__name__)
KEEP_ALIVE_S = 75
"""Longer than clients keep a silent connection, so that no connection is closed while a request is on its way."""


class _Server(uvicorn.Server):
    """Leaves signals to `run`, so that tasks end before the loop does."""

    def install_signal_handlers(self) -> None:
        return

    def capture_signals(self):  # type: ignore[no-untyped-def]
        return nullcontext()


async def run(options: WorkerOptions, on_ready: Callable[[Herder], None], connectors: Sequence[NewConnector] | None = None) -> int:
    """Run until SIGTERM or SIGINT.  `connectors`: those that a worker alone begins with; None: the worker is in a group.

    Errors: ConnectError, OSError, Unreachable when it cannot start; NotCreated when one of `connectors` cannot.
    """
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    client = parse_options(ClientOptions, {**options.client("admin"), "client.id": "connect"})
    async with cluster_of(options["bootstrap.servers"], client) as cluster:
        herder = Herder(options, cluster, TopicStorage(options, cluster) if connectors is None else LocalStorage(options))
        requests = Requests(herder)
        host, port = options.listener
        config = uvicorn.Config(
            RestApp(requests),
            host,
            port,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=5,
            timeout_keep_alive=KEEP_ALIVE_S,
        )
        config.load()
        config.ssl = None if options.tls is None else options.tls.server()
        server = _Server(config)
        serving: asyncio.Task[None] | None = None
        try:
            await herder.start()
            serving = loop.create_task(server.serve(), name="REST")
            stopping = loop.create_task(ended.wait(), name="until told to stop")
            for one in connectors or ():
                await _create(requests, one)
            herder.connectors_created()
            on_ready(herder)
            await asyncio.wait([serving, stopping], return_when=asyncio.FIRST_COMPLETED)
            if serving.done() and not ended.is_set():
                raise ConnectError(f"nothing can listen on {host}:{port}: is another worker running there?")
        finally:
            await herder.close()
            server.should_exit = True
            if serving is not None:
                await asyncio.gather(serving, return_exceptions=True)
    return 0


class NotCreated(ConnectError):
    """A connector that a worker alone was to begin with."""


async def _create(requests: Requests, new: NewConnector) -> None:
    """Errors: NotCreated."""
    try:
        await requests.create(new.name, new.config, new.target)
    except ConnectError as error:
        raise NotCreated(f"{new.path}: {error}") from error
