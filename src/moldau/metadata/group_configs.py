"""◇ Options of a single group (resource GROUP): what may be set, within which limits, and which broker option stands behind each.

The limits are broker options too, so an administrator decides how far a group may go.

Source: GroupConfig.java of 4.3.1; KIP-848, 932, 1071.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from moldau.config import Check, ConfigError, Kind, Option, at_least, one_of


class Limit(NamedTuple):
    """A broker's option that bounds a group's, and its default."""

    key: str
    default: int


class GroupOption(NamedTuple):
    """The key of `option` is that of the broker's option behind it; empty for none."""

    name: str
    option: Option
    low: Limit | None = None
    high: Limit | None = None


def _offset_reset(value: str) -> str | None:
    if value in ("earliest", "latest") or value.startswith("by_duration:P"):
        return None
    return (
        f"Invalid value `{value}` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the "
        "format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _declare(
    name: str,
    default: object,
    doc: str,
    *,
    check: Check | None = None,
    is_of_brokers: bool = False,
    low: Limit | None = None,
    high: Limit | None = None,
    is_ours: bool = False,
) -> GroupOption:
    """The broker has it, where it has it, as group.NAME."""
    kind = Kind.BOOLEAN if isinstance(default, bool) else Kind.INT if isinstance(default, int) else Kind.STRING
    behind = f"group.{name}" if is_of_brokers else ""
    return GroupOption(name, Option(behind, kind, default, doc, check=check, update="cluster-wide", is_ours=is_ours), low, high)


def _bounded(name: str, default: int, low: int, high: int, doc: str, *, check: int = 1) -> GroupOption:
    """The broker's limits of KIND.REST are group.KIND.min.REST and group.KIND.max.REST."""
    kind, _, rest = name.partition(".")
    limits = Limit(f"group.{kind}.min.{rest}", low), Limit(f"group.{kind}.max.{rest}", high)
    return _declare(name, default, doc, check=at_least(check), is_of_brokers=True, low=limits[0], high=limits[1])


def _of_all_kinds() -> list[GroupOption]:
    found = []
    for kind in ("consumer", "share", "streams"):
        found += [
            _bounded(f"{kind}.session.timeout.ms", 45_000, 45_000, 60_000, "How long a member may be silent."),
            _bounded(f"{kind}.heartbeat.interval.ms", 5_000, 5_000, 15_000, "How often members report."),
            _bounded(f"{kind}.assignment.interval.ms", 1_000, 0, 15_000, "Least time between two assignments.", check=0),
        ]
    return found


GROUP_OPTIONS: Final[Mapping[str, GroupOption]] = {
    one.name: one
    for one in (
        *_of_all_kinds(),
        _bounded("share.record.lock.duration.ms", 30_000, 15_000, 60_000, "How long a record stays with who fetched it.", check=1000),
        _bounded("share.delivery.count.limit", 5, 2, 10, "How often a record is delivered at most.", check=2),
        _bounded("share.partition.max.record.locks", 2_000, 100, 4_000, "Records of a partition in delivery at a time.", check=100),
        _declare("share.auto.offset.reset", "latest", "Where a new share group begins.", check=_offset_reset),
        _declare(
            "share.isolation.level",
            "read_uncommitted",
            "Whether records of open transactions are delivered.",
            check=one_of("read_committed", "read_uncommitted"),
        ),
        _declare("share.renew.acknowledge.enable", True, "Whether a record's lock can be renewed."),
        _declare(
            "share.delivery.delay.ms",
            0,
            "How long after its timestamp a record is delivered first.",
            check=at_least(0),
            is_ours=True,
        ),
        _declare(
            "share.retry.delay.ms",
            0,
            "How long a record waits after a delivery that failed; doubles each time.",
            check=at_least(0),
            is_ours=True,
        ),
        _declare(
            "share.retry.delay.max.ms",
            0,
            "Up to where the wait before a retry doubles; without it, it does not grow.",
            check=at_least(0),
            is_ours=True,
        ),
        _declare(
            "errors.deadletterqueue.topic.name",
            "",
            "Where records go that are rejected or delivered in vain too often.",
            is_ours=True,
        ),
        _declare(
            "errors.deadletterqueue.copy.record.enable",
            False,
            "Whether a dead letter has key and value of its record.",
            is_ours=True,
        ),
        _declare(
            "streams.num.standby.replicas",
            0,
            "Stand-by copies of each task.",
            check=at_least(0),
            is_of_brokers=True,
            high=Limit("group.streams.max.standby.replicas", 2),
        ),
        _declare(
            "streams.initial.rebalance.delay.ms",
            3_000,
            "How long the first rebalance waits for more members.",
            check=at_least(0),
            is_of_brokers=True,
        ),
    )
}


def group_refusal(properties: Mapping[str, str], configs: Mapping[str, str]) -> str | None:
    """Why a group cannot have these; None when it can."""
    for name, text in configs.items():
        known = GROUP_OPTIONS.get(name)
        if known is None:
            return f"Unknown group config name: {name}"
        try:
            value = known.option.parse(text, key=name)
        except ConfigError as error:
            return str(error)
        if known.low is not None and value < int(properties.get(known.low.key, known.low.default)):
            return f"{name} must be greater than or equal to {known.low.key}"
        if known.high is not None and value > int(properties.get(known.high.key, known.high.default)):
            return f"{name} must be less than or equal to {known.high.key}"
    return None


def group_values(properties: Mapping[str, str], configs: Mapping[str, str]) -> dict[str, Any]:
    """What a group was given, by name, as it holds on a broker with these properties: its limits may be narrower than they were then."""
    values: dict[str, Any] = {}
    for name, text in configs.items():
        known = GROUP_OPTIONS.get(name)
        if known is None:
            continue
        try:
            value = known.option.parse(text, key=name)
        except ConfigError:
            continue
        if known.low is not None:
            value = max(value, int(properties.get(known.low.key, known.low.default)))
        if known.high is not None:
            value = min(value, int(properties.get(known.high.key, known.high.default)))
        values[name] = value
    return values
