"""● `moldau perf`: how fast records go in, come out, and how long one is on its way."""

import argparse
import asyncio
import json
import random
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import NewTopic
from moldau.clients.cluster import Cluster
from moldau.clients.consumer import Consumer
from moldau.clients.producer import Producer
from moldau.errors import KafkaError
from moldau.tools.cli.connecting import client_settings, run
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.grouping import consumer_options
from moldau.tools.cli.parser import Parser, add_actions, positive
from moldau.tools.cli.perf.figures import MIB, PERCENTILES, percentiles, plot
from moldau.tools.cli.perf.kafka_consumer import size_of
from moldau.tools.cli.perf.kafka_producer import random_letters
from moldau.tools.cli.perf.load import UNTHROTTLED, Load
from moldau.tools.cli.perf.settings import producer_options
from moldau.tools.cli.terminal import say
from moldau.types import TopicPartition

WARM_UP: Final = 20
"""The first records of `latency`, which are not counted: connections open, and code runs for the first time."""
GIVE_UP_S: Final = 30.0

Advance = Callable[[int], None]


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    action = {"produce": _produce, "consume": _consume, "latency": _latency, "end-to-end": _end_to_end}[options.action]
    settings = client_settings(options.command_config)
    topic: str | None = options.topic

    async def work(cluster: Cluster) -> int:
        async with Admin(cluster) as admin:
            name = topic or f"moldau-perf-{uuid.uuid4().hex[:8]}"
            if topic is None:
                await _create(admin, name, options.partitions)
            try:
                result = await action(cluster, name, options, dict(settings.properties))
            finally:
                if topic is None:
                    await admin.topics.delete([name])
        _print(result, as_json=options.json)
        return 0

    return run(options.bootstrap_server, work, settings)


def _parser() -> Parser:
    parser = Parser(
        "moldau perf",
        "Measure how fast records go in and come out, and how long one is on its way.  Without a topic, one is made and deleted again.",
        examples=[
            "moldau perf produce --records 1000000 --size 100",
            "moldau perf consume orders --records 1000000",
            "moldau perf latency",
            "moldau perf end-to-end --rate 1000 --records 10000",
        ],
    )
    action = add_actions(parser)
    produce = action("produce", "send records; how many a second, and how long until they are acknowledged")
    consume = action("consume", "read a topic from its beginning; how many records a second")
    latency = action("latency", "one record at a time, from sending it to reading it")
    end_to_end = action("end-to-end", "send at a rate and read at once; how long records are on their way")
    for one, count in ((produce, 1_000_000), (consume, 1_000_000), (latency, 1_000), (end_to_end, 10_000)):
        one.add_argument("topic", metavar="TOPIC", nargs="?" if one is not consume else None, help="(one that is made for it)")
        one.add_argument("-n", "--records", type=positive, default=count, metavar="COUNT", help="(%(default)s)")
        one.add_argument("--json", action="store_true", help="print the result as JSON")
        one.add_argument("--partitions", type=positive, default=1, metavar="COUNT", help="partitions of a topic that is made (%(default)s)")
    for one in (produce, latency, end_to_end):
        one.add_argument("-s", "--size", type=positive, default=100, metavar="BYTES", help="size of each value (%(default)s)")
        one.add_argument("--acks", choices=("all", "1", "0"), default="all", help="(%(default)s)")
        one.add_argument("-z", "--compression", choices=("none", "gzip", "snappy", "lz4", "zstd"), default="none", help="(%(default)s)")
    produce.add_argument("-r", "--rate", type=positive, default=UNTHROTTLED, metavar="RATE", help="records a second (as fast as they go)")
    end_to_end.add_argument("-r", "--rate", type=positive, default=1_000, metavar="RATE", help="records a second (%(default)s)")
    return parser


async def _create(admin: Admin, name: str, partitions: int) -> None:
    for answer in (await admin.topics.create([NewTopic(name, partitions)])).values():
        if isinstance(answer, KafkaError):
            raise answer


