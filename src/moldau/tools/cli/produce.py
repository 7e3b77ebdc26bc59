"""● `moldau produce`: write records from the command line, or one from each line of standard input."""

import argparse
import sys

from moldau.clients.cluster import Cluster
from moldau.clients.producer import Producer, ProducerOptions
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.compression import Codec
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.console_producer import produce_lines
from moldau.tools.cli.kafka.lines.reader import LineReader
from moldau.tools.cli.parser import Parser, add_bootstrap, key_value
from moldau.tools.cli.terminal import say


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)

    async def work(cluster: Cluster) -> int:
        try:
            if options.values:
                await _produce_values(cluster, options)
            else:
                await _produce_lines(cluster, options)
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise Failure(f"there is no topic {options.topic}", f"`moldau topics create {options.topic}` makes it") from error
            raise
        return 0

    return on_cluster(options, work)


def _parser() -> Parser:
    parser = Parser(
        "moldau produce",
        "Write records: the values given, or one from each line of standard input.",
        examples=[
            'moldau produce hello "Hello, world"',
            "moldau produce orders --key 17 '{\"id\": 17}' --header source=web",
            "moldau produce lines < access.log",
            "moldau produce pairs --key-separator : < pairs.txt",
        ],
    )
    add_bootstrap(parser)
    add = parser.add_argument
    add("topic", metavar="TOPIC")
    add("values", metavar="VALUE", nargs="*", help="a value to write; without any, lines are read from standard input")
    add("-k", "--key", help="the records' key")
    add("-H", "--header", action="append", default=[], type=key_value, metavar="K=V", help="a header; repeatable")
    add("-p", "--partition", type=int, help="the partition to write to, instead of one by key")
    add("-s", "--key-separator", metavar="TEXT", help="each line holds a key, this text, a value")
    add("-z", "--compression", default="none", choices=[codec.name.lower() for codec in Codec], help="(%(default)s)")
    add(
        "--acks",
        default="all",
        choices=("all", "1", "0"),
        help="wait for the answer of all replicas in sync, of the leader, or of nobody (%(default)s)",
    )
    return parser


def _options(options: argparse.Namespace) -> ProducerOptions:
    return ProducerOptions(acks=options.acks, compression_type=options.compression)


async def _produce_values(cluster: Cluster, options: argparse.Namespace) -> None:
    if options.key_separator is not None:
        raise Failure("--key-separator is for lines of standard input", "Give --key with values of the command line")
    key = None if options.key is None else options.key.encode()
    headers = [(name, value.encode()) for name, value in options.header]
    async with Producer(cluster, _options(options)) as producer:
        sent = [
            producer.send(options.topic, value.encode(), key=key, headers=headers, partition=options.partition) for value in options.values
        ]
        await producer.flush()
        for future in sent:
            written = await future
            where = f"offset {written.offset}" if written.offset >= 0 else "an offset nobody told (--acks 0)"
            print(f"Wrote to {written.topic}, partition {written.partition}, {where}.")


async def _produce_lines(cluster: Cluster, options: argparse.Namespace) -> None:
    if options.key is not None or options.header or options.partition is not None:
        raise Failure("--key, --header and --partition are for values of the command line", "Use --key-separator with lines")
    if sys.stdin.isatty():
        say("Each line becomes a record; Ctrl-D ends.")
    properties = {} if options.key_separator is None else {"parse.key": "true", "key.separator": options.key_separator}
    count = await produce_lines(cluster, options.topic, LineReader(properties), _options(options))
    print(f"Wrote {count} record{'s' if count != 1 else ''} to {options.topic}.")
