"""● `moldau kafka-console-share-consumer`: records of a share group become lines, as with kafka-console-share-consumer.sh.

A printed record is accepted; with --release it is released, with --reject it is rejected.
"""

import argparse
import asyncio
from typing import Final

from moldau.clients.cluster import Cluster
from moldau.clients.share import Acknowledge, ShareConsumer, ShareConsumerOptions
from moldau.tools.cli.connecting import run
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.lines.options import POLL_S, LinePrinter, add_console_options, check_formatter, console_settings
from moldau.tools.cli.kafka.options import KafkaParser

DEFAULT_GROUP: Final = "console-share-consumer"
OLD_CONFIG: Final = "--consumer-config"


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    settings = console_settings(options, old_config=OLD_CONFIG)
    group_id = _group_of(parser, options, settings.properties.get("group.id"))
    printer = LinePrinter(options)

    async def work(cluster: Cluster) -> int:
        consuming = ShareConsumerOptions(
            share_acknowledgement_mode="explicit", max_poll_records=int(settings.properties.get("max.poll.records", "500"))
        )
        try:
            async with ShareConsumer(cluster, group_id, [options.topic], consuming) as consumer:
                await _print_all(consumer, printer, options)
        finally:
            printer.end()
        return 0

    return run(options.bootstrap_server, work, settings)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-console-share-consumer",
        "Print records of a share group, as kafka-console-share-consumer.sh does.",
        examples=[
            "--bootstrap-server localhost:9092 --topic jobs --group printers",
            "--bootstrap-server localhost:9092 --topic jobs --release --formatter-property print.delivery=true",
        ],
    )
    parser.add_common()
    add = parser.add_argument
    add("--topic", help="where from")
    add("--group", help=f"the share group ({DEFAULT_GROUP})")
    add("--reject", action="store_true", help="reject each record: it is not delivered again")
    add("--release", action="store_true", help="release each record: it is delivered again")
    add("--reject-message-on-error", action="store_true", help="reject records that cannot be printed, and go on")
    add_console_options(parser, old_config=OLD_CONFIG, shown="print.delivery=true, print.key=true")
    return parser


def _check(parser: KafkaParser, options: argparse.Namespace) -> None:
    if options.topic is None:
        raise parser.usage_error("--topic is a required argument")
    if options.bootstrap_server is None:
        raise parser.missing("bootstrap-server")
    if options.reject and options.release:
        raise parser.usage_error("At most one of --reject and --release may be specified.")
    if options.consumer_property and options.command_property:
        raise parser.usage_error("Options --consumer-property and --command-property cannot be specified together.")
    if options.consumer_config and options.command_config:
        raise parser.usage_error("Options --consumer-config and --command-config cannot be specified together.")
    check_formatter(options)


def _group_of(parser: KafkaParser, options: argparse.Namespace, from_settings: str | None) -> str:
    named = [group for group in dict.fromkeys((options.group, from_settings)) if group is not None]
    if len(named) > 1:
        groups = ", ".join(f"'{group}'" for group in named)
        raise parser.usage_error(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via '--consumer-config') "
            f"do not match. Detected group ids: {groups}"
        )
    return named[0] if named else DEFAULT_GROUP


async def _print_all(consumer: ShareConsumer, printer: LinePrinter, options: argparse.Namespace) -> None:
    timeout_s = None if options.timeout_ms is None else options.timeout_ms / 1000
    said = Acknowledge.REJECT if options.reject else Acknowledge.RELEASE if options.release else Acknowledge.ACCEPT
    loop = asyncio.get_running_loop()
    quiet_since = loop.time()
    while True:
        records = await consumer.poll(wait_s=POLL_S if timeout_s is None else min(timeout_s, POLL_S))
        if records:
            quiet_since = loop.time()
        elif timeout_s is not None and loop.time() - quiet_since >= timeout_s:
            return
        for shared in records:
            try:
                printer.print(shared.record, shared.delivery_count)
            except Failure:
                if not options.reject_message_on_error:
                    raise
                consumer.acknowledge(shared, Acknowledge.REJECT)
                continue
            consumer.acknowledge(shared, said)
            if printer.count == options.max_messages:
                return
        printer.flush()
