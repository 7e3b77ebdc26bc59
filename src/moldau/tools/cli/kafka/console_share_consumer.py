"""● `moldau kafka-console-share-consumer`: records of a share group become lines, as with kafka-console-share-consumer.sh.

Each record printed is accepted, or with --release or --reject that is said of it.
"""

import argparse
import asyncio
import sys
from typing import Final

from moldau.clients.cluster import Cluster
from moldau.clients.share_consumer import Acknowledge, ShareConsumer, ShareConsumerOptions, SharedRecord
from moldau.tools.cli.connecting import client_settings, read_properties, run
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.console_consumer import DEFAULT_FORMATTERS
from moldau.tools.cli.kafka.formatter import Formatter
from moldau.tools.cli.kafka.options import KafkaParser, deprecated
from moldau.tools.cli.parser import key_value, positive

DEFAULT_GROUP: Final = "console-share-consumer"
POLL_S: Final = 1.0


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    for note in (
        deprecated(options.consumer_property, "--consumer-property", "--command-property"),
        deprecated(options.consumer_config, "--consumer-config", "--command-config"),
        deprecated(options.property, "--property", "--formatter-property"),
    ):
        if note:
            print(note)
    own = dict([*options.consumer_property, *options.command_property])
    settings = client_settings(options.command_config or options.consumer_config, own)
    group_id = _group_of(parser, options, settings.properties.get("group.id"))
    printer = _Printer(options)

    async def work(cluster: Cluster) -> int:
        consuming = ShareConsumerOptions(accepts_at_next_poll=False, max_records=int(settings.properties.get("max.poll.records", "500")))
        try:
            async with ShareConsumer(cluster, group_id, [options.topic], consuming) as consumer:
                await _print_all(consumer, printer, options)
        finally:
            sys.stdout.flush()
            print(f"Processed a total of {printer.count} messages", file=sys.stderr)
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
    add("--max-messages", type=positive, metavar="COUNT", help="end after so many")
    add("--timeout-ms", type=int, metavar="MS", help="end when nothing came for so long")
    add("--reject", action="store_true", help="reject each record: it is delivered to nobody any more")
    add("--release", action="store_true", help="release each record: it is delivered again")
    add("--reject-message-on-error", action="store_true", help="reject records that cannot be printed, and go on")
    add("--formatter", default=DEFAULT_FORMATTERS[0], metavar="CLASS", help="the default or NoOpMessageFormatter")
    add("--formatter-property", action="append", default=[], type=key_value, metavar="K=V", help="print.delivery=true, print.key=true, …")
    add("--property", action="append", default=[], type=key_value, metavar="K=V", help="(deprecated) --formatter-property")
    add("--formatter-config", metavar="FILE", help="a properties file with formatter properties")
    add("--key-deserializer", metavar="CLASS", help="LongDeserializer, …")
    add("--value-deserializer", metavar="CLASS", help="LongDeserializer, …")
    add("--command-property", action="append", default=[], type=key_value, metavar="K=V", help="a setting of the consumer")
    add("--consumer-property", action="append", default=[], type=key_value, metavar="K=V", help="(deprecated) --command-property")
    add("--consumer-config", metavar="FILE", help="(deprecated) --command-config")
    add("--enable-systest-events", action="store_true", help=argparse.SUPPRESS)
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
    if options.formatter not in DEFAULT_FORMATTERS:
        raise Failure(f"the formatter {options.formatter} is a Java class", f"Known: {', '.join(DEFAULT_FORMATTERS)}")


def _group_of(parser: KafkaParser, options: argparse.Namespace, from_settings: str | None) -> str:
    named = [group for group in dict.fromkeys((options.group, from_settings)) if group is not None]
    if len(named) > 1:
        groups = ", ".join(f"'{group}'" for group in named)
        raise parser.usage_error(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via '--consumer-config') "
            f"do not match. Detected group ids: {groups}"
        )
    return named[0] if named else DEFAULT_GROUP


class _Printer:
    """Writes lines to stdout, counting."""

    def __init__(self, options: argparse.Namespace) -> None:
        from_file = read_properties(options.formatter_config) if options.formatter_config else {}
        properties = {**from_file, **dict(options.property), **dict(options.formatter_property)}
        for what in ("key", "value"):
            given = getattr(options, f"{what}_deserializer")
            if given:
                properties[f"{what}.deserializer"] = given
        self._formatter = None if "NoOp" in options.formatter else Formatter(properties)
        self.count = 0

    def print(self, shared: SharedRecord) -> None:
        """Errors: Failure."""
        self.count += 1
        if self._formatter is not None:
            sys.stdout.buffer.write(self._formatter.line(shared.record, shared.delivery_count))


async def _print_all(consumer: ShareConsumer, printer: _Printer, options: argparse.Namespace) -> None:
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
                printer.print(shared)
            except Failure:
                if not options.reject_message_on_error:
                    raise
                consumer.acknowledge(shared, Acknowledge.REJECT)
                continue
            consumer.acknowledge(shared, said)
            if printer.count == options.max_messages:
                return
        sys.stdout.flush()
