"""● `moldau kafka-producer-perf-test`: sends records as fast as they go, or at a rate, as kafka-producer-perf-test.sh does.

Differs from Kafka's tool: above some thousand records a second, records are sent in lists (see `load`).  --print-metrics prints the
counters that our producer has.
"""

import argparse
import asyncio
import codecs
import random
import sys
import uuid
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Final

from moldau.clients.cluster import Cluster
from moldau.clients.producer import Producer
from moldau.errors import KafkaError
from moldau.tools.cli.connecting import ClientSettings, client_settings, run
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.options import KafkaParser, deprecated
from moldau.tools.cli.parser import key_value
from moldau.tools.cli.perf.load import Load, Reporting
from moldau.tools.cli.perf.settings import producer_options

CLIENT_ID: Final = "perf-producer-client"
TRANSACTION_MS: Final = 3_000
NO_ADDRESS: Final = (
    "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or --command-config must be specified."
)


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    settings = _settings(options)
    bootstrap = options.bootstrap_server or settings.properties.get("bootstrap.servers")
    if bootstrap is None:
        raise parser.usage_error("bootstrap.servers is missing: give --bootstrap-server")

    async def work(cluster: Cluster) -> int:
        await _test(cluster, options, settings)
        return 0

    return run(bootstrap, work, settings)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-producer-perf-test",
        "Measure how fast records can be sent, as kafka-producer-perf-test.sh does.",
        takes_last=True,
        examples=["--bootstrap-server localhost:9092 --topic perf --num-records 1000000 --record-size 100 --throughput -1"],
    )
    add = parser.add_argument
    add("--bootstrap-server", metavar="HOST:PORT", help="one or more brokers, comma separated")
    add("--topic", required=True, help="where to")
    add("--num-records", type=int, required=True, help="number of records")
    add("--throughput", type=float, required=True, metavar="RATE", help="records a second, about; -1: as fast as they go")
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument("--record-size", type=int, metavar="BYTES", help="this many random letters")
    payload.add_argument("--payload-file", metavar="FILE", help="a random line of this file")
    payload.add_argument("--payload-monotonic", action="store_true", help="0, 1, 2, …")
    add("--payload-delimiter", default="\\n", metavar="TEXT", help="text between the payloads of the file (%(default)s)")
    add("--command-property", nargs="+", action="extend", default=[], type=key_value, metavar="K=V", help="a setting of the producer")
    add("--producer-props", nargs="+", action="extend", default=[], type=key_value, metavar="K=V", help="(deprecated) --command-property")
    add("--command-config", metavar="FILE", help="a properties file with settings of the producer")
    add("--producer.config", dest="producer_config", metavar="FILE", help="(deprecated) --command-config")
    add("--print-metrics", action="store_true", help="print the producer's counters at the end")
    add("--transactional-id", metavar="ID", help="send in transactions of this id")
    add("--transaction-duration-ms", type=int, metavar="MS", help=f"commit at this interval ({TRANSACTION_MS})")
    add("--warmup-records", type=int, default=0, metavar="COUNT", help="first records, which a second summary leaves out (%(default)s)")
    add("--reporting-interval", type=int, default=5000, metavar="MS", help="time between two lines (%(default)s)")
    return parser


def _check(parser: KafkaParser, options: argparse.Namespace) -> None:
    sources = (options.bootstrap_server, options.command_property, options.producer_props, options.producer_config, options.command_config)
    if not any(sources):
        raise parser.usage_error(NO_ADDRESS)
    if options.command_property and options.producer_props:
        raise parser.usage_error("--command-property and --producer-props cannot be specified together.")
    if options.command_config and options.producer_config:
        raise parser.usage_error("--command-config and --producer.config cannot be specified together.")
    if options.transaction_duration_ms is not None and options.transaction_duration_ms <= 0:
        raise parser.usage_error("--transaction-duration-ms should be greater than zero.")
    for name in ("record_size", "num_records", "reporting_interval"):
        given = getattr(options, name)
        if given is not None and given <= 0:
            raise parser.usage_error(f"--{name.replace('_', '-')} should be greater than zero.")
    if options.warmup_records < 0 or options.warmup_records >= options.num_records:
        raise parser.usage_error(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, --num-records."
        )