@contextmanager
def _progress(what: str, total: int) -> Iterator[Advance]:
    """A progress bar on a terminal's stderr; elsewhere nothing is drawn."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(what, total=total)
        yield lambda count: drawn.advance(task, count)


def _producer(cluster: Cluster, options: argparse.Namespace, properties: dict[str, str], **given: Any) -> Producer:
    settings = client_settings(None, {**properties, "acks": options.acks, "compression.type": options.compression})
    return Producer(cluster, producer_options(settings, **given))


async def _produce(cluster: Cluster, topic: str, options: argparse.Namespace, properties: dict[str, str]) -> dict[str, Any]:
    latencies: list[float] = []
    size = 0
    failures: list[KafkaError] = []
    with _progress("sent", options.records) as advance:

        def acknowledged(records: int, bytes_: int, latency_ms: int) -> None:
            nonlocal size
            latencies.extend([float(latency_ms)] * records)
            size += bytes_
            advance(records)

        async with _producer(cluster, options, properties) as producer:
            payloads = random_letters(options.size, random.Random(0))
            begun = monotonic()
            await Load(producer, topic, payloads, options.records, options.rate, acknowledged, failures.append).run()
    if failures:
        say(f"{len(failures)} records, or lists of them, were not delivered; the first: {failures[0]}")
    return _result(len(latencies), size, monotonic() - begun, latencies)


async def _consume(cluster: Cluster, topic: str, options: argparse.Namespace, properties: dict[str, str]) -> dict[str, Any]:
    count = size = 0
    async with Consumer(cluster, consumer_options(properties, auto_offset_reset="earliest", group_id=None)) as consumer:
        partitions = [TopicPartition(topic, number) for number in await consumer.partitions_for(topic)]
        ends = await consumer.end_offsets(partitions)
        first = await consumer.beginning_offsets(partitions)
        there = min(options.records, sum(ends[one] - first[one] for one in partitions))
        await consumer.assign(first)
        begun = monotonic()
        with _progress("read", there) as advance:
            while count < options.records and any(consumer.positions.get(one, 0) < ends[one] for one in partitions):
                for records in await consumer.poll(1.0):
                    count += len(records)
                    size += size_of(records)
                    advance(len(records))
        elapsed_s = monotonic() - begun
    if not count:
        raise Failure(f"there is nothing in {topic}", "`moldau perf produce` writes something to read")
    return _result(count, size, elapsed_s)


async def _latency(cluster: Cluster, topic: str, options: argparse.Namespace, properties: dict[str, str]) -> dict[str, Any]:
    latencies: list[float] = []
    payloads = random_letters(options.size, random.Random(0))
    async with cluster.sibling() as reading, Consumer(reading, consumer_options(properties, group_id=None, fetch_min_bytes=1)) as consumer:
        await _begin_at_the_end(consumer, topic)
        async with _producer(cluster, options, properties) as producer:
            begun = monotonic()
            with _progress("there and back", options.records) as advance:
                for number in range(WARM_UP + options.records):
                    sent = monotonic()
                    await producer.send(topic, next(payloads))
                    async with asyncio.timeout(GIVE_UP_S):
                        while not await consumer.poll(GIVE_UP_S):
                            pass
                    if number >= WARM_UP:
                        latencies.append((monotonic() - sent) * 1000)
                        advance(1)
    return _result(options.records, options.records * options.size, monotonic() - begun, latencies)


async def _end_to_end(cluster: Cluster, topic: str, options: argparse.Namespace, properties: dict[str, str]) -> dict[str, Any]:
    if options.size < 8:
        raise Failure("--size has to be 8 at least: the time of sending is in the value")
    latencies: list[float] = []
    filler = bytes(options.size - 8)

    def stamped() -> Iterator[bytes]:
        while True:
            yield int(monotonic() * 1_000_000).to_bytes(8, "big") + filler

    async with cluster.sibling() as reading, Consumer(reading, consumer_options(properties, group_id=None, fetch_min_bytes=1)) as consumer:
        await _begin_at_the_end(consumer, topic)
        async with _producer(cluster, options, properties) as producer:
            load = Load(producer, topic, stamped(), options.records, options.rate, lambda *_: None, lambda error: say(str(error)))
            begun = monotonic()
            sending = asyncio.create_task(load.run())
            quiet_since = monotonic()
            with _progress("arrived", options.records) as advance:
                while len(latencies) < options.records and monotonic() - quiet_since < GIVE_UP_S:
                    for records in await consumer.poll(1.0):
                        now = quiet_since = monotonic()
                        values = records.raw_values
                        latencies.extend(now * 1000 - int.from_bytes((value or b"")[:8], "big") / 1000 for value in values)
                        advance(len(values))
            elapsed_s = monotonic() - begun
            await sending
    return _result(len(latencies), len(latencies) * options.size, elapsed_s, latencies)


async def _begin_at_the_end(consumer: Consumer, topic: str) -> None:
    partitions = [TopicPartition(topic, number) for number in await consumer.partitions_for(topic)]
    await consumer.assign(await consumer.end_offsets(partitions))


def _result(count: int, size: int, elapsed_s: float, latencies: list[float] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "records": count,
        "seconds": round(elapsed_s, 3),
        "records_per_second": round(count / elapsed_s, 1),
        "mib_per_second": round(size / MIB / elapsed_s, 2),
    }
    if latencies:
        thousandths = percentiles([round(one * 1000) for one in latencies])
        named = zip(PERCENTILES, thousandths, strict=True)
        found["latency_ms"] = {f"p{share * 100:g}": round(found / 1000, 3) for share, found in named}
        found["latency_ms"]["max"] = round(max(latencies), 3)
        found["plot"] = plot(latencies)
    return found


def _print(result: dict[str, Any], *, as_json: bool) -> None:
    drawn = result.pop("plot", None)
    if as_json:
        print(json.dumps(result))
        return
    print(f"{result['records']:,} records in {result['seconds']:,} s")
    print(f"{result['records_per_second']:,} records/s, {result['mib_per_second']:,} MiB/s")
    if "latency_ms" in result:
        print("latency: " + ", ".join(f"{name} {value:g} ms" for name, value in result["latency_ms"].items()))
    if drawn:
        print(drawn)
