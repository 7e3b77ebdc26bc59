"""● `moldau partitions`: show where replicas are and how large, move them to another folder, let preferred replicas lead.

Moves between brokers take a plan: `moldau kafka-reassign-partitions`.
"""

import argparse
from typing import NamedTuple

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.partitions import ElectionType, Replica
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.group_tools.reset import ResetRefused, existing_partitions
from moldau.tools.cli.parser import Parser, add_actions
from moldau.tools.cli.terminal import say, size, table
from moldau.types import TopicPartition


class Place(NamedTuple):
    """The part of a partition in a broker's folder."""

    replica: Replica
    folder: str
    size: int
    is_arriving: bool


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)

    async def work(cluster: Cluster) -> int:
        try:
            await {"list": _list, "move": _move, "elect": _elect}[options.action](Admin(cluster), options)
        except ResetRefused as refused:
            raise Failure(str(refused)) from refused
        return 0

    return on_cluster(options, work)


def _parser() -> Parser:
    parser = Parser(
        "moldau partitions",
        "Show where replicas are and how large, move them to another folder, let preferred replicas lead.",
        examples=[
            "moldau partitions list orders",
            "moldau partitions move orders:0,1 /disk2/moldau",
            "moldau partitions elect",
        ],
    )
    action = add_actions(parser)
    listing = action("list", "show replicas with their folders and sizes")
    listing.add_argument("topics", nargs="*", metavar="TOPIC[:0,1]", help="only these (all)")
    move = action("move", "copy replicas to another folder of their broker and go on from there")
    move.add_argument("topics", nargs="+", metavar="TOPIC[:0,1]")
    move.add_argument("folder", metavar="FOLDER", help="one of the broker's log.dirs")
    move.add_argument("--broker", type=int, metavar="ID", help="only on this broker (all that have a replica)")
    elect = action("elect", "let the preferred replica lead where another does")
    elect.add_argument("topics", nargs="*", metavar="TOPIC[:0,1]", help="only these (all)")
    elect.add_argument("--unclean", action="store_true", help="where no replica leads, elect any live replica, though records are lost")
    return parser


async def _places(admin: Admin, wanted: set[TopicPartition] | None) -> list[Place]:
    brokers = sorted(one.broker_id for one in (await admin.describe_cluster()).brokers)
    found = []
    for broker_id, answer in (await admin.partitions.describe_log_dirs(brokers)).items():
        if isinstance(answer, KafkaError):
            raise answer
        for folder in answer:
            for topic in folder.topics:
                for one in topic.partitions:
                    replica = Replica(topic.name, one.partition_index, broker_id)
                    if wanted is None or replica.topic_partition in wanted:
                        found.append(Place(replica, folder.log_dir, one.partition_size, one.is_future_key))
    return sorted(found)


async def _named(admin: Admin, topics: list[str]) -> set[TopicPartition] | None:
    """The partitions of the named topics; None, which means all partitions, when no topic is named."""
    try:
        return set(await existing_partitions(admin.cluster, topics)) if topics else None
    except KafkaError as error:
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and error.detail == error.code.text:
            raise Failure(f"there is no topic {', '.join(topics)}", "`moldau topics list` shows them all") from error
        raise


async def _list(admin: Admin, options: argparse.Namespace) -> None:
    rows = [
        (*one.replica, one.folder, size(one.size), "arriving" if one.is_arriving else "")
        for one in await _places(admin, await _named(admin, options.topics))
    ]
    if not rows:
        say("There are no partitions yet.  `moldau topics create hello` makes one.")
        return
    table(("TOPIC", "PARTITION", "BROKER", "FOLDER", "SIZE", "STATE"), rows, right=("PARTITION", "BROKER", "SIZE"))


async def _move(admin: Admin, options: argparse.Namespace) -> None:
    places = await _places(admin, await _named(admin, options.topics))
    replicas = [one for one in places if not one.is_arriving and options.broker in (None, one.replica.broker_id)]
    if not replicas:
        raise Failure(f"broker {options.broker} has none of them" if options.broker is not None else "no broker has them")
    answers = await admin.partitions.move_replicas({one.replica: options.folder for one in replicas})
    for one in replicas:
        error = answers.get(one.replica)
        if error is not None:
            where = f"{one.replica.topic_partition} on broker {one.replica.broker_id}"
            if error.code is ErrorCode.LOG_DIR_NOT_FOUND:
                raise Failure(
                    f"{options.folder} is not in log.dirs of broker {one.replica.broker_id}", "`moldau kafka-log-dirs` lists its folders"
                )
            raise Failure(f"{where}: {error.detail}")
        if one.folder == options.folder:
            print(f"{one.replica.topic_partition} is in {options.folder} already.")
        else:
            print(f"{one.replica.topic_partition} moves from {one.folder} to {options.folder}.")
    say("Writes go on meanwhile.  `moldau partitions list` tells when it is done.")


async def _elect(admin: Admin, options: argparse.Namespace) -> None:
    kind = ElectionType.UNCLEAN if options.unclean else ElectionType.PREFERRED
    answers = await admin.partitions.elect_leaders(kind, await _named(admin, options.topics))
    failed = {one: error for one, error in sorted(answers.items()) if error is not None}
    needless = [one for one, error in failed.items() if error.code is ErrorCode.ELECTION_NOT_NEEDED]
    elected = sorted(answers.keys() - failed.keys())
    for one in elected:
        print(f"{one} has the leader that it should have.")
    for one in needless:
        del failed[one]
    if not elected and not failed:
        print("Every partition has the leader that it should have.")
    if failed:
        one, error = next(iter(failed.items()))
        raise Failure(f"{one}: {error.detail}" + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""))
