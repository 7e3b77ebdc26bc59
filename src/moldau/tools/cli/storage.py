"""● `moldau storage`, and `moldau kafka-storage`: format a node's folders and look at them, with kafka-storage.sh's options and output."""

import argparse
import os
import time
import uuid
from pathlib import Path
from typing import Final

from moldau.tools.cli.failure import Failure
from moldau.tools.cli.parser import Parser
from moldau.types import usable_uuid, uuid_to_text

SALT_BYTES: Final = 20


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.action == "random-uuid":
        print(uuid_to_text(random_id()))
        return 0
    from moldau.metadata.formatting.storage import FormatError, feature_dependencies, version_mapping

    try:
        if options.action == "format":
            lines = _format(options)
        elif options.action == "info":
            return _info(options)
        elif options.action == "version-mapping":
            lines = version_mapping(options.release_version)
        else:
            lines = feature_dependencies(options.feature)
    except FormatError as error:
        raise Failure(str(error)) from error
    for line in lines:
        print(line)
    return 0


def _parser() -> Parser:
    parser = Parser(
        "moldau storage",
        "Format a node's folders before its first start, and look at them.",
        examples=[
            "moldau storage format -t $(moldau storage random-uuid) -c server.properties --standalone",
            "moldau storage info -c server.properties",
        ],
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, about: str) -> Parser:
        return actions.add_parser(name, help=about, description=about)

    action("random-uuid", "print an id for a new cluster")
    formatting = action("format", "write the files that a node needs before its first start")
    add = formatting.add_argument
    add("-c", "--config", required=True, type=Path, metavar="FILE", help="server.properties")
    add("-t", "--cluster-id", required=True, metavar="ID", help="the cluster's id; `moldau storage random-uuid` makes one")
    who = formatting.add_mutually_exclusive_group()
    who.add_argument("-s", "--standalone", action="store_true", help="this controller begins a cluster alone")
    who.add_argument("-I", "--initial-controllers", metavar="ID@HOST:PORT:DIRECTORY,…", help="these controllers begin a cluster together")
    who.add_argument("-N", "--no-initial-controllers", action="store_true", help="this node joins an existing cluster")
    add("-g", "--ignore-formatted", action="store_true", help="leave formatted folders as they are")
    add("-r", "--release-version", metavar="RELEASE", help="feature levels of this release (the newest)")
    add("-f", "--feature", action="append", default=[], metavar="NAME=LEVEL", help="one feature's level; repeatable")
    add("-S", "--add-scram", action="append", default=[], metavar="CREDENTIAL", help="SCRAM-SHA-256=[name=alice,password=…]; repeatable")
    info = action("info", "print what is in the folders")
    info.add_argument("-c", "--config", required=True, type=Path, metavar="FILE", help="server.properties")
    mapping = action("version-mapping", "print the feature levels of a release")
    mapping.add_argument("-r", "--release-version", metavar="RELEASE", help="(the newest)")
    dependencies = action("feature-dependencies", "print what a feature's level needs")
    dependencies.add_argument("-f", "--feature", action="append", required=True, metavar="NAME=LEVEL")
    return parser


def random_id() -> uuid.UUID:
    return usable_uuid(uuid.uuid4)


def _format(options: argparse.Namespace) -> list[str]:
    from moldau.tools.cli.node import load_config

    config = load_config(options.config)
    if config.is_controller and not (options.standalone or options.initial_controllers or options.no_initial_controllers):
        voters = config.properties.get("controller.quorum.voters", "").strip()
        if not voters:
            raise Failure(
                "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
                "--standalone, --initial-controllers, or --no-initial-controllers."
            )
    return format_node(config, options)


def format_node(config: "object", options: argparse.Namespace) -> list[str]:
    """The lines that Kafka's tool prints.  Errors: FormatError, Failure."""
    from moldau.metadata.formatting.storage import FormatRequest, format_storage
    from moldau.raft.voters import Address
    from moldau.server.node.config import NodeConfig
    from moldau.storage.files import SystemFiles

    assert isinstance(config, NodeConfig)
    at = next(iter(config.advertised_controller_listeners), None)
    request = FormatRequest(
        cluster_id=options.cluster_id,
        node_id=config.node_id,
        log_dirs=config.log_dirs,
        metadata_log_dir=config.metadata_log_dir,
        is_controller=config.is_controller,
        has_static_voters=bool(config.properties.get("controller.quorum.voters", "").strip()),
        controller_address=None if at is None else Address(at.name, at.host, at.port),
        standalone=options.standalone,
        initial_controllers=options.initial_controllers,
        no_initial_controllers=options.no_initial_controllers,
        release_version=options.release_version,
        features=options.feature,
        scram=options.add_scram,
        ignore_formatted=options.ignore_formatted,
    )
    try:
        return format_storage(
            SystemFiles(), request, now_ms=time.time_ns() // 1_000_000, new_id=random_id, new_salt=lambda: os.urandom(SALT_BYTES)
        )
    except OSError as error:
        raise Failure(f"{error.filename or config.log_dirs[0]} cannot be written: {(error.strerror or str(error)).lower()}") from error


def _info(options: argparse.Namespace) -> int:
    from moldau.metadata.formatting.storage import storage_info
    from moldau.storage.files import SystemFiles
    from moldau.tools.cli.node import load_config

    lines, status = storage_info(SystemFiles(), load_config(options.config).log_dirs)
    for line in lines:
        print(line)
    return status
