"""● `moldau kafka-groups`: groups of every type, as kafka-groups.sh lists them.

Differs from Kafka: an error in the options comes without the page of options.
"""

import argparse
from typing import Final

from moldau.clients.admin.groups import CONSUMER, GroupAdmin
from moldau.clients.cluster import Cluster
from moldau.protocol.messages.list_groups import ListedGroup
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.group_tools.common import wrong_pair
from moldau.tools.cli.kafka.options import KafkaParser

TYPES: Final = ("classic", "consumer", "share", "streams")
FILTERS: Final = ("consumer", "group-type", "protocol", "share", "streams")
APART: Final = [(one, other) for one in ("consumer", "share", "streams") for other in FILTERS if other != one]
"""Options that do not go together."""


def main(arguments: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.list:
        raise parser.usage_error("Command must include exactly one action: --list.")
    if options.bootstrap_server is None:
        raise parser.missing("bootstrap-server")
    if options.group_type is not None and options.group_type.lower() not in TYPES:
        raise Failure("--group-type must be a valid group type.")
    wrong = wrong_pair(options, APART)
    if wrong is not None:
        raise parser.usage_error(wrong)

    async def work(cluster: Cluster) -> int:
        found = sorted(await GroupAdmin(cluster).list_groups(), key=lambda group: group.group_id)
        print("\n".join(lines([group for group in found if is_wanted(group, options)])))
        return 0

    return on_cluster(options, work)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-groups",
        "List groups of every type, as kafka-groups.sh does.",
        examples=["--bootstrap-server localhost:9092 --list", "--bootstrap-server localhost:9092 --list --group-type consumer"],
    )
    parser.add_common()
    add = parser.add_argument
    add("--list", action="store_true", help="list groups")
    add("--group-type", metavar="TYPE", help=f"only groups of this type: {', '.join(TYPES)}")
    add("--protocol", metavar="NAME", help="only groups of this protocol")
    add("--consumer", action="store_true", help="consumer groups of every kind, those without members too")
    add("--share", action="store_true", help="share groups")
    add("--streams", action="store_true", help="streams groups")
    return parser


def is_wanted(group: ListedGroup, options: argparse.Namespace) -> bool:
    kind = group.group_type.lower()
    if options.consumer:
        return kind == "consumer" or (kind == "classic" and group.protocol_type in ("", CONSUMER))
    if options.share or options.streams:
        return kind == ("share" if options.share else "streams")
    is_of_type = options.group_type is None or kind == options.group_type.lower()
    return is_of_type and (options.protocol is None or group.protocol_type == options.protocol)


def lines(groups: list[ListedGroup]) -> list[str]:
    """All columns are as wide as the longest group id.  Rows end with one space more than the title row, as Kafka's do."""
    width = max((20, *(len(group.group_id) for group in groups)))
    rows = [("GROUP", "TYPE", "PROTOCOL"), *((group.group_id, group.group_type.capitalize(), group.protocol_type) for group in groups)]
    title, *others = [" ".join(f"{cell:<{width}}" for cell in row) for row in rows]
    return [title, *(f"{row} " for row in others)]
