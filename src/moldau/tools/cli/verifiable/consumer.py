"""● `moldau kafka-verifiable-consumer`: reads and commits, and reports both, as kafka-verifiable-consumer.sh does.

Source: VerifiableConsumer.java.
"""

import argparse
import asyncio
import contextlib
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from moldau.clients.cluster import Cluster
from moldau.clients.consumer import Consumer, RebalanceListener
from moldau.clients.records import Records
from moldau.errors import KafkaError
from moldau.tools.cli.connecting import ClientSettings
from moldau.tools.cli.grouping import consumer_options
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.tools.cli.verifiable.events import event, text_of
from moldau.tools.cli.verifiable.running import run_tool
from moldau.types import TopicPartition

FOREVER: Final = -1
POLL_S: Final = 1.0
MAX_POLL_RECORDS: Final = 500
"""The default of Kafka's consumer."""
RANGE: Final = "org.apache.kafka.clients.consumer.RangeAssignor"


def main(arguments: list[str]) -> int:
    return run_tool(_parser(), arguments, _consume, old_option="--consumer.config")


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-verifiable-consumer",
        "Read as a member of a group and print, as JSON, all that happens, as kafka-verifiable-consumer.sh does.",
        takes_last=True,
        examples=["--bootstrap-server localhost:9092 --topic t --group-id g --max-messages 1000"],
    )
    add = parser.add_argument
    add("--bootstrap-server", metavar="HOST:PORT", required=True, help="one or more brokers, comma separated")
    add("--topic", required=True, help="where from")
    add("--group-id", required=True, help="the group to read as")
    add("--group-protocol", type=str.lower, choices=("classic", "consumer"), default="classic", help="(%(default)s)")
    add("--group-remote-assignor", metavar="NAME", help="the broker's assignor, with --group-protocol consumer")
    add("--group-instance-id", metavar="ID", help="join as a static member with this id")
    add("--max-messages", type=int, default=FOREVER, metavar="COUNT", help="end after so many; -1: go on until stopped (%(default)s)")
    add("--session-timeout", type=int, metavar="MS", help="with --group-protocol classic")
    add("--verbose", action="store_true", help="print a line for each record")
    add("--enable-autocommit", action="store_true", help="commit at intervals instead of after each batch")
    add("--reset-policy", choices=("earliest", "latest", "none"), default="earliest", help="(%(default)s)")
    add("--assignment-strategy", default=RANGE, metavar="CLASS", help="with --group-protocol classic (RangeAssignor)")
    add("--command-config", metavar="FILE", help="a properties file with settings of the consumer")
    add("--consumer.config", dest="consumer_config", metavar="FILE", help="(deprecated) --command-config")
    return parser


def _listed(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"topic": one.topic, "partition": one.partition} for one in partitions]


class _Teller(RebalanceListener):
    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        event("partitions_assigned", partitions=_listed(partitions))

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        event("partitions_revoked", partitions=_listed(partitions))


def _options_of(options: argparse.Namespace) -> dict[str, Any]:
    given: dict[str, Any] = {
        "group_id": options.group_id,
        "group_protocol": options.group_protocol,
        "auto_offset_reset": options.reset_policy,
        "enable_auto_commit": options.enable_autocommit,
    }
    if options.group_instance_id is not None:
        given["group_instance_id"] = options.group_instance_id
    if options.group_protocol == "consumer":
        if options.group_remote_assignor is not None:
            given["group_remote_assignor"] = options.group_remote_assignor
    else:
        given["partition_assignment_strategy"] = options.assignment_strategy
        if options.session_timeout is not None:
            given["session_timeout_ms"] = options.session_timeout
    return given


async def _consume(cluster: Cluster, options: argparse.Namespace, settings: ClientSettings) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, ended.set)
    event("startup_complete")
    count = 0
    async with Consumer(cluster, consumer_options(settings.properties, **_options_of(options))) as consumer:
        consumer.subscribe([options.topic], listener=_Teller())
        while not ended.is_set() and (options.max_messages < 0 or count < options.max_messages):
            found = await _poll(consumer, ended)
            if not found:
                continue
            offsets = _tell(found, None if options.max_messages < 0 else options.max_messages - count, is_verbose=options.verbose)
            count += sum(map(len, offsets.values()))
            if not options.enable_autocommit:
                await _commit(consumer, {one: last[-1] + 1 for one, last in offsets.items()})
    event("shutdown_complete")


async def _poll(consumer: Consumer, ended: asyncio.Event) -> list[Records]:
    """The next records; none when the end comes first."""
    poll = asyncio.create_task(consumer.poll(POLL_S, max_records=consumer.options.max_poll_records or MAX_POLL_RECORDS))
    end = asyncio.create_task(ended.wait())
    await asyncio.wait((poll, end), return_when=asyncio.FIRST_COMPLETED)
    end.cancel()
    if not poll.done():
        event("shutdown_requested")
    return await poll


def _tell(found: Sequence[Records], limit: int | None, *, is_verbose: bool) -> dict[TopicPartition, list[int]]:
    """Print the records, and return the offsets of the first `limit`.  The printed `count` is that of all records, as in Kafka's tool."""
    taken: dict[TopicPartition, list[int]] = {}
    left = sum(map(len, found)) if limit is None else limit
    for records in found:
        offsets = records.offsets[:left]
        left -= len(offsets)
        if offsets:
            taken.setdefault(records.topic_partition, []).extend(offsets)
        if is_verbose:
            for key, value, offset in zip(records.raw_keys, records.raw_values, offsets, strict=False):
                event(
                    "record_data",
                    key=text_of(key),
                    value=text_of(value),
                    topic=records.topic,
                    partition=records.partition,
                    offset=offset,
                )
    partitions = [
        {"topic": one.topic, "partition": one.partition, "count": len(offsets), "minOffset": min(offsets), "maxOffset": max(offsets)}
        for one, offsets in taken.items()
    ]
    event("records_consumed", count=sum(map(len, found)), partitions=partitions)
    return taken


async def _commit(consumer: Consumer, offsets: Mapping[TopicPartition, int]) -> None:
    listed = [{"topic": one.topic, "partition": one.partition, "offset": offset} for one, offset in offsets.items()]
    try:
        await consumer.commit(offsets)
    except KafkaError as error:
        event("offsets_committed", offsets=listed, success=False, error=str(error))
    else:
        event("offsets_committed", offsets=listed, success=True)
