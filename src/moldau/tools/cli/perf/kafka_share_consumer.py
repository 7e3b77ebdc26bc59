"""● `moldau kafka-share-consumer-perf-test`: members of a share group take records as fast as they come, as
kafka-share-consumer-perf-test.sh does.  --threads is the number of members; all of them run on one event loop.
"""

import argparse
import asyncio
from typing import Final

from moldau.clients.cluster import Cluster
from moldau.clients.options import OptionError, parse_options
from moldau.clients.share import ShareConsumer, ShareConsumerOptions
from moldau.tools.cli.connecting import ClientSettings, run
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.tools.cli.parser import positive
from moldau.tools.cli.perf.figures import SHARE_HEADER, ReceiveFigures
from moldau.tools.cli.perf.kafka_consumer import POLL_S, add_perf_options, check_perf_options, date, now_ms, perf_settings, too_few

CLIENT_ID: Final = "perf-share-consumer-client"
GROUP: Final = "perf-share-consumer"


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    check_perf_options(parser, options)
    if options.topic is None:
        raise parser.missing("topic")
    settings = perf_settings(options, CLIENT_ID)

    async def work(cluster: Cluster) -> int:
        await _test(cluster, options, settings)
        return 0

    return run(options.bootstrap_server, work, settings)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-share-consumer-perf-test",
        "Measure how fast the members of a share group take records, as kafka-share-consumer-perf-test.sh does.",
        examples=["--bootstrap-server localhost:9092 --topic perf --num-records 100000 --threads 2"],
    )
    add_perf_options(parser, group=GROUP, shown_group=GROUP)
    add = parser.add_argument
    add("--threads", type=positive, default=1, metavar="COUNT", help="members of the group (%(default)s)")
    add("--show-consumer-stats", action="store_true", help="print a line for each member")
    return parser


async def _test(cluster: Cluster, options: argparse.Namespace, settings: ClientSettings) -> None:
    if not options.hide_header:
        print(SHARE_HEADER, flush=True)
    whole, begun = ReceiveFigures(now_ms()), date(options)
    members = [ReceiveFigures(now_ms()) for _ in range(options.threads)]
    ends = await asyncio.gather(*(_read(cluster, options, settings, member, whole) for member in members))
    if whole.count < options.num_records:
        print(too_few(options.timeout))
    if options.show_consumer_stats:
        for number, (member, (ended_ms, ended)) in enumerate(zip(members, ends, strict=True), 1):
            client_id = settings.client_id if len(members) == 1 else f"{settings.client_id}-{number}"
            name = f"Share consumer {number} having client id {client_id} consumption metrics-"
            print(name, member.share_total(ended_ms, begun, ended))
    print(whole.share_total(now_ms(), begun, date(options)))


async def _read(
    cluster: Cluster, options: argparse.Namespace, settings: ClientSettings, own: ReceiveFigures, whole: ReceiveFigures
) -> tuple[float, str]:
    """Read, and return the end time on the loop's clock and as a date."""
    chosen = _options_of(options, settings)
    async with cluster.sibling() as connections, ShareConsumer(connections, options.group, [options.topic], chosen) as consumer:
        quiet_since_ms = now_ms()
        while whole.count < options.num_records and now_ms() - quiet_since_ms <= options.timeout:
            taken = await consumer.poll(wait_s=POLL_S)
            if taken:
                quiet_since_ms = now_ms()
            size = sum(len(one.record.key or b"") + len(one.record.value or b"") for one in taken)
            for figures in (own, whole):
                figures.count += len(taken)
                figures.bytes += size
        await consumer.commit()
        return now_ms(), date(options)


def _options_of(options: argparse.Namespace, settings: ClientSettings) -> ShareConsumerOptions:
    names = ("max.poll.records", "fetch.max.wait.ms", "fetch.min.bytes", "share.acquire.mode")
    chosen = {name: settings.properties[name] for name in names if name in settings.properties}
    try:
        return parse_options(ShareConsumerOptions, {**chosen, "fetch.max.bytes": options.fetch_size})
    except OptionError as error:
        raise Failure(str(error)) from error
