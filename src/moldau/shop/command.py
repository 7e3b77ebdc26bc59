"""● `moldau shop`: orders and burgers over HTTP, mails, and the live page, in the foreground."""

import asyncio
import logging
from argparse import ArgumentTypeError
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.node import set_up_logging
from moldau.tools.cli.parser import Parser, add_bootstrap

NEEDED: Final = ("starlette", "uvicorn", "httpx")
SECURITY: Final = ("security.", "ssl.", "sasl.")
"""The beginnings of the options that the shop's clients take from `--command-config`."""
PARTS: Final = ("web", "gateway", "mails")


def main(arguments: list[str]) -> int:
    parser = Parser(
        "moldau shop",
        "Run the shop: orders and burger claims over HTTP, a live page that shows them, the gateway for orders from any producer, mails.  "
        "The checks run beside it: `moldau pipelines run order-validation`.  Log lines go to stderr; SIGTERM or Ctrl-C stops it cleanly.",
        examples=[
            "moldau shop",
            "moldau shop --smtp localhost:25 --metrics http://localhost:9404/metrics",
            "moldau shop --only mails --smtp localhost:25",
            "moldau shop --bootstrap-server broker:9093 --command-config client.properties",
        ],
    )
    add_bootstrap(parser)
    parser.add_argument("--host", default="127.0.0.1", help="where HTTP listens; whoever reaches it is trusted (%(default)s)")
    parser.add_argument("--port", type=_port, default=8085, help="0 takes a free one (%(default)s)")
    parser.add_argument("--dir", type=Path, default=Path("shop-data"), metavar="DIR", help="where views and journals are (%(default)s)")
    parser.add_argument("--name", default="shop", help="of two shops with one name the younger goes on, the older ends (%(default)s)")
    parser.add_argument("--topic-prefix", default="", metavar="TEXT", help="goes before the names of all topics")
    parser.add_argument("--partitions", type=_least_one, default=2, metavar="N", help="of topics that have to be made (%(default)s)")
    parser.add_argument("--smtp", type=_server, metavar="HOST:PORT", help="the mail server; without it no mails are sent")
    parser.add_argument("--sender", default="shop@moldau.example", metavar="ADDRESS", help="whom mails come from (%(default)s)")
    parser.add_argument(
        "--metrics", action="append", default=[], metavar="URL", help="figures of a pipeline, its metrics_port: lag on the page; repeatable"
    )
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help="web, gateway or mails alone; repeatable")
    parser.add_argument("--read-only", action="store_true", help="show what happens, and take neither orders nor claims")
    burgers = parser.add_argument_group("the burger promotion")
    burgers.add_argument("--starts", type=_time, default=0, metavar="TIME", help="such as 2026-07-04T11:00+02:00; without it, it has begun")
    burgers.add_argument("--ends", type=_time, default=2**53, metavar="TIME", help="without it, it goes on")
    burgers.add_argument("--list-price", type=_least_one, default=899, metavar="CENTS", help="of a burger (%(default)s)")
    burgers.add_argument("--percent-off", type=_percent, default=70, metavar="P", help="(%(default)s)")
    burgers.add_argument("--most", type=_least_one, default=5, metavar="N", help="burgers a customer within any 24 hours (%(default)s)")
    burgers.add_argument("--pay-within", type=_least_one, default=900, metavar="SECONDS", help="or they are given back (%(default)s)")
    options = parser.parse_args(arguments)
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise Failure(f"not installed: {', '.join(missing)}", "pip install 'moldau[shop]' brings what a shop needs")
    if options.ends <= options.starts:
        raise Failure("--ends is not after --starts", "a promotion ends later than it starts")
    if options.only and "mails" in options.only and not options.smtp:
        raise Failure("--only mails needs --smtp", "it names the mail server, such as localhost:25")
    return _run(options)


def _run(options: "object") -> int:
    from argparse import Namespace

    from moldau.clients.errors import Fenced
    from moldau.clients.options import OptionError
    from moldau.errors import KafkaError
    from moldau.shop.burgers.promotion import Promotion
    from moldau.shop.process import NotListening, free_port, run
    from moldau.shop.settings import Settings
    from moldau.tools.cli.connecting import client_settings
    from moldau.tools.cli.terminal import say

    assert isinstance(options, Namespace)
    properties = client_settings(options.command_config).properties
    settings = Settings(
        options.bootstrap_server,
        options.dir,
        options.name,
        options.topic_prefix,
        options.partitions,
        options.host,
        options.port or free_port(options.host),
        options.smtp or "",
        options.sender,
        tuple(options.metrics),
        not options.read_only,
        Promotion(options.starts, options.ends, options.list_price, options.percent_off, options.most, options.pay_within * 1000),
        {name: value for name, value in properties.items() if name.startswith(SECURITY)},
    )
    parts = options.only or PARTS
    set_up_logging()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        asyncio.run(run(settings, parts, lambda: say(f"The shop is open: {settings.url}" if "web" in parts else "The shop works.")))
    except Fenced as error:
        raise Failure(f"another shop named {settings.name} has taken this one's place", "give each its own --name") from error
    except NotListening as error:
        raise Failure(str(error)) from error
    except (OptionError, KafkaError, OSError) as error:
        raise Failure(f"the shop cannot go on: {error}") from error
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise ArgumentTypeError(f"a port from 0 to 65535 is expected, not {text!r}")
    return int(text)


def _server(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65_535:
        raise ArgumentTypeError(f"a server such as localhost:25 is expected, not {text!r}")
    return text


def _least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"a whole number of at least 1 is expected, not {text!r}")
    return int(text)


def _percent(text: str) -> int:
    if not text.isdecimal() or int(text) > 100:
        raise ArgumentTypeError(f"a whole number from 0 to 100 is expected, not {text!r}")
    return int(text)


def _time(text: str) -> int:
    from datetime import UTC, datetime

    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(f"a time such as 2026-07-04T11:00+02:00 is expected, not {text!r}") from error
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
