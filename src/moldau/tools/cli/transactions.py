"""● `moldau transactions`: show open transactions and their producers, find transactions that hang, end them."""

import argparse
import time
from typing import Final

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.transactions import NO_DURATION, TransactionAdmin
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.parser import Parser, add_actions
from moldau.tools.cli.terminal import say, table
from moldau.types import TopicPartition

LONGEST_TIMEOUT_MINUTES: Final = 15
MS_PER_MINUTE: Final = 60_000


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)

    async def work(cluster: Cluster) -> int:
        actions = {
            "list": _list,
            "describe": _describe,
            "producers": _producers,
            "hanging": _hanging,
            "abort": _abort,
            "terminate": _terminate,
        }
        await actions[options.action](Admin(cluster).transactions, options)
        return 0

    return on_cluster(options, work)


def _parser() -> Parser:
    parser = Parser(
        "moldau transactions",
        "Show who has a transaction open, since when and in which partitions; find transactions that hang, and end them.",
        examples=[
            "moldau transactions list --open-for 60",
            "moldau transactions describe billing-1",
            "moldau transactions producers orders:0",
            "moldau transactions hanging --topic orders",
            "moldau transactions abort orders:0 --start-offset 42",
            "moldau transactions terminate billing-1",
        ],
    )
    action = add_actions(parser)
    listing = action("list", "show transactional ids with their state and producer")
    listing.add_argument("--open-for", type=int, metavar="SECONDS", help="only transactions that are open for longer")
    listing.add_argument("--matching", metavar="REGEX", help="only transactional ids that match as a whole")
    action("describe", "show the transaction of an id, with its partitions").add_argument("ids", nargs="+", metavar="ID")
    action("producers", "show producers that have written to a partition, and where their open transactions begin").add_argument(
        "partitions", nargs="+", type=_partition, metavar="TOPIC:N"
    )
    hanging = action("hanging", "show transactions that are open in a partition's log while no coordinator is going to end them")
    hanging.add_argument("--topic", action="append", metavar="TOPIC", help="only in this topic (all topics)")
    hanging.add_argument(
        "--minutes", type=int, default=LONGEST_TIMEOUT_MINUTES, help="only transactions open for longer than any may be (%(default)s)"
    )
    abort = action("abort", "end a transaction that hangs, in one partition")
    abort.add_argument("partition", type=_partition, metavar="TOPIC:N")
    abort.add_argument("--start-offset", type=int, required=True, metavar="OFFSET", help="where the transaction begins (see `producers`)")
    action("terminate", "abort the open transaction of an id, and fence its producer").add_argument("ids", nargs="+", metavar="ID")
    return parser


def _partition(text: str) -> TopicPartition:
    topic, colon, number = text.rpartition(":")
    if not colon or not number.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form topic:partition")
    return TopicPartition(topic, int(number))


async def _list(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    longer_than_ms = NO_DURATION if options.open_for is None else options.open_for * 1000
    found = await admin.list_transactions(longer_than_ms=longer_than_ms, pattern=options.matching)
    if not found:
        say("There are no transactional ids." if options.open_for is None and not options.matching else "No transactional id is like that.")
        return
    rows = sorted(
        (each.listed.transactional_id, each.listed.transaction_state, each.listed.producer_id, each.coordinator_id) for each in found
    )
    table(("TRANSACTIONAL ID", "STATE", "PRODUCER", "COORDINATOR"), rows, right=("PRODUCER", "COORDINATOR"))


async def _describe(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    rows = []
    for transactional_id in options.ids:
        try:
            found = await admin.describe(transactional_id)
        except KafkaError as error:
            raise await _not_there(admin, transactional_id, error) from error
        elapsed_ms = None if found.start_ms is None else _now_ms() - found.start_ms
        rows.append(
            (
                transactional_id,
                found.state,
                found.producer_id,
                found.producer_epoch,
                "-" if elapsed_ms is None else f"{elapsed_ms / 1000:.1f} s",
                f"{found.timeout_ms / 1000:.0f} s",
                ", ".join(f"{one.topic}:{one.partition}" for one in found.partitions) or "-",
            )
        )
    numbers = ("PRODUCER", "EPOCH", "OPEN FOR", "TIME-OUT")
    table(("TRANSACTIONAL ID", "STATE", *numbers, "PARTITIONS"), rows, right=numbers)


async def _not_there(admin: TransactionAdmin, transactional_id: str, error: KafkaError) -> Failure:
    if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return Failure(f"transactional id {transactional_id}: {error.detail}")
    from difflib import get_close_matches

    near = get_close_matches(transactional_id, [each.listed.transactional_id for each in await admin.list_transactions()], n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return Failure(f"there is no transactional id {transactional_id}{hint}", "`moldau transactions list` shows them all")


async def _producers(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    rows = [
        (
            f"{partition.topic}:{partition.partition}",
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.coordinator_epoch,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else "-",
        )
        for partition in options.partitions
        for each in await admin.producers_of(partition)
    ]
    if not rows:
        say("No producer is known there.")
        return
    numbers = ("PRODUCER", "EPOCH", "LAST SEQUENCE", "COORDINATOR EPOCH", "OPEN FROM")
    table(("PARTITION", *numbers), rows, right=numbers)


async def _hanging(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    topics = await Admin(admin.cluster).topics.list()
    wanted = options.topic or [topic.name for topic in topics]
    unknown = sorted(set(wanted) - {topic.name for topic in topics})
    if unknown:
        raise Failure(f"there is no topic {unknown[0]}", "`moldau topics list` shows them all")
    partitions = [
        TopicPartition(topic.name or "", one.partition_index) for topic in topics if topic.name in wanted for one in topic.partitions
    ]
    now_ms = _now_ms()
    found = await admin.find_hanging(sorted(partitions), now_ms=now_ms, longer_than_ms=options.minutes * MS_PER_MINUTE)
    if not found:
        say(f"Nothing hangs in {len(partitions)} partitions.")
        return
    rows = []
    for partition, producer in found:
        elapsed_ms = now_ms - producer.last_timestamp
        name = f"{partition.topic}:{partition.partition}"
        rows.append(
            (name, producer.producer_id, producer.producer_epoch, producer.current_txn_start_offset, f"{elapsed_ms // MS_PER_MINUTE} min")
        )
    numbers = ("PRODUCER", "EPOCH", "OPEN FROM", "SINCE")
    table(("PARTITION", *numbers), rows, right=numbers)


async def _abort(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    partition = options.partition
    name = f"{partition.topic}:{partition.partition}"
    for producer in await admin.producers_of(partition):
        if producer.current_txn_start_offset == options.start_offset:
            await admin.abort(
                partition,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                coordinator_epoch=max(producer.coordinator_epoch, 0),
            )
            say(f"The transaction of producer {producer.producer_id} in {name} is aborted.")
            return
    raise Failure(
        f"no transaction is open from offset {options.start_offset} on in {name}", f"`moldau transactions producers {name}` shows them"
    )


async def _terminate(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    for transactional_id in options.ids:
        try:
            await admin.describe(transactional_id)
        except KafkaError as error:
            raise await _not_there(admin, transactional_id, error) from error
        await admin.force_terminate(transactional_id)
        say(f"{transactional_id}: its transaction is aborted, its producer fenced.")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
