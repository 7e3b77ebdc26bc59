"""◇ The options of a run, and the split of its orders into phases."""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

ALL_ORDERS = 155_848
DEFAULT_ORDERS = 10_000
STEADY_RATE = 100.0
PAGE_PORT = 8085
EXAMPLES = """\
examples:
  moldau demo
  moldau demo --orders 2000 --rate 50
  moldau demo --orders 500 --stay
  moldau demo --bootstrap-server localhost:9092
"""
MOST_WARM_UP, MOST_STEADY = 500, 3_000


class Options(NamedTuple):
    orders: int
    rate: float  # orders a second; 0: a flood, then a steady stream
    bootstrap_servers: str | None
    master: str
    directory: str | None
    report: str
    partitions: int
    with_promo: bool
    page_port: int | None  # None: no live page
    stays: bool  # broker, queries and page go on after the run


class Phase(NamedTuple):
    """`orders` orders at `rate` a second, 0 as fast as possible.  The next phase begins when they are judged."""

    name: str
    orders: int
    rate: float

    def __str__(self) -> str:
        return f"{self.name} {self.orders:,}" + (f" at {self.rate:g} a second" if self.rate else "")


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help that tells the defaults that say something, and leaves examples as they are written."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, False) else super()._get_help_string(action)


def parse(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(
        prog="moldau demo",
        description="Real shopping baskets through a stock client, a broker and Spark; every verdict is held against an oracle.",
        epilog=EXAMPLES,
        formatter_class=_Help,
    )
    how_many = parser.add_mutually_exclusive_group()
    how_many.add_argument("--orders", type=_at_least_one, default=DEFAULT_ORDERS, metavar="N", help="how many of the year's orders")
    how_many.add_argument("--all", action="store_true", help=f"all {ALL_ORDERS:,} orders of the year")
    parser.add_argument("--rate", type=_not_negative, default=0.0, metavar="R", help="orders a second; 0: a flood, then a steady stream")
    parser.add_argument("--bootstrap-server", metavar="HOST:PORT", help="any Kafka that runs already; without it our own broker is started")
    parser.add_argument("--master", default="local[*]", help="any Spark master")
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help="a folder for broker and checkpoints, without an earlier run",
    )
    parser.add_argument("--report", default="report/demo.html", metavar="FILE", help="where the report goes")
    parser.add_argument("--partitions", type=_at_least_one, default=2, help="partitions of each topic")
    parser.add_argument("--no-promo", action="store_true", help="leave the burger promotion out")
    parser.add_argument("--page-port", type=_port, default=PAGE_PORT, metavar="PORT", help="where the live page is; 0 takes a free one")
    parser.add_argument("--no-page", action="store_true", help="leave the live page out")
    parser.add_argument("--stay", action="store_true", help="after the run the page takes orders, until Ctrl-C")
    given = parser.parse_args(arguments)
    if given.stay and given.no_page:
        parser.error("--stay is about the page, and --no-page leaves it out")
    return Options(
        orders=ALL_ORDERS if given.all else min(given.orders, ALL_ORDERS),
        rate=given.rate,
        bootstrap_servers=given.bootstrap_server,
        master=given.master,
        directory=given.dir,
        report=given.report,
        partitions=given.partitions,
        with_promo=not given.no_promo,
        page_port=None if given.no_page else given.page_port,
        stays=given.stay,
    )


def phases(options: Options) -> list[Phase]:
    """A warm-up first, since a JVM's first micro-batches say nothing; throughput and latency each get their own phase.

    In a flood every order waits behind all before it, so its latency only says how long the flood was.
    """
    warm_up = min(MOST_WARM_UP, options.orders // 4)
    rest = options.orders - warm_up
    if options.rate:
        split = [Phase("steady", rest, options.rate)]
    else:
        steady = min(MOST_STEADY, rest // 3)
        split = [Phase("flood", rest - steady, 0), Phase("steady", steady, STEADY_RATE)]
    return [phase for phase in (Phase("warm-up", warm_up, 0), *split) if phase.orders]


def _at_least_one(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"a whole number of at least 1 is expected, not {text!r}")
    return number


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"a port from 0 to 65535 is expected, not {text!r}")
    return int(text)


def _not_negative(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"orders a second are expected, 0 or more, not {text!r}")
    return number
