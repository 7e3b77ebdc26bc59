"""● `moldau kafka-configs`: settings of topics, brokers, groups and metrics subscriptions, as kafka-configs.sh shows and changes them."""

import argparse
import re
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.groups import GroupAdmin
from moldau.clients.admin.values import AlterOperation, ConfigChange, ConfigSource, ResourceType
from moldau.clients.cluster import Cluster
from moldau.errors import KafkaError
from moldau.metadata.topic_names import invalid_topic_reason
from moldau.protocol.messages.describe_configs import DescribeConfigsResourceResult
from moldau.tools.cli.connecting import on_cluster, read_properties
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.java_errors import java_error
from moldau.tools.cli.kafka.options import KafkaParser

TYPES: Final = {
    "topics": ResourceType.TOPIC,
    "brokers": ResourceType.BROKER,
    "broker-loggers": ResourceType.BROKER_LOGGER,
    "client-metrics": ResourceType.CLIENT_METRICS,
    "groups": ResourceType.GROUP,
}
QUOTA_TYPES: Final = ("users", "clients", "ips")
SHORT_FORMS: Final = {
    "topic": "topics",
    "broker": "brokers",
    "broker_logger": "broker-loggers",
    "client_metrics": "client-metrics",
    "group": "groups",
    "user": "users",
    "client": "clients",
    "ip": "ips",
}
DEFAULTS: Final = {"broker_defaults": "brokers", "user_defaults": "users", "client_defaults": "clients", "ip_defaults": "ips"}

OWN_SOURCES: Final = {
    "topics": ConfigSource.DYNAMIC_TOPIC_CONFIG,
    "brokers": ConfigSource.DYNAMIC_BROKER_CONFIG,
    "broker-loggers": ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
    "client-metrics": ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    "groups": ConfigSource.DYNAMIC_GROUP_CONFIG,
}
_COMMA: Final = re.compile(r",(?![^\[]*\])")
_EQUALS: Final = re.compile(r"=(?![^\[]*\])")
"""Both outside of brackets."""