def _settings(options: argparse.Namespace) -> ClientSettings:
    for note in (
        deprecated(options.producer_props, "--producer-props", "--command-property"),
        deprecated(options.producer_config, "--producer.config", "--command-config"),
    ):
        if note:
            print(note.replace("is deprecated", "has been deprecated"))
    given = dict([*options.producer_props, *options.command_property])
    settings = client_settings(options.command_config or options.producer_config, given)
    transactional_id = options.transactional_id or settings.properties.get("transactional.id")
    if transactional_id is None and options.transaction_duration_ms is not None:
        transactional_id = f"performance-producer-{uuid.uuid4()}"
    own = {"client.id": settings.properties.get("client.id", CLIENT_ID)}
    if transactional_id is not None:
        own["transactional.id"] = transactional_id
    return settings._replace(client_id=own["client.id"], properties={**settings.properties, **own})


def payloads_of(options: argparse.Namespace) -> Iterator[bytes]:
    """Errors: Failure."""
    if options.payload_monotonic:
        return (str(number).encode() for number in count())
    chance = random.Random(0)
    if options.payload_file is not None:
        delimiter = codecs.decode(options.payload_delimiter, "unicode_escape")
        try:
            text = Path(options.payload_file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Failure(f"{options.payload_file} cannot be read: {error}") from error
        print(f"Reading payloads from: {Path(options.payload_file).absolute()}")
        lines = [line.encode() for line in text.removesuffix(delimiter).split(delimiter)]
        if not text:
            raise Failure(f"File is empty or does not exist: {options.payload_file}")
        print(f"Number of records read: {len(lines)}")
        return (chance.choice(lines) for _ in count())
    return random_letters(options.record_size, chance)


def random_letters(size: int, chance: random.Random) -> Iterator[bytes]:
    """Windows into one text of random capitals.  A program that made each payload anew would measure its random generator."""
    text = bytes(chance.choices(range(65, 91), k=size + 4096))
    while True:
        start = chance.randrange(4096)
        yield text[start : start + size]


class _Commits:
    """Commits a transaction every `duration_ms` milliseconds."""

    def __init__(self, producer: Producer, duration_ms: int) -> None:
        self._producer = producer
        self._duration_s = duration_ms / 1000
        self._begun: float | None = None
        self._loop = asyncio.get_running_loop()

    async def before(self) -> None:
        if self._begun is None:
            await self._producer.begin_transaction()
            self._begun = self._loop.time()

    async def after(self) -> None:
        if self._begun is not None and self._loop.time() - self._begun >= self._duration_s:
            await self.finish()

    async def finish(self) -> None:
        if self._begun is not None:
            await self._producer.commit_transaction()
            self._begun = None


async def _test(cluster: Cluster, options: argparse.Namespace, settings: ClientSettings) -> None:
    payloads = payloads_of(options)
    chosen = producer_options(settings)
    async with Producer(cluster, chosen) as producer:
        commits = None
        if chosen.transactional_id is not None:
            commits = _Commits(producer, options.transaction_duration_ms or TRANSACTION_MS)
        if options.warmup_records:
            print(f"Warmup first {options.warmup_records} records. Steady state results will print after the complete test summary.")
        reporting = Reporting(options.num_records, warmup=options.warmup_records, interval_ms=options.reporting_interval, say=_say)
        load = Load(producer, options.topic, payloads, options.num_records, options.throughput, reporting.acknowledged, _failed, commits)
        await load.run()
        if commits is not None:
            await commits.finish()
        for line in reporting.totals():
            print(line)
        if options.print_metrics:
            _print_metrics(producer.metrics(), chosen.client_id)


def _say(line: str) -> None:
    print(line, flush=True)


def _failed(error: KafkaError) -> None:
    print(error, file=sys.stderr)


def _print_metrics(metrics: dict[str, float], client_id: str) -> None:
    names = {
        f"producer-metrics:{name.removeprefix('producer.').replace('.', '-')}:{{client-id={client_id}}}": metrics[name] for name in metrics
    }
    width = max(map(len, names))
    print(f"\n{'Metric Name':<{width}}   Value")
    for name, value in sorted(names.items()):
        print(f"{name:<{width}} : {value:.3f}")
