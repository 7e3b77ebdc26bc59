"""● The common parts of the two console consumers: options of a consumer and of its lines, and the printing of the lines."""

import argparse
import sys
from typing import Final

from moldau.clients.records import ConsumerRecord
from moldau.tools.cli.connecting import ClientSettings, client_settings, read_properties
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.lines.formatter import Formatter
from moldau.tools.cli.kafka.options import KafkaParser, deprecated
from moldau.tools.cli.parser import key_value, positive

FORMATTERS: Final = (
    "org.apache.kafka.tools.consumer.DefaultMessageFormatter",
    "kafka.tools.DefaultMessageFormatter",
    "org.apache.kafka.tools.consumer.NoOpMessageFormatter",
    "kafka.tools.NoOpMessageFormatter",
)
POLL_S: Final = 1.0


def add_console_options(parser: KafkaParser, *, old_config: str, shown: str) -> None:
    """`old_config`: the deprecated name of --command-config; `shown`: examples of what a line may show."""
    add = parser.add_argument
    add("--max-messages", type=positive, metavar="COUNT", help="end after so many records")
    add("--timeout-ms", type=int, metavar="MS", help="end when nothing came for so long")
    add("--formatter", default=FORMATTERS[0], metavar="CLASS", help="the default or NoOpMessageFormatter")
    add("--formatter-property", action="append", default=[], type=key_value, metavar="K=V", help=f"{shown}, …")
    add("--property", action="append", default=[], type=key_value, metavar="K=V", help="(deprecated) --formatter-property")
    add("--formatter-config", metavar="FILE", help="a properties file with formatter properties")
    add("--key-deserializer", metavar="CLASS", help="LongDeserializer, …")
    add("--value-deserializer", metavar="CLASS", help="LongDeserializer, …")
    add("--command-property", action="append", default=[], type=key_value, metavar="K=V", help="a setting of the consumer")
    add("--consumer-property", action="append", default=[], type=key_value, metavar="K=V", help="(deprecated) --command-property")
    add(old_config, dest="consumer_config", metavar="FILE", help="(deprecated) --command-config")
    add("--enable-systest-events", action="store_true", help=argparse.SUPPRESS)


def check_formatter(options: argparse.Namespace) -> None:
    """Errors: Failure."""
    if options.formatter not in FORMATTERS:
        raise Failure(f"the formatter {options.formatter} is a Java class", f"Known: {', '.join(FORMATTERS)}")


def console_settings(options: argparse.Namespace, *, old_config: str) -> ClientSettings:
    """The settings of the consumer.  Prints a note about every old spelling."""
    for note in (
        deprecated(options.consumer_property, "--consumer-property", "--command-property"),
        deprecated(options.consumer_config, old_config, "--command-config"),
        deprecated(options.property, "--property", "--formatter-property"),
    ):
        if note:
            print(note)
    own = dict([*options.consumer_property, *options.command_property])
    return client_settings(options.command_config or options.consumer_config, own)


class LinePrinter:
    """Writes lines to stdout, counting records."""

    def __init__(self, options: argparse.Namespace) -> None:
        from_file = read_properties(options.formatter_config) if options.formatter_config else {}
        properties = {**from_file, **dict(options.property), **dict(options.formatter_property)}
        for what in ("key", "value"):
            given = getattr(options, f"{what}_deserializer")
            if given:
                properties[f"{what}.deserializer"] = given
        self._formatter = None if "NoOp" in options.formatter else Formatter(properties)
        self.count = 0

    def print(self, record: ConsumerRecord, delivery_count: int | None = None) -> None:
        """Errors: Failure for a record that cannot be printed; the record is counted all the same."""
        self.count += 1
        if self._formatter is not None:
            sys.stdout.buffer.write(self._formatter.line(record, delivery_count))

    def flush(self) -> None:
        sys.stdout.flush()

    def end(self) -> None:
        """Print the number of records on stderr."""
        self.flush()
        print(f"Processed a total of {self.count} messages", file=sys.stderr)
