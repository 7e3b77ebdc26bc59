"""● `moldau kafka-console-consumer`: records become lines of standard output, as with kafka-console-consumer.sh.

Partitions are assigned, not shared in a group, unless --group is given.
"""

import argparse
import asyncio
from collections.abc import Mapping
from typing import Final

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import EARLIEST, LATEST
from moldau.clients.cluster import Cluster, retrying
from moldau.clients.consumer import Consumer
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.batch import CorruptBatch
from moldau.tools.cli.connecting import run
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.grouping import consumer_options
from moldau.tools.cli.kafka.lines.options import POLL_S, LinePrinter, add_console_options, check_formatter, console_settings
from moldau.tools.cli.kafka.options import KafkaParser, TopicFilter
from moldau.types import TopicPartition

OLD_CONFIG: Final = "--consumer.config"


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    settings = console_settings(options, old_config=OLD_CONFIG)
    printer = LinePrinter(options)

    async def work(cluster: Cluster) -> int:
        try:
            await _consume(cluster, options, settings.properties, printer)
        except CorruptBatch as error:
            raise Failure(f"a batch that was fetched is broken: {error}") from error
        finally:
            printer.end()
        return 0

    return run(options.bootstrap_server, work, settings)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-console-consumer",
        "Print records, as kafka-console-consumer.sh does.",
        examples=[
            "--bootstrap-server localhost:9092 --topic orders --from-beginning",
            "--bootstrap-server localhost:9092 --topic orders --partition 0 --offset 100 --formatter-property print.key=true",
        ],
    )
    parser.add_common()
    add = parser.add_argument
    add("--topic", help="the topic to read")
    add("--include", metavar="REGEX", help="read all topics with names that match")
    add("--partition", type=int, help="read only this partition, from its end unless --offset says otherwise")
    add("--offset", default=None, help="where to start: a number, earliest or latest (latest)")
    add("--from-beginning", action="store_true", help="start at the first record")
    add("--isolation-level", choices=("read_uncommitted", "read_committed"), default="read_uncommitted", help="(%(default)s)")
    add("--group", help="share the topic with the other members of this consumer group")
    add("--skip-message-on-error", action="store_true", help="leave out records that cannot be printed")
    add_console_options(parser, old_config=OLD_CONFIG, shown="print.key=true, key.separator=…")
    return parser


def _check(parser: KafkaParser, options: argparse.Namespace) -> None:
    if options.bootstrap_server is None:
        raise parser.missing("bootstrap-server")
    if (options.topic is None) == (options.include is None):
        raise parser.usage_error("Exactly one of the following arguments is required: [topic], [include]")
    if options.partition is not None and options.topic is None:
        raise parser.usage_error("The topic is required when partition is specified.")
    if options.offset is not None and options.partition is None:
        raise parser.usage_error("The partition is required when offset is specified.")
    if options.from_beginning and options.offset is not None:
        raise parser.usage_error("Options from-beginning and offset cannot be specified together.")
    if options.offset is not None and options.offset not in ("earliest", "latest") and not options.offset.isdigit():
        raise parser.usage_error(
            f"The provided offset value '{options.offset}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long."
        )
    if options.group is not None and options.partition is not None:
        raise parser.usage_error("Options group and partition cannot be specified together.")
    check_formatter(options)


async def _consume(cluster: Cluster, options: argparse.Namespace, properties: Mapping[str, str], printer: LinePrinter) -> None:
    timeout_s = None if options.timeout_ms is None else options.timeout_ms / 1000
    reset = "earliest" if options.from_beginning else properties.get("auto.offset.reset", "latest")
    level = "read_committed" if "read_committed" in (options.isolation_level, properties.get("isolation.level")) else "read_uncommitted"
    group_id = options.group or properties.get("group.id")
    if options.partition is not None:
        group_id = None
    settings = consumer_options(properties, auto_offset_reset=reset, isolation_level=level, group_id=group_id)
    async with Consumer(cluster, settings) as consumer:
        if group_id is None:
            await consumer.assign(await _positions(cluster, options, properties, timeout_s))
        elif options.topic is not None:
            consumer.subscribe([options.topic])
        else:
            wanted = TopicFilter(options.include)
            consumer.subscribe(pattern=lambda topic: wanted.matches(topic, exclude_internal=True))
        await _print_all(consumer, printer, options, timeout_s)


async def _print_all(consumer: Consumer, printer: LinePrinter, options: argparse.Namespace, timeout_s: float | None) -> None:
    quiet_since = asyncio.get_running_loop().time()
    while True:
        left = None if options.max_messages is None else options.max_messages - printer.count
        batches = await consumer.poll(POLL_S if timeout_s is None else min(timeout_s, POLL_S), max_records=left)
        now = asyncio.get_running_loop().time()
        if batches:
            quiet_since = now
        elif timeout_s is not None and now - quiet_since >= timeout_s:
            return
        for records in batches:
            for record in records:
                try:
                    printer.print(record)
                except Failure:
                    if not options.skip_message_on_error:
                        raise
        if printer.count == options.max_messages:
            return
        printer.flush()


async def _positions(
    cluster: Cluster, options: argparse.Namespace, properties: Mapping[str, str], timeout_s: float | None
) -> dict[TopicPartition, int]:
    """The offsets at which reading starts.  Waits for a topic that is not there yet, as Kafka's consumer does."""
    earliest = options.from_beginning or properties.get("auto.offset.reset") == "earliest"
    offset = EARLIEST if earliest else LATEST
    if options.offset is not None:
        offset = {"earliest": EARLIEST, "latest": LATEST}.get(options.offset) or int(options.offset)
    if options.include is not None:
        wanted = TopicFilter(options.include)
        topics = [
            topic.name for topic in await Admin(cluster).topics.list() if topic.name and wanted.matches(topic.name, exclude_internal=True)
        ]
        return {TopicPartition(topic, partition): offset for topic in topics for partition in cluster.view.partitions_of(topic)}

    async def find() -> None:
        view = await cluster.refresh([options.topic], allow_auto_topic_creation=True)
        code = view.error_of(options.topic) or ErrorCode.NONE
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"topic {options.topic}: {code.text}")

    await retrying(find, within_s=timeout_s or 60.0)
    partitions = cluster.view.partitions_of(options.topic)
    if options.partition is not None:
        if options.partition not in partitions:
            raise Failure(f"topic {options.topic} has no partition {options.partition}", f"It has {len(partitions)}, from 0")
        partitions = [options.partition]
    return {TopicPartition(options.topic, partition): offset for partition in partitions}
