"""● `moldau kafka-transactions`: the transactions of a cluster, as kafka-transactions.sh shows and ends them.

Differs from Kafka: an error in the options comes without the page of options.
"""

import argparse
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.transactions import NO_DURATION, OpenTransaction, TransactionAdmin
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.describe_producers import ProducerState
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.kafka.java_errors import message
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.tools.cli.parser import Parser
from moldau.types import TopicPartition

DEFAULT_TIMEOUT_MINUTES: Final = 15
MS_PER_MINUTE: Final = 60_000
LIST_COLUMNS: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBE_COLUMNS: Final = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
PRODUCER_COLUMNS: Final = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
HANGING_COLUMNS: Final = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)


class Refused(Exception):
    """A text that the tool prints on stderr before it ends with 1."""


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.bootstrap_server is None:
        raise parser.usage_error("argument --bootstrap-server is required")
    if options.command is None:
        raise parser.usage_error("too few arguments")

    async def work(cluster: Cluster) -> int:
        try:
            await ACTIONS[options.command](Admin(cluster).transactions, options)
        except Refused as refused:
            print(refused, file=sys.stderr)
            return 1
        return 0

    return on_cluster(options, work)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-transactions",
        "Analyse the transactions of a cluster, find those that hang and end them, as kafka-transactions.sh does.",
        examples=[
            "--bootstrap-server localhost:9092 list",
            "--bootstrap-server localhost:9092 find-hanging --topic orders",
            "--bootstrap-server localhost:9092 abort --topic orders --partition 0 --start-offset 42",
        ],
    )
    parser.add_common()
    actions = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)

    def action(name: str, about: str) -> Parser:
        return actions.add_parser(name, help=about, description=about)

    listing = action("list", "list transactions")
    listing.add_argument("--duration-filter", type=int, default=NO_DURATION, metavar="MS", help="only those open for longer than this")
    listing.add_argument("--transactional-id-pattern", metavar="REGEX", help="only transactional ids that match as a whole")
    describe = action("describe", "describe the state of a transactional id")
    describe.add_argument("--transactional-id", required=True, metavar="ID", help="transactional id")
    producers = action("describe-producers", "describe the producers that are active in a partition")
    producers.add_argument("--broker-id", type=int, metavar="ID", help="as the replica on this broker knows them (the leader)")
    _add_partition(producers)
    abort = action("abort", "end a transaction that hangs, in one partition")
    _add_partition(abort)
    abort.add_argument("--start-offset", type=int, metavar="OFFSET", help="where the transaction begins; or give the next three options")
    abort.add_argument("--producer-id", type=int, metavar="ID", help="its producer")
    abort.add_argument("--producer-epoch", type=int, metavar="EPOCH", help="its producer's epoch")
    abort.add_argument("--coordinator-epoch", type=int, metavar="EPOCH", help="its coordinator's epoch")
    force = action("forceTerminateTransaction", "abort the open transaction of a transactional id and fence its producer")
    force.add_argument("--transactionalId", dest="transactional_id", required=True, metavar="ID", help="transactional id")
    hanging = action("find-hanging", "find transactions that no coordinator is going to end")
    hanging.add_argument("--broker-id", type=int, metavar="ID", help="only partitions with a replica on this broker")
    hanging.add_argument(
        "--max-transaction-timeout",
        type=int,
        default=DEFAULT_TIMEOUT_MINUTES,
        metavar="MINUTES",
        help="only those open for longer than any transaction may be (%(default)s)",
    )
    hanging.add_argument("--topic", metavar="TOPIC", help="only in this topic")
    hanging.add_argument("--partition", type=int, metavar="N", help="only in this partition")
    return parser


def _add_partition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--topic", required=True, metavar="TOPIC", help="topic name")
    parser.add_argument("--partition", type=int, required=True, metavar="N", help="partition number")


# -- the actions


