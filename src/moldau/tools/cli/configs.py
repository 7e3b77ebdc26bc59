"""● `moldau configs`: read and change the settings of topics and brokers."""

import argparse

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import AlterOperation, ConfigChange, ConfigSource, Resource, ResourceType
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.parser import Parser, add_bootstrap
from moldau.tools.cli.terminal import table

WHERE_FROM = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "this broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "server.properties",
    ConfigSource.DEFAULT_CONFIG: "default",
}


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)

    async def work(cluster: Cluster) -> int:
        admin = Admin(cluster)
        resource = await resource_of(admin, options.what)
        try:
            await (_change(admin, resource, options) if options.set or options.unset else _show(admin, resource, options))
        except KafkaError as error:
            raise Failure(error.detail, f"`moldau configs {options.what} --all` shows every option") from error
        return 0

    return on_cluster(options, work)


def _parser() -> Parser:
    parser = Parser(
        "moldau configs",
        "Show the settings of a topic, a broker (its number) or all brokers (the word brokers), or change some.",
        examples=[
            "moldau configs orders",
            "moldau configs orders --all",
            "moldau configs orders retention.ms=86400000 cleanup.policy=compact,delete",
            "moldau configs orders --unset retention.ms",
            "moldau configs brokers log.retention.ms=604800000",
        ],
    )
    add_bootstrap(parser)
    parser.add_argument("what", metavar="TOPIC|BROKER|brokers")
    parser.add_argument("set", nargs="*", metavar="K=V", help="settings to change")
    parser.add_argument("-u", "--unset", action="append", default=[], metavar="K", help="a setting to remove; repeatable")
    parser.add_argument("-a", "--all", action="store_true", help="show defaults too")
    return parser


async def resource_of(admin: Admin, text: str) -> Resource:
    """The topic of this name, else the broker of this number.  Errors: Failure when neither exists."""
    names = {topic.name or "" for topic in await admin.topics.list()}
    if text in names:
        return ResourceType.TOPIC, text
    if text == "brokers":
        return ResourceType.BROKER, ""
    if text.isdigit():
        return ResourceType.BROKER, text
    from difflib import get_close_matches

    near = get_close_matches(text, names, n=1)
    raise Failure(f"there is no topic {text}" + (f"; did you mean {near[0]}?" if near else ""), "`moldau topics list` shows them all")


async def _show(admin: Admin, resource: Resource, options: argparse.Namespace) -> None:
    found = (await admin.configs.describe([resource]))[resource]
    if isinstance(found, KafkaError):
        raise found
    rows = [
        (one.name, "(hidden)" if one.is_sensitive else one.value, WHERE_FROM.get(ConfigSource(one.config_source), "?"))
        for one in sorted(found, key=lambda one: one.name)
        if options.all or one.config_source != ConfigSource.DEFAULT_CONFIG
    ]
    if rows:
        table(("OPTION", "VALUE", "FROM"), rows)
    else:
        print("Nothing differs from the defaults.  --all shows the defaults.")


async def _change(admin: Admin, resource: Resource, options: argparse.Namespace) -> None:
    changes = []
    for text in options.set:
        key, equals, value = text.partition("=")
        if not equals:
            raise Failure(f"{text!r} is not of the form key=value", "To remove a setting: --unset KEY")
        changes.append(ConfigChange(key, value))
    changes += [ConfigChange(key, None, AlterOperation.DELETE) for key in options.unset]
    for error in (await admin.configs.alter({resource: changes})).values():
        if error is not None:
            raise (
                error
                if error.code is not ErrorCode.INVALID_CONFIG
                else Failure(error.detail, f"`moldau configs {options.what} --all` shows every option")
            )
    kind = "topic" if resource[0] is ResourceType.TOPIC else "broker"
    print(f"Changed {len(changes)} setting{'s' if len(changes) != 1 else ''} of {kind} {resource[1] or 'defaults'}.")
