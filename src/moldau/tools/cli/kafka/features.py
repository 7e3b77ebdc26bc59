"""● `moldau kafka-features`: feature levels, as kafka-features.sh shows and changes them."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping

from moldau.clients.admin.admin import Admin
from moldau.clients.admin.values import UpgradeType
from moldau.clients.cluster import Cluster
from moldau.metadata.features import FEATURES, LATEST_LEVEL, METADATA_VERSION, RELEASES, default_level, level_of_release
from moldau.metadata.formatting.storage import FormatError, feature_dependencies, version_mapping
from moldau.protocol.messages.api_versions import ApiVersionsResponse
from moldau.tools.cli.connecting import on_cluster
from moldau.tools.cli.failure import Failure
from moldau.tools.cli.kafka.options import KafkaParser
from moldau.tools.cli.parser import Parser


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.action == "version-mapping":
            return _print(version_mapping(options.release_version))
        if options.action == "feature-dependencies":
            return _print(feature_dependencies(options.feature))
    except FormatError as error:
        raise Failure(str(error)) from error
    if (options.bootstrap_server is None) == (options.bootstrap_controller is None):
        raise Failure("one of --bootstrap-server and --bootstrap-controller is required", "`moldau kafka-features --help` says more")
    options.bootstrap_server = options.bootstrap_server or options.bootstrap_controller

    async def work(cluster: Cluster) -> int:
        admin = Admin(cluster)
        if options.action == "describe":
            return _print(feature_lines(await admin.api_versions(options.node_id)))
        return await _update(admin, options)

    return on_cluster(options, work)


def _parser() -> KafkaParser:
    parser = KafkaParser(
        "kafka-features",
        "Show and change feature levels, as kafka-features.sh does.",
        examples=["--bootstrap-server localhost:9092 describe", "--bootstrap-server localhost:9092 upgrade --feature group.version=1"],
    )
    parser.add_common()
    parser.add_argument("--bootstrap-controller", metavar="HOST:PORT", help="one or more controllers, instead of brokers")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=Parser)

    def action(name: str, about: str) -> Parser:
        return actions.add_parser(name, help=about, description=about)

    describe = action("describe", "show supported and finalized levels")
    describe.add_argument("--node-id", type=int, metavar="ID", help="ask this node (any)")
    for name, about in (("upgrade", "raise levels"), ("downgrade", "lower levels"), ("disable", "lower levels to zero")):
        change = action(name, about)
        change.add_argument("--feature", action="append", default=[], metavar="NAME=LEVEL" if name != "disable" else "NAME")
        change.add_argument("--dry-run", action="store_true", help="only say whether it could be done")
        if name != "disable":
            change.add_argument("--metadata", metavar="RELEASE", help="(deprecated) metadata.version's level, by its release")
            change.add_argument("--release-version", metavar="RELEASE", help="the levels of a release")
        if name != "upgrade":
            change.add_argument("--unsafe", action="store_true", help="even if metadata is lost")
    mapping = action("version-mapping", "print the feature levels of a release")
    mapping.add_argument("--release-version", metavar="RELEASE", help="(the newest)")
    dependencies = action("feature-dependencies", "print what a feature's level needs")
    dependencies.add_argument("--feature", action="append", required=True, metavar="NAME=LEVEL")
    return parser


def _print(lines: Iterable[str]) -> int:
    for line in lines:
        print(line)
    return 0


def feature_lines(response: ApiVersionsResponse) -> Iterator[str]:
    """Supported features by name, with their finalized levels."""
    finalized = {one.name: one.max_version_level for one in response.finalized_features}
    for one in sorted(response.supported_features, key=lambda one: one.name):
        level = finalized.get(one.name, 0)
        shown = [level_text(one.name, number) for number in (one.min_version, one.max_version, level)]
        epoch = response.finalized_features_epoch
        yield "  ".join(
            (
                f"Feature: {one.name:<40}",
                f"SupportedMinVersion: {shown[0]:<15}",
                f"SupportedMaxVersion: {shown[1]:<15}",
                f"FinalizedVersionLevel: {shown[2]:<15}",
                f"Epoch: {epoch if epoch >= 0 else '-'}",
            )
        )


def level_text(feature: str, level: int) -> str:
    """The level as text: for metadata.version the name of its release."""
    return RELEASES.get(level, f"UNKNOWN {level}") if feature == METADATA_VERSION else str(level)


async def _update(admin: Admin, options: argparse.Namespace) -> int:
    levels = asked_levels(options)
    kind = UpgradeType.UPGRADE
    if options.action != "upgrade":
        kind = UpgradeType.UNSAFE_DOWNGRADE if options.unsafe else UpgradeType.SAFE_DOWNGRADE
    answers = await admin.features.update(levels, upgrade_type=kind, validate_only=options.dry_run)
    failed = 0
    for name in sorted(levels):
        error = answers[name]
        verb = options.action
        done = "can be" if options.dry_run else "was"
        if error is not None:
            failed += 1
            what = f"disable {name}" if verb == "disable" else f"{verb} {name} to {levels[name]}"
            print(f"{'Can not' if options.dry_run else 'Could not'} {what}. {error.detail}")
        elif verb == "disable":
            print(f"{name} {done} disabled.")
        else:
            print(f"{name} {done} {verb}d to {levels[name]}.")
    if failed:
        print(f"{failed} out of {len(levels)} operation(s) failed.", file=sys.stderr)
    return 1 if failed else 0


def asked_levels(options: argparse.Namespace) -> Mapping[str, int]:
    """Errors: Failure."""
    levels: dict[str, int] = {}
    if options.action == "disable":
        levels = dict.fromkeys(options.feature, 0)
    else:
        if options.metadata is not None:
            print(" `metadata` flag is deprecated and may be removed in a future release.")
        release = options.release_version or options.metadata
        if release is not None:
            if options.feature and options.release_version:
                raise Failure("Can not specify `release-version` with other feature flags.")
            levels = release_levels(release, only_metadata=options.release_version is None)
        for text in options.feature:
            name, equals, level = text.partition("=")
            if not equals or not level.strip().isdigit():
                why = f"unable to parse {level} as a short." if equals else "equals sign not found."
                raise Failure(f"Can't parse feature=level string {text}: {why}")
            levels[name.strip()] = int(level)
    if not levels:
        raise Failure(f"You must specify at least one feature to {options.action}")
    return levels


def release_levels(release: str, *, only_metadata: bool) -> dict[str, int]:
    level = level_of_release(release)
    if level is None:
        names = ", ".join(name for number, name in RELEASES.items() if number <= LATEST_LEVEL)
        raise Failure(f"Unknown metadata.version '{release}'. Supported metadata.version are: {names}")
    levels = {METADATA_VERSION: level}
    return levels if only_metadata else levels | {name: default_level(name, level) for name in FEATURES}