async def _list(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    try:
        found = await admin.list_transactions(longer_than_ms=options.duration_filter, pattern=options.transactional_id_pattern)
    except KafkaError as error:
        raise _failed("Failed to list transactions", error) from error
    rows = [(each.listed.transactional_id, each.coordinator_id, each.listed.producer_id, each.listed.transaction_state) for each in found]
    _print_table(LIST_COLUMNS, rows)


async def _describe(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    try:
        found = await admin.describe(options.transactional_id)
    except KafkaError as error:
        if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            asked = f"DescribeTransactions request for transactionalId `{options.transactional_id}`"
            error = KafkaError(error.code, f"{asked} failed because the ID could not be found")
        raise _failed(f"Failed to describe transaction state of transactional-id `{options.transactional_id}`", error) from error
    elapsed_ms = None if found.start_ms is None else _now_ms() - found.start_ms
    row = (
        found.coordinator_id,
        found.transactional_id,
        found.producer_id,
        found.producer_epoch,
        found.state,
        found.timeout_ms,
        found.start_ms,
        elapsed_ms,
        ",".join(map(str, found.partitions)),
    )
    _print_table(DESCRIBE_COLUMNS, [row])


async def _describe_producers(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    partition = TopicPartition(options.topic, options.partition)
    try:
        found = await admin.producers_of(partition, broker_id=options.broker_id)
    except KafkaError as error:
        raise _failed(f"Failed to describe producers for partition {partition} on {_broker(options)}", error) from error
    rows = [
        (
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.current_txn_start_offset if each.current_txn_start_offset >= 0 else None,
        )
        for each in found
    ]
    _print_table(PRODUCER_COLUMNS, rows)


def _broker(options: argparse.Namespace) -> str:
    return "leader" if options.broker_id is None else f"broker {options.broker_id}"


async def _abort(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    partition = TopicPartition(options.topic, options.partition)
    if options.start_offset is not None:
        producer = await _producer_at(admin, partition, options.start_offset)
        identity = producer.producer_id, producer.producer_epoch, max(producer.coordinator_epoch, 0)
    elif options.producer_id is None:
        raise Refused(
            "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above) or with "
            "--producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
        )
    else:
        for name in ("producer_epoch", "coordinator_epoch"):
            if getattr(options, name) is None:
                raise Refused(f"Missing required argument --{name.replace('_', '-')}")
        identity = options.producer_id, options.producer_epoch, max(options.coordinator_epoch, 0)
    producer_id, producer_epoch, coordinator_epoch = identity
    try:
        await admin.abort(partition, producer_id=producer_id, producer_epoch=producer_epoch, coordinator_epoch=coordinator_epoch)
    except KafkaError as error:
        wanted = (
            f"AbortTransactionSpec(topicPartition={partition}, producerId={producer_id}, producerEpoch={producer_epoch}, "
            f"coordinatorEpoch={coordinator_epoch})"
        )
        raise _failed(f"Failed to abort transaction {wanted}", error) from error


async def _producer_at(admin: TransactionAdmin, partition: TopicPartition, start_offset: int) -> ProducerState:
    try:
        found = await admin.producers_of(partition)
    except KafkaError as error:
        raise _failed(f"Failed to validate producer state for partition {partition}", error) from error
    for producer in found:
        if producer.current_txn_start_offset == start_offset:
            return producer
    raise Refused(f"Could not find any open transactions starting at offset {start_offset} on partition {partition}")


async def _force_terminate(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    try:
        await admin.force_terminate(options.transactional_id)
    except KafkaError as error:
        raise _failed(f"Failed to force terminate transactionalId `{options.transactional_id}`", error) from error


async def _find_hanging(admin: TransactionAdmin, options: argparse.Namespace) -> None:
    if options.topic is None and options.broker_id is None:
        raise Refused("The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search")
    if options.partition is not None and options.topic is None:
        raise Refused("The --partition argument requires --topic to be provided")
    partitions = await _partitions_to_search(admin, options)
    now_ms = _now_ms()
    try:
        found = await admin.find_hanging(
            partitions, now_ms=now_ms, longer_than_ms=options.max_transaction_timeout * MS_PER_MINUTE, broker_id=options.broker_id
        )
    except KafkaError as error:
        where = f"Optional[{options.broker_id}]" if options.broker_id is not None else "Optional.empty"
        raise _failed(f"Failed to describe producers for {len(partitions)} partitions on broker {where}", error) from error
    _print_table(HANGING_COLUMNS, [_hanging_row(each, now_ms) for each in found])


async def _partitions_to_search(admin: TransactionAdmin, options: argparse.Namespace) -> list[TopicPartition]:
    if options.partition is not None:
        return [TopicPartition(options.topic, options.partition)]
    searching = Admin(admin.cluster)
    try:
        names = [options.topic] if options.topic is not None else [topic.name or "" for topic in await searching.topics.list()]
    except KafkaError as error:
        raise _failed("Failed to list topics", error) from error
    described = await searching.topics.describe(names) if names else {}
    for found in described.values():
        if isinstance(found, KafkaError):
            raise _failed(f"Failed to describe {len(names)} topics", found) from found
    return [
        TopicPartition(name, one.partition_index)
        for name, topic in described.items()
        if not isinstance(topic, KafkaError)
        for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        if options.broker_id is None or options.broker_id in one.replica_nodes
    ]


def _hanging_row(found: OpenTransaction, now_ms: int) -> Sequence[object]:
    partition, producer = found
    elapsed_ms = now_ms - producer.last_timestamp
    return (
        partition.topic,
        partition.partition,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.current_txn_start_offset,
        producer.last_timestamp,
        elapsed_ms // MS_PER_MINUTE,
    )


Action = Callable[[TransactionAdmin, argparse.Namespace], Awaitable[None]]
ACTIONS: Final[dict[str, Action]] = {
    "list": _list,
    "describe": _describe,
    "describe-producers": _describe_producers,
    "abort": _abort,
    "forceTerminateTransaction": _force_terminate,
    "find-hanging": _find_hanging,
}


def lines(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Every cell as wide as the widest of its column, and a tab behind each.  Source: ToolsUtils.prettyPrintTable."""
    texts = [list(columns), *(["None" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in texts) for column in range(len(columns))]
    return ["".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True)) for row in texts]


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print("\n".join(lines(columns, rows)))


def _failed(what: str, error: KafkaError) -> Refused:
    return Refused(f"{what}: {message(error)}. Enable debug logging for additional detail.")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
