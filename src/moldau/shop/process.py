"""● A shop as a process: the parts that were asked for, from the start to SIGTERM."""

import asyncio
import signal
import socket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from typing import Any, Final

import uvicorn

from moldau.clock import SystemClock
from moldau.shop.inside import Kept
from moldau.shop.live.queries import Queries
from moldau.shop.live.stream import Live
from moldau.shop.mails.mails import Mails
from moldau.shop.orders.gateway import Gateway
from moldau.shop.settings import Settings
from moldau.shop.web.app import Web

WEB, GATEWAY, MAILS = "web", "gateway", "mails"
PARTS: Final = (WEB, GATEWAY, MAILS)
KEEP_ALIVE_S: Final = 75
MOST_CONNECTIONS: Final = 4_000


class NotListening(OSError):
    """The address is taken, or not ours."""


class _Server(uvicorn.Server):
    """Leaves signals to `run`."""

    def capture_signals(self):  # type: ignore[no-untyped-def]
        return nullcontext()


def free_port(host: str) -> int:
    with socket.create_server((host, 0)) as probe:
        return int(probe.getsockname()[1])


async def run(settings: Settings, parts: Sequence[str], on_ready: Callable[[], None]) -> None:
    """Run until SIGTERM or SIGINT.  Errors: Fenced, NotListening."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    clock = SystemClock()
    works: list[Coroutine[Any, Any, None]] = []
    if GATEWAY in parts:
        works.append(Gateway(settings, clock).run())
    if MAILS in parts and settings.smtp:
        works.append(Mails(settings, clock).run())
    if WEB in parts:
        works.append(_web(settings, clock, on_ready))
    tasks = [loop.create_task(work) for work in works]
    stopping = loop.create_task(ended.wait())
    if WEB not in parts:
        on_ready()
    try:
        done, _ = await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            await one
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _web(settings: Settings, clock: SystemClock, on_ready: Callable[[], None]) -> None:
    live = Live(lambda: {**_frame(kept, queries, clock), "takes_orders": settings.is_open})
    kept, queries = Kept(settings, clock, live.changed), Queries(settings.metrics, live.changed)
    config = uvicorn.Config(
        Web(kept, live, is_open=settings.is_open).app,
        settings.host,
        settings.port,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=2,
        timeout_keep_alive=KEEP_ALIVE_S,
        limit_concurrency=MOST_CONNECTIONS,
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()
    parts = [loop.create_task(_serve(server, settings)), loop.create_task(kept.run()), loop.create_task(live.run())]
    asking = loop.create_task(queries.run())
    ready = loop.create_task(_say_ready(kept, on_ready))
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            await one
    finally:
        server.should_exit = True
        for task in (*parts[1:], asking, ready):
            task.cancel()
        await asyncio.gather(*parts, asking, ready, return_exceptions=True)


async def _serve(server: uvicorn.Server, settings: Settings) -> None:
    try:
        await server.serve()
    except SystemExit as error:  # uvicorn says so that nothing can listen there
        raise NotListening(f"nothing can listen on {settings.host}:{settings.port}: is another shop open there?") from error


async def _say_ready(kept: Kept, on_ready: Callable[[], None]) -> None:
    await kept.opened.wait()
    on_ready()


def _frame(kept: Kept, queries: Queries, clock: SystemClock) -> dict[str, Any]:
    inside = kept.inside
    if inside is None:
        return {"open": False, "now_ms": clock.now_ms(), "queries": queries.frame()}
    return {
        "open": True,
        **inside.orders.tally.frame(clock.now_ms()),
        "burgers": inside.burgers.frame(),
        "queries": queries.frame(),
    }
