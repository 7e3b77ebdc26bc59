"""● `moldau consume`: read records and print them."""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import EARLIEST, LATEST
from moldau.clients.cluster import Cluster
from moldau.clients.consumer import Consumer, ConsumerOptions, RebalanceListener
from moldau.clients.records import ConsumerRecord
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.records.batch import CorruptBatch
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.parser import Parser, add_bootstrap, positive
from moldau.tools.cli.terminal import say
from moldau.types import TopicPartition

SHOWN: Final = ("partition", "offset", "time", "headers", "key")


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)

    async def work(cluster: Cluster) -> int:
        try:
            await _consume(cluster, options)
        except CorruptBatch as error:
            raise Failure(f"a batch that was fetched is broken: {error}", "`moldau dump-log` shows what is in the file") from error
        return 0

    return on_cluster(options, work)


def _parser() -> Parser:
    parser = Parser(
        "moldau consume",
        "Read records and print their values, one on a line.  Without --from-beginning, only records that come from now on.",
        examples=[
            "moldau consume hello --from-beginning",
            "moldau consume orders --from-beginning --exit --json",
            "moldau consume orders --group billing",
            "moldau consume orders --partition 2 --offset 100 --max 10 --show offset,key",
        ],
    )
    add_bootstrap(parser)
    add = parser.add_argument
    add("topic", metavar="TOPIC")
    add("-f", "--from-beginning", action="store_true", help="start at the first record")
    add("-o", "--offset", type=int, metavar="N", help="start at this offset; a negative one counts from the end")
    add("-p", "--partition", type=int, metavar="N", help="read only this partition (all)")
    add("-g", "--group", metavar="NAME", help="share the topic with the other members of this group, from the group's offsets on")
    add("-n", "--max", type=positive, metavar="COUNT", help="end after so many records")
    add("-e", "--exit", action="store_true", help="end after the record that is the last one now")
    add("-t", "--timeout", type=float, metavar="SECONDS", help="end when nothing came for so long")
    add("--show", default="", metavar="WHAT", help=f"print more of each record, comma separated: {', '.join(SHOWN)}")
    add("--json", action="store_true", help="print each record as one line of JSON, with everything")
    add("--committed", action="store_true", help="print only records of committed transactions")
    return parser


async def _consume(cluster: Cluster, options: argparse.Namespace) -> None:
    show = _line(options)
    if options.group is not None:
        await _consume_in_group(cluster, options, show)
        return
    partitions = await _partitions(cluster, options)
    start = await _start(cluster, options, partitions)
    left = await _ends(cluster, partitions) if options.exit else None
    if not (options.from_beginning or options.exit or options.offset is not None) and sys.stderr.isatty():
        say(f"Waiting for records that come to {options.topic} from now on; --from-beginning starts with the first.  Ctrl-C ends.")
    count = 0
    async with Consumer(cluster, ConsumerOptions(isolation_level=_isolation(options), auto_offset_reset="earliest")) as consumer:
        await consumer.assign(start)
        while left is None or any(consumer.positions.get(one, -1) < end for one, end in left.items()):
            batches = await consumer.poll(1.0 if options.timeout is None else options.timeout, max_records=_left(options, count))
            if not batches and options.timeout is not None:
                return
            for records in batches:
                for record in records:
                    if left is not None and record.offset >= left[records.topic_partition]:
                        continue
                    sys.stdout.buffer.write(show(record))
                    count += 1
            sys.stdout.flush()
            if count == options.max:
                return


def _isolation(options: argparse.Namespace) -> str:
    return "read_committed" if options.committed else "read_uncommitted"


def _left(options: argparse.Namespace, count: int) -> int | None:
    return None if options.max is None else options.max - count


