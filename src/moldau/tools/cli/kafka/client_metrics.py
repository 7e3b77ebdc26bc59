"""● `moldau kafka-client-metrics`: subscriptions to the metrics of clients (KIP-714), as kafka-client-metrics.sh shows and changes them."""

import argparse
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import AlterOperation, ConfigChange, ResourceType
from moldau.clients.cluster import Cluster
from moldau.errors import KafkaError
from moldau.protocol.messages.describe_configs import DescribeConfigsResourceResult
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.group_tools.common import given_of
from moldau.tools.cli.kafka.java_errors import message
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.types import usable_uuid, uuid_to_text

ACTIONS: Final = ("alter", "delete", "describe", "list")
SETTINGS: Final = {"interval": "interval.ms", "metrics": "metrics", "match": "match"}
"""The options that set something, each with the key of its setting."""
INVALID: Final = {
    "delete": ("generate-name", *SETTINGS),
    "describe": ("generate-name", *SETTINGS),
    "list": ("name", "generate-name", *SETTINGS),
}


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    action = _checked_action(parser, options)

    async def work(cluster: Cluster) -> int:
        works = {"alter": _alter, "delete": _delete, "describe": _describe, "list": _list}
        try:
            await works[action](Admin(cluster), options)
        except KafkaError as error:
            print(f"Error while executing client metrics command : {message(error)}")
            return 1
        return 0

    return on_cluster(options, work)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-client-metrics",
        "Show and change subscriptions to the metrics of clients, as kafka-client-metrics.sh does.",
        examples=[
            "--bootstrap-server localhost:9092 --list",
            "--bootstrap-server localhost:9092 --alter --name waits --metrics org.apache.kafka.consumer. --interval 60000",
            "--bootstrap-server localhost:9092 --delete --name waits",
        ],
    )
    parser.add_common()
    add = parser.add_argument
    add("--alter", action="store_true", help="make a subscription, or change one")
    add("--delete", action="store_true", help="delete a subscription")
    add("--describe", action="store_true", help="show one subscription, or all")
    add("--list", action="store_true", help="list the names of subscriptions")
    add("--name", help="the subscription's name")
    add("--generate-name", action="store_true", help="alter: make up a name")
    add("--interval", metavar="MS", help='alter: how often clients push their metrics; "" for the default')
    add("--match", metavar="K=V,K=V", help='alter: the clients that are asked; "" for all')
    add("--metrics", metavar="PREFIX,PREFIX", help='alter: the metrics that are asked for, by the begin of their names; "" for none')
    return parser


def _checked_action(parser: KafkaParser, options: argparse.Namespace) -> str:
    """The one action that was asked for.  Errors: Failure in Kafka's words."""
    given = given_of(options, (*ACTIONS, "name", "generate-name", *SETTINGS))
    actions = [name for name in ACTIONS if name in given]
    if len(actions) != 1:
        raise parser.usage_error("Command must include exactly one action: --alter, --delete, --describe or --list.")
    action = actions[0]
    if options.bootstrap_server is None:
        raise Failure("--bootstrap-server must be specified.")
    for name in INVALID.get(action, ()):
        if name in given:
            raise parser.conflict(action, name)
    if action == "alter" and (options.name is None) is not options.generate_name:
        raise Failure("One of --name or --generate-name must be specified with --alter.")
    if options.interval and not options.interval.lstrip("+-").isdigit():
        raise Failure("Invalid interval value. Enter an integer, or leave empty to reset.")
    if action == "delete" and options.name is None:
        raise Failure("A client metrics resource name must be specified with --delete.")
    return action


async def _alter(admin: Admin, options: argparse.Namespace) -> None:
    name = uuid_to_text(usable_uuid(uuid4)) if options.generate_name else options.name
    given = {key: getattr(options, option) for option, key in SETTINGS.items() if getattr(options, option) is not None}
    await _change(admin, name, [ConfigChange(key, value) if value else _removed(key) for key, value in given.items()])
    print(f"Altered client metrics config for {name}.")


async def _delete(admin: Admin, options: argparse.Namespace) -> None:
    await _change(admin, options.name, [_removed(one.name) for one in await _settings(admin, options.name)])
    print(f"Deleted client metrics config for {options.name}.")


async def _describe(admin: Admin, options: argparse.Namespace) -> None:
    names = await _names(admin)
    if options.name is not None and options.name not in names:
        print(f"The client metric resource {options.name} doesn't exist and doesn't have dynamic config.")
        return
    for name in names if options.name is None else [options.name]:
        settings = await _settings(admin, name)
        print(f"Client metrics configs for {name} are:")
        for one in settings:
            print(f"  {one.name}={one.value}")


async def _list(admin: Admin, _: argparse.Namespace) -> None:
    print("\n".join(await _names(admin)))


def _removed(key: str) -> ConfigChange:
    return ConfigChange(key, None, AlterOperation.DELETE)


async def _change(admin: Admin, name: str, changes: Sequence[ConfigChange]) -> None:
    (error,) = (await admin.configs.alter({(ResourceType.CLIENT_METRICS, name): changes})).values()
    if error is not None:
        raise error


async def _names(admin: Admin) -> list[str]:
    return [name for _, name in await admin.configs.list_resources(ResourceType.CLIENT_METRICS)]


async def _settings(admin: Admin, name: str) -> list[DescribeConfigsResourceResult]:
    (answer,) = (await admin.configs.describe([(ResourceType.CLIENT_METRICS, name)])).values()
    if isinstance(answer, KafkaError):
        raise answer
    return answer
