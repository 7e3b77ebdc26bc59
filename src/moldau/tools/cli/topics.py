"""● `moldau topics`: list, create, describe, extend and delete topics."""

import argparse
from collections.abc import Sequence

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import ConfigSource, NewTopic, ResourceType
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.parser import Parser, add_actions, key_value, positive
from moldau.tools.cli.terminal import say, table
from moldau.types import NO_LEADER, uuid_to_text


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)

    async def work(cluster: Cluster) -> int:
        admin = Admin(cluster)
        await {"list": _list, "create": _create, "describe": _describe, "extend": _extend, "delete": _delete}[options.action](
            admin, options
        )
        return 0

    return on_cluster(options, work)


def _parser() -> Parser:
    parser = Parser(
        "moldau topics",
        "List, create, describe, extend and delete topics.",
        examples=[
            "moldau topics create orders --partitions 4 --config retention.ms=86400000",
            "moldau topics list",
            "moldau topics describe orders",
            "moldau topics extend orders 8",
            "moldau topics delete orders",
        ],
    )
    action = add_actions(parser)
    listing = action("list", "show topics with their partitions and replicas")
    listing.add_argument("--internal", action="store_true", help="with the topics that the broker keeps for itself")
    create = action("create", "make topics")
    create.add_argument("topics", nargs="+", metavar="TOPIC")
    create.add_argument("-p", "--partitions", type=positive, metavar="COUNT", help="number of partitions (the broker's default)")
    create.add_argument("-r", "--replicas", type=positive, metavar="COUNT", help="replicas of each partition (the broker's default)")
    create.add_argument(
        "-c", "--config", action="append", default=[], type=key_value, metavar="K=V", help="an option of the topic; repeatable"
    )
    create.add_argument("--if-not-exists", action="store_true", help="do nothing when the topic is there")
    describe = action("describe", "show partitions, leaders, replicas in sync and options")
    describe.add_argument("topics", nargs="+", metavar="TOPIC")
    extend = action("extend", "raise the number of partitions")
    extend.add_argument("topic", metavar="TOPIC")
    extend.add_argument("count", type=positive, metavar="COUNT", help="how many partitions in all")
    delete = action("delete", "delete topics and everything in them")
    delete.add_argument("topics", nargs="+", metavar="TOPIC")
    delete.add_argument("--if-exists", action="store_true", help="do nothing when the topic is not there")
    return parser


async def _list(admin: Admin, options: argparse.Namespace) -> None:
    topics = await admin.topics.list(include_internal=options.internal)
    if not topics:
        say("There are no topics yet.  `moldau topics create hello` makes one.")
        return
    rows = [
        (
            topic.name,
            len(topic.partitions),
            max((len(one.replica_nodes) for one in topic.partitions), default=0),
            uuid_to_text(topic.topic_id),
        )
        for topic in topics
    ]
    table(("TOPIC", "PARTITIONS", "REPLICAS", "ID"), rows, right=("PARTITIONS", "REPLICAS"))


async def _create(admin: Admin, options: argparse.Namespace) -> None:
    topics = [NewTopic(name, options.partitions or -1, options.replicas or -1, dict(options.config)) for name in options.topics]
    for name, answer in (await admin.topics.create(topics)).items():
        if not isinstance(answer, KafkaError):
            count = f"{answer.num_partitions} partition{'s' if answer.num_partitions != 1 else ''}" if answer.num_partitions > 0 else "made"
            print(f"Created topic {name} ({count}).")
        elif answer.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            if not options.if_not_exists:
                raise Failure(f"topic {name} exists already", "Add --if-not-exists when that is fine")
            print(f"Topic {name} exists already.")
        else:
            raise Failure(f"topic {name}: {answer.detail}")


async def _describe(admin: Admin, options: argparse.Namespace) -> None:
    described = await admin.topics.describe(options.topics)
    for name in options.topics:
        topic = described[name]
        if isinstance(topic, KafkaError):
            raise await _not_there(admin, name, topic)
    configs = await admin.configs.describe([(ResourceType.TOPIC, name) for name in options.topics], synonyms=False)
    rows: list[Sequence[object]] = []
    for name in options.topics:
        topic = described[name]
        assert not isinstance(topic, KafkaError)
        for one in topic.partitions:
            leader = "none" if one.leader_id == NO_LEADER else one.leader_id
            rows.append((name, one.partition_index, leader, _ids(one.replica_nodes), _ids(one.isr_nodes), one.leader_epoch))
    table(("TOPIC", "PARTITION", "LEADER", "REPLICAS", "IN SYNC", "EPOCH"), rows, right=("PARTITION", "LEADER", "EPOCH"))
    own = [
        (name, one.name, one.value)
        for (_, name), found in configs.items()
        if not isinstance(found, KafkaError)
        for one in found
        if one.config_source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    ]
    if own:
        print()
        table(("TOPIC", "OPTION", "VALUE"), own)


async def _extend(admin: Admin, options: argparse.Namespace) -> None:
    try:
        await admin.topics.create_partitions(options.topic, options.count)
    except KafkaError as error:
        raise await _not_there(admin, options.topic, error) from error
    print(f"Topic {options.topic} has {options.count} partitions now.")


async def _delete(admin: Admin, options: argparse.Namespace) -> None:
    for name, error in (await admin.topics.delete(options.topics)).items():
        if error is None:
            print(f"Deleted topic {name}.")
        elif not (options.if_exists and error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise await _not_there(admin, str(name), error)


async def _not_there(admin: Admin, name: str, error: KafkaError) -> Failure:
    """The error in words, with the nearest name when the topic does not exist."""
    if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return Failure(f"topic {name}: {error.detail}")
    from difflib import get_close_matches

    names = [topic.name or "" for topic in await admin.topics.list()]
    near = get_close_matches(name, names, n=1)
    return Failure(f"there is no topic {name}" + (f"; did you mean {near[0]}?" if near else ""), "`moldau topics list` shows them all")


def _ids(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))