async def _consume_in_group(cluster: Cluster, options: argparse.Namespace, show: Callable[[ConsumerRecord], bytes]) -> None:
    if options.partition is not None or options.offset is not None or options.exit:
        raise Failure("--group goes with neither --partition nor --offset nor --exit", "--timeout 5 ends when nothing came for 5 seconds")
    await _partitions(cluster, options)
    reset = "earliest" if options.from_beginning else "latest"
    settings = ConsumerOptions(group_id=options.group, isolation_level=_isolation(options), auto_offset_reset=reset)
    count = 0
    loop = asyncio.get_running_loop()
    quiet_since = loop.time()
    async with Consumer(cluster, settings) as consumer:
        consumer.subscribe([options.topic], listener=_SayPartitions(consumer))
        while options.timeout is None or loop.time() - quiet_since < options.timeout:
            batches = await consumer.poll(1.0 if options.timeout is None else min(1.0, options.timeout), max_records=_left(options, count))
            if batches:
                quiet_since = loop.time()
            for records in batches:
                for record in records:
                    sys.stdout.buffer.write(show(record))
                    count += 1
            sys.stdout.flush()
            if count == options.max:
                return


class _SayPartitions(RebalanceListener):
    """Says on stderr which partitions are read from now on."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        if sys.stderr.isatty():
            names = ", ".join(map(str, self._consumer.assignment))
            say(f"Reading {names or 'nothing for now: others have all the partitions'}.")


async def _partitions(cluster: Cluster, options: argparse.Namespace) -> list[TopicPartition]:
    view = await cluster.refresh([options.topic])
    code = view.error_of(options.topic)
    if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise Failure(f"there is no topic {options.topic}", "`moldau topics list` shows them all")
    if code:
        raise KafkaError(code, f"topic {options.topic}: {code.text}")
    numbers = view.partitions_of(options.topic)
    if options.partition is not None:
        if options.partition not in numbers:
            raise Failure(f"topic {options.topic} has no partition {options.partition}", f"It has {len(numbers)}, from 0")
        numbers = [options.partition]
    return [TopicPartition(options.topic, number) for number in numbers]


async def _start(cluster: Cluster, options: argparse.Namespace, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    if options.offset is None:
        return dict.fromkeys(partitions, EARLIEST if options.from_beginning or options.exit else LATEST)
    if options.offset >= 0:
        return dict.fromkeys(partitions, options.offset)
    return {one: max(0, end + options.offset) for one, end in (await _ends(cluster, partitions)).items()}


async def _ends(cluster: Cluster, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    ends = {}
    for one, answer in (await Admin(cluster).partitions.list_offsets(dict.fromkeys(partitions, LATEST))).items():
        if isinstance(answer, KafkaError):
            raise answer
        ends[one] = answer.offset
    return ends


def _line(options: argparse.Namespace) -> Callable[[ConsumerRecord], bytes]:
    if options.json:
        return as_json
    shown = [word.strip() for word in options.show.split(",") if word.strip()]
    for word in shown:
        if word not in SHOWN:
            raise Failure(f"--show does not know {word}", f"It knows {', '.join(SHOWN)}")
    return lambda record: as_text(record, shown)


def as_text(record: ConsumerRecord, shown: list[str]) -> bytes:
    parts = []
    for word in SHOWN:
        if word in shown:
            parts.append(_shown(record, word))
    parts.append(b"" if record.value is None else record.value)
    return b"\t".join(parts) + b"\n"


def _shown(record: ConsumerRecord, word: str) -> bytes:
    if word == "partition":
        return b"%d" % record.partition
    if word == "offset":
        return b"%d" % record.offset
    if word == "time":
        return _time(record.timestamp).encode()
    if word == "headers":
        return b",".join(key.encode() + b"=" + (value or b"") for key, value in record.headers)
    return b"" if record.key is None else record.key


def as_json(record: ConsumerRecord) -> bytes:
    """Bytes that are not UTF-8 are shown as {"hex": …}."""
    shown = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "time": _time(record.timestamp),
        "timestamp": record.timestamp,
        "headers": [[key, _json(value)] for key, value in record.headers],
        "key": _json(record.key),
        "value": _json(record.value),
    }
    return json.dumps(shown, ensure_ascii=False).encode() + b"\n"


def _json(data: bytes | None) -> object:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"hex": data.hex()}


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
