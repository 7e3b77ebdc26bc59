"""◇ Features of a cluster: names, levels, what each release finalizes, what depends on what, and the record versions a level allows.

`metadata.version` decides which records may be in the log; the other features switch protocols on.  `kraft.version` stands in control
records of the log, in no image.  `feature_updates.py` decides about changes of features.

Source: MetadataVersion.java, Feature.java of 4.3.1; KIP-584, 778, 1022.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
ELR_VERSION: Final = "eligible.leader.replicas.version"
TRANSACTION_VERSION: Final = "transaction.version"

RELEASES: Final[Mapping[int, str]] = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
    31: "4.4-IV0",
}
"""metadata.version levels by the release that brought them."""
MINIMUM_LEVEL: Final = 7
LATEST_LEVEL: Final = 30
"""The newest stable level."""

CHANGED_RECORDS: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""Levels that brought records, or fields of records, which an older level cannot write.  A downgrade below one of them is refused."""

_CONTROLLER_REGISTRATION: Final = 15
_SHRINKS_WITHOUT_NEW_EPOCH: Final = 12
_DIRECTORIES: Final = 17
_ELR: Final = 23
_CORDONED: Final = 30
_MIGRATION: Final = 8


class FeatureSpec(NamedTuple):
    """A feature.

    `since`: for each level the metadata.version from which on a release finalizes it.  `needs`: the metadata.version that a level needs.
    """

    highest: int
    since: tuple[tuple[int, int], ...]
    needs: Mapping[int, int] = {}


FEATURES: Final[Mapping[str, FeatureSpec]] = {
    KRAFT_VERSION: FeatureSpec(1, ((21, 1),)),
    TRANSACTION_VERSION: FeatureSpec(2, ((24, 2),)),
    "group.version": FeatureSpec(1, ((22, 1),)),
    ELR_VERSION: FeatureSpec(1, ((26, 1),), {1: _ELR}),
    "share.version": FeatureSpec(1, ((28, 1),)),
    "streams.version": FeatureSpec(1, ((29, 1),)),
}
"""All features but metadata.version, in the order of version-mapping."""


def supported_ranges() -> dict[str, tuple[int, int]]:
    """The lowest and highest level of each feature that this software supports."""
    ranges = {METADATA_VERSION: (MINIMUM_LEVEL, LATEST_LEVEL)}
    return ranges | {name: (0, spec.highest) for name, spec in FEATURES.items()}


def default_level(feature: str, metadata_version: int) -> int:
    """The level that a release with that metadata.version finalizes."""
    return max((level for since, level in FEATURES[feature].since if since <= metadata_version), default=0)


def level_of_release(text: str, *, with_unstable: bool = False) -> int | None:
    """The level of `4.3-IV0`, or the newest of a release for `4.3` and `4.3.1`; None for an unknown release."""
    newest = max(RELEASES) if with_unstable else LATEST_LEVEL
    known = {level: name for level, name in RELEASES.items() if level <= newest}
    if "-IV" in text:
        return next((level for level, name in known.items() if name == text), None)
    minor = ".".join(text.split(".")[:2])
    return max((level for level, name in known.items() if name.partition("-")[0] == minor), default=None)


def record_version(name: str, metadata_version: int) -> int:
    """The version in which the record class `name` is written at that level."""
    match name:
        case "RegisterBrokerRecord":
            if metadata_version >= _CORDONED:
                return 4
            return 3 if metadata_version >= _DIRECTORIES else 2 if metadata_version >= _MIGRATION else 1
        case "PartitionRecord" | "PartitionChangeRecord":
            return 2 if metadata_version >= _ELR else 1 if metadata_version >= _DIRECTORIES else 0
        case "BrokerRegistrationChangeRecord":
            return 3 if metadata_version >= _CORDONED else 2 if metadata_version >= _DIRECTORIES else 1
        case _:
            return 0


def is_controller_registration_supported(metadata_version: int) -> bool:
    """Whether controllers are known to the cluster like its brokers (KIP-919)."""
    return metadata_version >= _CONTROLLER_REGISTRATION


def is_directory_assignment_supported(metadata_version: int) -> bool:
    """Whether partitions remember in which directory each replica lies (KIP-858)."""
    return metadata_version >= _DIRECTORIES


def is_cordoning_supported(metadata_version: int) -> bool:
    """Whether a broker can keep new replicas out of a log directory (KIP-1066)."""
    return metadata_version >= _CORDONED


def bumps_leader_epoch_on_shrink(metadata_version: int) -> bool:
    """Whether a smaller in-sync set opens a new leader epoch, for brokers of before Kafka 3.6."""
    return metadata_version < _SHRINKS_WITHOUT_NEW_EPOCH