class Entity(NamedTuple):
    """A kind of resource and a name in it.  The name None stands for all of the kind, "" for the default of all."""

    kind: str
    name: str | None

    @property
    def words(self) -> str:
        return self.kind.removesuffix("s")


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.alter == options.describe:
        raise parser.usage_error("Command must include exactly one action: --describe, --alter")
    if options.bootstrap_server is None and options.bootstrap_controller is None:
        raise Failure("Either --bootstrap-server or --bootstrap-controller must be specified.")
    if options.bootstrap_server is not None and options.bootstrap_controller is not None:
        raise Failure("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    options.bootstrap_server = options.bootstrap_server or options.bootstrap_controller
    entity = entity_of(options)
    if options.alter and not (options.add_config or options.add_config_file or options.delete_config):
        raise Failure("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
    if options.add_config is not None and options.add_config_file is not None:
        raise Failure("Only one of --add-config or --add-config-file must be specified")

    async def work(cluster: Cluster) -> int:
        admin = Admin(cluster)
        try:
            await (_alter(admin, entity, options) if options.alter else _describe(admin, entity, show_all=options.all))
        except KafkaError as error:
            said = f"Error while executing config command with args '{shlex.join(arguments)}'"
            raise Failure(said, more=java_error(error)) from error
        return 0

    return on_cluster(options, work)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-configs",
        "Show and change settings of topics, brokers, groups and metrics subscriptions, as kafka-configs.sh does.",
        repeatable=("entity-type", "entity-name"),
        examples=[
            "--bootstrap-server localhost:9092 --describe --topic orders --all",
            "--bootstrap-server localhost:9092 --alter --topic orders --add-config retention.ms=60000,cleanup.policy=[compact,delete]",
        ],
    )
    parser.add_common()
    add = parser.add_argument
    add("--bootstrap-controller", metavar="HOST:PORT", help="one or more controllers, instead of brokers")
    add("--describe", action="store_true", help="show settings")
    add("--alter", action="store_true", help="change settings")
    add("--all", action="store_true", help="show static settings and defaults, too")
    add("--entity-type", choices=(*TYPES, *QUOTA_TYPES), help="the kind of entity")
    add("--entity-name", metavar="NAME", help="the entity's name")
    add("--entity-default", action="store_true", help="the default of all brokers")
    for name in SHORT_FORMS:
        add(f"--{name.replace('_', '-')}", metavar="NAME", help=f"the same as --entity-type {SHORT_FORMS[name]} --entity-name NAME")
    for name, kind in DEFAULTS.items():
        add(f"--{name.replace('_', '-')}", action="store_true", help=f"the same as --entity-type {kind} --entity-default")
    add("--add-config", metavar="K=V,K=[V,V]", help="settings to add or change; brackets around values with commas")
    add("--add-config-file", metavar="FILE", help="a properties file with such settings")
    add("--delete-config", metavar="K,K", help="settings to remove")
    return parser


def entity_of(options: argparse.Namespace) -> Entity:
    """Errors: Failure in Kafka's words."""
    found = [Entity(kind, getattr(options, name)) for name, kind in SHORT_FORMS.items() if getattr(options, name) is not None]
    found += [Entity(kind, "") for name, kind in DEFAULTS.items() if getattr(options, name)]
    if options.entity_type is not None:
        found.append(Entity(options.entity_type, "" if options.entity_default else options.entity_name))
    if not found:
        raise Failure("At least one entity type must be specified")
    if any(one.kind in QUOTA_TYPES for one in found):
        raise Failure("quotas and credentials of users, clients and addresses are not supported yet")
    if len(found) > 1:
        raise Failure("Only 'users' and 'clients' entity types may be specified together")
    entity = found[0]
    if options.alter and entity.kind == "brokers" and entity.name is None:
        raise Failure("An entity-name or default entity must be specified with --alter of users, clients, brokers or ips")
    if options.alter and entity.kind != "brokers" and not entity.name:
        raise Failure(f"An entity name must be specified with --alter of {entity.kind}")
    if options.describe and entity.kind != "brokers" and options.entity_default:
        raise Failure(f"--entity-default must not be specified with --describe of {entity.kind}")
    if options.describe and entity.kind == "broker-loggers" and not entity.name:
        raise Failure(f"An entity name must be specified with --describe of {entity.kind}")
    reason = invalid_topic_reason(entity.name) if options.describe and not options.all and entity.kind == "topics" and entity.name else None
    if reason is not None:
        raise Failure(reason)
    if entity.kind in ("brokers", "broker-loggers") and entity.name and not entity.name.isdigit():
        raise Failure(f"The entity name for {entity.kind} must be a valid integer broker id, but it is: {entity.name}")
    return entity


async def _describe(admin: Admin, entity: Entity, *, show_all: bool) -> None:
    if entity.name and not show_all and entity.name not in await _names(admin, entity.kind):
        print(f"The {entity.words} '{entity.name}' doesn't exist and doesn't have dynamic config.")
        return
    for name in [entity.name] if entity.name is not None else await _names(admin, entity.kind):
        if name:
            print(f"{'All' if show_all else 'Dynamic'} configs for {entity.words} {name} are:")
        else:
            print(f"Default configs for {entity.kind} in the cluster are:")
        for one in sorted(await _configs(admin, entity, name), key=lambda one: one.name):
            if show_all or one.config_source == _own_source(entity, name):
                print(config_line(one))


def _own_source(entity: Entity, name: str) -> ConfigSource:
    return ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG if entity.kind == "brokers" and not name else OWN_SOURCES[entity.kind]


async def _names(admin: Admin, kind: str) -> Sequence[str]:
    """The names of all entities of a kind, with the default of all brokers."""
    match kind:
        case "topics":
            return [topic.name for topic in await admin.topics.list() if topic.name is not None]
        case "brokers" | "broker-loggers":
            return [*map(str, sorted(node.broker_id for node in (await admin.describe_cluster()).brokers)), ""]
    configured = [name for _, name in await admin.configs.list_resources(TYPES[kind])]
    if kind == "groups":
        configured += [group.group_id for group in await GroupAdmin(admin.cluster).list_groups()]
    return list(dict.fromkeys(configured))


async def _configs(admin: Admin, entity: Entity, name: str) -> Sequence[DescribeConfigsResourceResult]:
    (answer,) = (await admin.configs.describe([(TYPES[entity.kind], name)])).values()
    if isinstance(answer, KafkaError):
        raise answer
    return answer


def config_line(one: DescribeConfigsResourceResult) -> str:
    synonyms = ", ".join(f"{ConfigSource(same.source).name}:{same.name}={_text(same.value)}" for same in one.synonyms)
    return f"  {one.name}={_text(one.value)} sensitive={'true' if one.is_sensitive else 'false'} synonyms={{{synonyms}}}"


def _text(value: str | None) -> str:
    return "null" if value is None else value


async def _alter(admin: Admin, entity: Entity, options: argparse.Namespace) -> None:
    assert entity.name is not None
    added = read_properties(options.add_config_file) if options.add_config_file else {}
    added.update(parse_added(options.add_config or ""))
    removed = [key.strip() for key in (options.delete_config or "").split(",") if key.strip()]
    if entity.kind == "broker-loggers":
        known = {one.name for one in await _configs(admin, entity, entity.name)}
        unknown = [name for name in (*removed, *added) if name not in known]
        if unknown:
            raise Failure(f"Invalid broker logger(s): {','.join(unknown)}")
    changes = [ConfigChange(key, value) for key, value in added.items()]
    changes += [ConfigChange(key, None, AlterOperation.DELETE) for key in removed]
    for error in (await admin.configs.alter({(TYPES[entity.kind], entity.name): changes})).values():
        if error is not None:
            raise error
    if entity.name:
        print(f"Completed updating config for {entity.words} {entity.name}.")
    else:
        print(f"Completed updating default config for {entity.kind} in the cluster.")


def parse_added(text: str) -> dict[str, str]:
    """`k1=v1,k2=[v2,v3],k3=` → pairs; brackets keep commas.  Errors: Failure in Kafka's words."""
    pairs = {}
    for part in filter(None, (part.strip() for part in _COMMA.split(text))):
        if len(_EQUALS.findall(part)) != 1:
            raise Failure(
                'requirement failed: Invalid entity config: all configs to be added must be in the format "key=val" '
                'or "key=[val1,val2]" to group values which contain commas.'
            )
        key, _, value = part.partition("=")
        pairs[key.strip()] = value.strip().removeprefix("[").removesuffix("]")
    return pairs
