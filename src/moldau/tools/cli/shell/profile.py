"""● `moldau profile`: make, choose and forget clusters by name; see `profiles`."""

import argparse
from pathlib import Path
from typing import Any

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.parser import Parser
from moldau.tools.cli.shell.profiles import Profile, read_profiles, unknown, write_profiles
from moldau.tools.cli.terminal import table


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    return {"list": _list, "use": _use, "set": _set, "delete": _delete}[options.action](options)


def _parser() -> Parser:
    parser = Parser(
        "moldau profile",
        "Name clusters.  Commands without --bootstrap-server speak to the cluster in use.",
        examples=[
            "moldau profile set staging kafka-1.staging:9093 --command-config staging.properties",
            "moldau profile use staging",
            "moldau profile use --none",
            "moldau profile list",
        ],
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    actions.add_parser("list", help="show the names and addresses of all profiles")
    using = actions.add_parser("use", help="use this profile from now on")
    using.add_argument("name", metavar="NAME", nargs="?")
    using.add_argument("--none", action="store_true", help="use none: localhost:9092, as if there were no profiles")
    setting = actions.add_parser("set", help="make or change a profile")
    setting.add_argument("name", metavar="NAME")
    setting.add_argument("bootstrap_server", metavar="HOST:PORT", help="one or more brokers, comma separated")
    setting.add_argument("--command-config", metavar="FILE", help="a properties file with client settings")
    deleting = actions.add_parser("delete", help="forget a profile")
    deleting.add_argument("name", metavar="NAME")
    return parser


def _list(options: argparse.Namespace) -> int:
    profiles = read_profiles()
    rows: list[tuple[Any, ...]] = [
        ("*" if name == profiles.current else "", name, one.bootstrap_server, one.command_config)
        for name, one in sorted(profiles.by_name.items())
    ]
    table(("in use", "profile", "bootstrap server", "settings"), rows)
    return 0


def _use(options: argparse.Namespace) -> int:
    profiles = read_profiles()
    if (options.name is None) != options.none:
        raise Failure("give the profile's name, or --none", "`moldau profile list` shows them")
    if options.name is not None and options.name not in profiles.by_name:
        raise unknown(options.name, profiles)
    write_profiles(options.name, profiles.by_name)
    return 0


def _set(options: argparse.Namespace) -> int:
    profiles = read_profiles()
    config = None if options.command_config is None else str(Path(options.command_config).absolute())
    write_profiles(profiles.current, {**profiles.by_name, options.name: Profile(options.bootstrap_server, config)})
    return 0


def _delete(options: argparse.Namespace) -> int:
    profiles = read_profiles()
    if options.name not in profiles.by_name:
        raise unknown(options.name, profiles)
    left = {name: one for name, one in profiles.by_name.items() if name != options.name}
    write_profiles(None if profiles.current == options.name else profiles.current, left)
    return 0
