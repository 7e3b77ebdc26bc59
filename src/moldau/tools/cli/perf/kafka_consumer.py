"""● `moldau kafka-consumer-perf-test`: reads records as fast as they come, as kafka-consumer-perf-test.sh does."""

import argparse
import asyncio
import random
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from moldau.clients.cluster import Cluster
from moldau.clients.consumer import Consumer, RebalanceListener
from moldau.clients.records import Records
from moldau.tools.cli.connecting import ClientSettings, client_settings, run
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.grouping import consumer_options
from moldau.tools.cli.kafka.options import KafkaParser, TopicFilter, deprecated
from moldau.tools.cli.parser import key_value
from moldau.tools.cli.perf.figures import CONSUMER_DETAILS_HEADER, CONSUMER_HEADER, ReceiveFigures, shown_date
from moldau.types import TopicPartition

CLIENT_ID: Final = "perf-consumer-client"
POLL_S: Final = 0.1
DATE_FORMAT: Final = "yyyy-MM-dd HH:mm:ss:SSS"


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    settings = perf_settings(options, CLIENT_ID)

    async def work(cluster: Cluster) -> int:
        await _test(cluster, options, settings)
        return 0

    return run(options.bootstrap_server, work, settings)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-consumer-perf-test",
        "Measure how fast records can be read, as kafka-consumer-perf-test.sh does.",
        examples=["--bootstrap-server localhost:9092 --topic perf --num-records 1000000"],
    )
    add_perf_options(parser, group=f"perf-consumer-{random.randrange(100_000)}", shown_group="perf-consumer- and a number by chance")
    add = parser.add_argument
    add("--include", metavar="REGEX", help="read all topics with names that match")
    add("--from-latest", action="store_true", help="where the group has no offset, begin at the end, not at the beginning")
    return parser


def add_perf_options(parser: KafkaParser, *, group: str, shown_group: str) -> None:
    """The options of both consumers' tools.  `shown_group`: the default group as the help tells it."""
    parser.add_version()
    add = parser.add_argument
    add("--bootstrap-server", metavar="HOST:PORT", help="one or more brokers, comma separated")
    add("--topic", help="where from")
    add("--num-records", type=int, metavar="COUNT", help="number of records")
    add("--messages", type=int, metavar="COUNT", help="(deprecated) --num-records")
    add("--group", default=group, help=f"the group to read as ({shown_group})")
    add("--command-property", action="append", default=[], type=key_value, metavar="K=V", help="a setting of the consumer")
    add("--command-config", metavar="FILE", help="a properties file with settings of the consumer")
    add("--consumer.config", dest="consumer_config", metavar="FILE", help="(deprecated) --command-config")
    add("--fetch-size", type=int, default=1024 * 1024, metavar="BYTES", help="most bytes of one partition in a request (%(default)s)")
    add("--socket-buffer-size", type=int, default=2 * 1024 * 1024, metavar="BYTES", help="accepted, without effect")
    add("--timeout", type=int, default=10_000, metavar="MS", help="end when nothing came for so long (%(default)s)")
    add("--date-format", default=DATE_FORMAT, metavar="PATTERN", help="as in Java's SimpleDateFormat (yyyy-MM-dd HH:mm:ss:SSS)")
    add("--reporting-interval", type=int, default=5000, metavar="MS", help="time between lines, with --show-detailed-stats (%(default)s)")
    add("--show-detailed-stats", action="store_true", help="print a line each interval")
    add("--hide-header", action="store_true", help="leave out the columns' names")
    add("--print-metrics", action="store_true", help="print the consumer's counters at the end")


def check_perf_options(parser: KafkaParser, options: argparse.Namespace) -> None:
    """Errors: Failure."""
    if options.bootstrap_server is None:
        raise parser.missing("bootstrap-server")
    if (options.messages is None) == (options.num_records is None):
        raise parser.usage_error("Exactly one of the following arguments is required: [messages], [num-records]")
    if options.command_config and options.consumer_config:
        raise parser.usage_error("Options command-config and consumer.config cannot be specified together.")
    if options.messages is not None:
        print("Warning: --messages is deprecated. Use --num-records instead.")
        options.num_records = options.messages
    try:
        shown_date(datetime.now().astimezone(), options.date_format)
    except ValueError as error:
        raise Failure(str(error)) from error


def perf_settings(options: argparse.Namespace, client_id: str) -> ClientSettings:
    note = deprecated(options.consumer_config, "--consumer.config", "--command-config")
    if note:
        print(note)
    settings = client_settings(options.command_config or options.consumer_config, dict(options.command_property))
    own = {"client.id": settings.properties.get("client.id", client_id)}
    return settings._replace(client_id=own["client.id"], properties={**settings.properties, **own})


def _check(parser: KafkaParser, options: argparse.Namespace) -> None:
    check_perf_options(parser, options)
    if (options.topic is None) == (options.include is None):
        raise parser.usage_error("Exactly one of the following arguments is required: [topic], [include]")


class _Joining(RebalanceListener):
    """Measures the time from giving partitions up, or from the start, to getting some."""

    def __init__(self, figures: ReceiveFigures) -> None:
        self._figures = figures
        self._since_ms: float | None = figures.start_ms

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._since_ms = now_ms()

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if self._since_ms is not None:
            self._figures.rebalance_ms += now_ms() - self._since_ms
            self._since_ms = None


def now_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


def date(options: argparse.Namespace) -> str:
    return shown_date(datetime.now().astimezone(), options.date_format)


def size_of(records: Records) -> int:
    """The size of keys and values."""
    return sum(len(one) for column in (records.raw_keys, records.raw_values) for one in column if one is not None)


async def _test(cluster: Cluster, options: argparse.Namespace, settings: ClientSettings) -> None:
    if not options.hide_header:
        print(CONSUMER_DETAILS_HEADER if options.show_detailed_stats else CONSUMER_HEADER, flush=True)
    figures = ReceiveFigures(now_ms())
    chosen = consumer_options(
        settings.properties,
        group_id=options.group,
        auto_offset_reset="latest" if options.from_latest else "earliest",
        max_partition_fetch_bytes=options.fetch_size,
        check_crcs=False,
    )
    begun = date(options)
    async with Consumer(cluster, chosen) as consumer:
        if options.include is not None:
            wanted = TopicFilter(options.include)
            consumer.subscribe(pattern=lambda topic: wanted.matches(topic, exclude_internal=True), listener=_Joining(figures))
        else:
            consumer.subscribe([options.topic], listener=_Joining(figures))
        await _read(consumer, figures, options)
        if not options.show_detailed_stats:
            print(figures.total(now_ms(), begun, date(options)))
        if options.print_metrics:
            for name, value in sorted(consumer.metrics().items()):
                print(f"{name} : {value:.3f}")


async def _read(consumer: Consumer, figures: ReceiveFigures, options: argparse.Namespace) -> None:
    quiet_since_ms = now_ms()
    while figures.count < options.num_records:
        for records in await consumer.poll(POLL_S):
            quiet_since_ms = now_ms()
            figures.count += len(records)
            figures.bytes += size_of(records)
        if options.show_detailed_stats and figures.is_due(now_ms(), options.reporting_interval):
            print(figures.details(now_ms(), date(options)), flush=True)
        if now_ms() - quiet_since_ms > options.timeout:
            print(too_few(options.timeout))
            return


def too_few(timeout_ms: int) -> str:
    return (
        f"WARNING: Exiting before consuming the expected number of records: timeout ({timeout_ms} ms) exceeded. "
        "You can use the --timeout option to increase the timeout."
    )
