"""● `moldau kafka-console-producer`: lines of standard input become records, as with kafka-console-producer.sh."""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from typing import Final

from moldau.clients.cluster import Cluster
from moldau.clients.options import OptionError
from moldau.clients.producer import Delivery, Producer, ProducerOptions
from moldau.errors import KafkaError
from moldau.tools.cli.connecting import client_settings, read_properties, run
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.lines.reader import LineReader
from moldau.tools.cli.kafka.options import KafkaParser, deprecated
from moldau.tools.cli.parser import key_value
from moldau.tools.cli.standard_input import lines_of_standard_input

DEFAULT_READER: Final = "org.apache.kafka.tools.LineMessageReader"
ACKS: Final = ("all", "-1", "0", "1")


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    missing = [name for name in ("bootstrap-server", "topic") if getattr(options, name.replace("-", "_")) is None]
    if missing:
        raise parser.missing(*missing)
    if options.line_reader != DEFAULT_READER:
        raise Failure(f"the line reader {options.line_reader} is a Java class", f"Only {DEFAULT_READER} is supported")
    for note in (
        deprecated(options.producer_property, "--producer-property", "--command-property"),
        deprecated(options.producer_config, "--producer.config", "--command-config"),
        deprecated(options.max_partition_memory_bytes, "--max-partition-memory-bytes", "--batch-size"),
    ):
        if note:
            print(note)
    if options.property:
        print("Warning: --property is deprecated and will be removed in a future version. Use --reader-property instead.")
    reader = LineReader(_reader_properties(options))
    overrides = dict([*options.producer_property, *options.command_property])
    settings = client_settings(options.command_config or options.producer_config, overrides)

    async def work(cluster: Cluster) -> int:
        await produce_lines(cluster, options.topic, reader, producer_options(options, settings.properties), sync=options.sync)
        return 0

    return run(options.bootstrap_server, work, settings)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-console-producer",
        "Each line of standard input becomes a record, as with kafka-console-producer.sh.",
        examples=[
            "--bootstrap-server localhost:9092 --topic orders",
            "--bootstrap-server localhost:9092 --topic orders --reader-property parse.key=true --reader-property key.separator=:",
        ],
    )
    parser.add_common()
    add = parser.add_argument
    add("--topic", help="the topic to write to")
    add(
        "--reader-property",
        action="append",
        default=[],
        type=key_value,
        metavar="K=V",
        help="how lines are read: parse.key, key.separator, …",
    )
    add("--property", action="append", default=[], type=key_value, metavar="K=V", help="(deprecated) --reader-property")
    add("--reader-config", metavar="FILE", help="a properties file with reader properties")
    add("--command-property", action="append", default=[], type=key_value, metavar="K=V", help="a setting of the producer")
    add("--producer-property", action="append", default=[], type=key_value, metavar="K=V", help="(deprecated) --command-property")
    add("--producer.config", dest="producer_config", metavar="FILE", help="(deprecated) --command-config")
    add("--line-reader", default=DEFAULT_READER, metavar="CLASS", help="the default is the only one")
    add("--compression-codec", nargs="?", const="gzip", metavar="CODEC", help="none, gzip (without a value), snappy, lz4 or zstd")
    add("--request-required-acks", metavar="ACKS", help="-1 or all, 1, 0")
    add("--sync", action="store_true", help="wait for each record's answer before the next")
    add("--batch-size", type=int, metavar="BYTES", help="the size of a partition's batch (16384)")
    add("--max-partition-memory-bytes", type=int, metavar="BYTES", help="(deprecated) --batch-size")
    add("--max-memory-bytes", type=int, metavar="BYTES", help="memory for records that are not delivered yet (33554432)")
    add("--timeout", type=int, metavar="MS", help="how long a batch waits for more records (1000)")
    add("--request-timeout-ms", type=int, metavar="MS", help="how long the broker may take (30000; Kafka: 1500)")
    for name in ("--max-block-ms", "--message-send-max-retries", "--metadata-expiry-ms", "--retry-backoff-ms", "--socket-buffer-size"):
        add(name, type=int, help=argparse.SUPPRESS)  # taken and not needed
    return parser


def _reader_properties(options: argparse.Namespace) -> dict[str, str]:
    from_file = read_properties(options.reader_config) if options.reader_config else {}
    return {**from_file, **dict(options.property), **dict(options.reader_property)}


def producer_options(options: argparse.Namespace, properties: Mapping[str, str]) -> ProducerOptions:
    """The command line counts more than properties.  Errors: Failure."""
    acks = options.request_required_acks or properties.get("acks", "all")
    if acks not in ACKS:
        raise Failure(f"acks cannot be {acks}", "Use all, 1 or 0")
    batch_size = options.max_partition_memory_bytes or options.batch_size or _number(properties, "batch.size", 16384)
    linger_ms = _number(properties, "linger.ms", 1000) if options.timeout is None else options.timeout
    request_timeout_ms = options.request_timeout_ms or _number(properties, "request.timeout.ms", 30_000)
    try:
        return ProducerOptions(
            acks=acks,
            compression_type=options.compression_codec or properties.get("compression.type", "none"),
            batch_size=batch_size,
            linger_ms=linger_ms,
            buffer_memory=options.max_memory_bytes or _number(properties, "buffer.memory", 33554432),
            request_timeout_ms=request_timeout_ms,
            delivery_timeout_ms=max(120_000, linger_ms + request_timeout_ms),
        )
    except OptionError as error:
        raise Failure(str(error)) from error


def _number(properties: Mapping[str, str], key: str, default: int) -> int:
    try:
        return int(properties.get(key, default))
    except ValueError as error:
        raise Failure(f"{key} cannot be {properties[key]!r}", "A number is expected") from error


async def produce_lines(cluster: Cluster, topic: str, reader: LineReader, options: ProducerOptions, *, sync: bool = False) -> int:
    """Returns how many records were written.  Errors: Failure with the first error and the number of records that were not written."""
    failures: list[BaseException] = []

    def note(future: Delivery) -> None:
        if not future.cancelled() and (error := future.exception()) is not None:
            failures.append(error)

    count = 0
    prompt = "> " if sys.stdin.isatty() else ""
    async with Producer(cluster, options) as producer:
        async for line in lines_of_standard_input(prompt):
            count += 1
            record = reader.read(line, count)
            delivery = producer.send(topic, record.value, key=record.key, headers=record.headers)
            delivery.add_done_callback(note)
            if sync:
                await asyncio.gather(delivery, return_exceptions=True)
            else:
                await producer.drain()
    if failures:
        first = failures[0]
        detail = first.detail if isinstance(first, KafkaError) else str(first)
        raise Failure(f"{len(failures)} of {count} records were not written: {detail}")
    return count
