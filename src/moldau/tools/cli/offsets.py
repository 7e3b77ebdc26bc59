"""● `moldau offsets`: first and last offsets of partitions, or the first at or after a time."""

import argparse
from datetime import UTC, datetime

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import EARLIEST, LATEST
from moldau.clients.cluster import Cluster
from moldau.errors import KafkaError
from moldau.protocol.messages.list_offsets import ListOffsetsPartitionResponse
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.parser import Parser, add_bootstrap
from moldau.tools.cli.terminal import table
from moldau.types import TopicPartition


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)

    async def work(cluster: Cluster) -> int:
        await _show(cluster, options)
        return 0

    return on_cluster(options, work)


def _parser() -> Parser:
    parser = Parser(
        "moldau offsets",
        "Show the first and next offset of each partition, and how many lie between them; or the first offset at or after a time.",
        examples=["moldau offsets", "moldau offsets orders payments", "moldau offsets orders --at 2026-05-01T12:00"],
    )
    add_bootstrap(parser, watch=True)
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="(all)")
    parser.add_argument("--at", type=moment, metavar="TIME", help="ISO time (UTC unless it says otherwise) or milliseconds since 1970")
    return parser


def moment(text: str) -> int:
    """Milliseconds since the epoch."""
    if text.isdigit():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a time like 2026-05-01T12:00 nor a number of milliseconds") from None
    return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)


async def _show(cluster: Cluster, options: argparse.Namespace) -> None:
    admin = Admin(cluster)
    topics = {topic.name or "": topic for topic in await admin.topics.list(include_internal=bool(options.topics))}
    for name in options.topics:
        if name not in topics:
            raise Failure(f"there is no topic {name}", "`moldau topics list` shows them all")
    partitions = [TopicPartition(name, number) for name in options.topics or topics for number in cluster.view.partitions_of(name)]
    if options.at is not None:
        found = await admin.partitions.list_offsets(dict.fromkeys(partitions, options.at))
        rows = [(one.topic, one.partition, _offset(found.get(one), "none so late")) for one in partitions]
        table(("TOPIC", "PARTITION", "OFFSET"), rows, right=("PARTITION", "OFFSET"))
        return
    first = await admin.partitions.list_offsets(dict.fromkeys(partitions, EARLIEST))
    following = await admin.partitions.list_offsets(dict.fromkeys(partitions, LATEST))
    table(
        ("TOPIC", "PARTITION", "FIRST", "NEXT", "BETWEEN"),
        [
            (one.topic, one.partition, _offset(first.get(one)), _offset(following.get(one)), _between(first.get(one), following.get(one)))
            for one in partitions
        ],
        right=("PARTITION", "FIRST", "NEXT", "BETWEEN"),
    )


Answer = ListOffsetsPartitionResponse | KafkaError | None


def _offset(answer: Answer, none: str = "?") -> str:
    if isinstance(answer, KafkaError):
        return answer.code.name
    return none if answer is None or answer.offset < 0 else str(answer.offset)


def _between(first: Answer, following: Answer) -> str:
    if isinstance(first, ListOffsetsPartitionResponse) and isinstance(following, ListOffsetsPartitionResponse):
        return str(following.offset - first.offset)
    return "?"
