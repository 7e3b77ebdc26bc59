"""◇ UpdateFeatures: finalized levels go up or down, where every node of the cluster supports them.

Source: FeatureControlManager, QuorumFeatures of 4.3.1; KIP-584, 778, 1022, 1155.
"""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from moldau.errors import ErrorCode
from moldau.metadata.features import (
    CHANGED_RECORDS,
    FEATURES,
    KRAFT_VERSION,
    METADATA_VERSION,
    is_controller_registration_supported,
    supported_ranges,
)
from moldau.metadata.image import MetadataImage, VersionRange
from moldau.metadata.outcome import Outcome
from moldau.metadata.records import FeatureLevelRecord
from moldau.protocol.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3

_DISABLED: Final = VersionRange(0, 0)


class Quorum(NamedTuple):
    """The knowledge that the decision needs beside the image."""

    node_id: int
    """The active controller's node id."""
    voter_ids: Collection[int]
    kraft_version: int
    can_upgrade: bool = True
    """Whether all voters have told their address, and that they know kraft.version 1."""


def upgrades_quorum(quorum: Quorum, request: UpdateFeaturesRequest, response: UpdateFeaturesResponse) -> bool:
    """Whether the answer promises kraft.version 1.  The quorum's own records carry that level, and no FeatureLevelRecord does."""
    is_asked_for = any(one.feature == KRAFT_VERSION and one.max_version_level > quorum.kraft_version for one in request.feature_updates)
    return is_asked_for and response.error_code == ErrorCode.NONE and not request.validate_only


def update_features(
    image: MetadataImage, quorum: Quorum, request: UpdateFeaturesRequest, *, version: int
) -> Outcome[UpdateFeaturesResponse]:
    """Finalize levels, all or nothing.  `version` is that of the request.

    Errors, as answers: INVALID_UPDATE_VERSION for an invalid level.
    """
    proposed = {**image.features, **{update.feature: update.max_version_level for update in request.feature_updates}}
    for update in request.feature_updates:
        kind = update.upgrade_type if version >= 1 else SAFE_DOWNGRADE if update.allow_downgrade else UPGRADE
        reason = _refusal(image, quorum, proposed, update.feature, kind)
        if reason is not None:
            text = f"The update failed for all features since the following feature had an error: {reason}"
            return Outcome(UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=text, results=[]))
    names = [update.feature for update in request.feature_updates]
    results = [UpdatableFeatureResult(feature=name, error_code=0, error_message=ErrorCode.NONE.name) for name in names if version < 2]
    response = UpdateFeaturesResponse(error_code=0, error_message=None, results=results)
    changed = {name: proposed[name] for name in names if name != KRAFT_VERSION and proposed[name] != image.features.get(name, 0)}
    records = [FeatureLevelRecord(name=name, feature_level=level) for name, level in changed.items()]
    return Outcome(response, [] if request.validate_only else list(records))


def _refusal(image: MetadataImage, quorum: Quorum, proposed: Mapping[str, int], feature: str, kind: int) -> str | None:
    """The reason to refuse a change; None for a valid one."""
    level = proposed[feature]
    current = quorum.kraft_version if feature == KRAFT_VERSION else image.features.get(feature, 0)
    if feature == METADATA_VERSION and level < current and kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        lost = _metadata_downgrade(current, level, kind)
        if lost is not None and _unsupported(image, quorum, feature, level) is None:
            return lost
    why = _kind_refusal(level, current, kind) or _unsupported(image, quorum, feature, level) or _direction_refusal(level, current, kind)
    if why is None and feature == KRAFT_VERSION:
        return _kraft_refusal(level, current, can_upgrade=quorum.can_upgrade)
    if why is None and feature not in FEATURES and feature != METADATA_VERSION:
        why = f"Feature {feature} not found."
    elif why is None and feature != METADATA_VERSION:
        needed = FEATURES[feature].needs.get(level, 0)
        if proposed.get(METADATA_VERSION, 0) < needed:
            why = f"{feature} could not be set to {level} because it depends on {METADATA_VERSION} level {needed}"
    return None if why is None else f"Invalid update version {level} for feature {feature}. {why}"


def _kind_refusal(level: int, current: int, kind: int) -> str | None:
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    return "A feature version cannot be less than 0." if level < 0 else None


def _direction_refusal(level: int, current: int, kind: int) -> str | None:
    if level < current and kind == UPGRADE:
        return "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
    return "Can't downgrade to a newer version." if level > current and kind != UPGRADE else None


def _kraft_refusal(level: int, current: int, *, can_upgrade: bool) -> str | None:
    """The reason to refuse a kraft.version.  The level is a control record of the quorum's log, written with the voters."""
    if level < current:
        return f"Invalid update version {level} for feature {KRAFT_VERSION}. Can't downgrade the version of this feature."
    if level > current and not can_upgrade:
        return f"Invalid upgrade of {KRAFT_VERSION} to {level} because not all of the voters support it"
    return None


def _metadata_downgrade(current: int, level: int, kind: int) -> str | None:
    if not any(lost in CHANGED_RECORDS for lost in range(level + 1, current + 1)):
        return None
    why = (
        "Unsafe metadata downgrade is not supported in this version."
        if kind == UNSAFE_DOWNGRADE
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    return f"Unsupported metadata.version downgrade from {current} to {level}. {why}"


def _unsupported(image: MetadataImage, quorum: Quorum, feature: str, level: int) -> str | None:
    """The node that does not support the level: this controller, a broker, another controller.  None if all support it."""
    local = supported_ranges().get(feature)
    reason = _out_of_range(level, f"Local controller {quorum.node_id}", None if local is None else VersionRange(*local))
    for broker in image.brokers.values():
        reason = reason or _out_of_range(level, f"Broker {broker.id}", broker.features.get(feature))
    if reason is not None or not is_controller_registration_supported(image.metadata_version):
        return reason
    for controller in image.controllers.values():
        if controller.id != quorum.node_id:
            reason = reason or _out_of_range(level, f"Controller {controller.id}", controller.features.get(feature))
    unknown = [one for one in quorum.voter_ids if one not in image.controllers and one != quorum.node_id]
    if reason is None and unknown:
        return f"controller {unknown[0]} has not registered, and may not support this feature"
    return reason


def _out_of_range(level: int, who: str, supported: VersionRange | None) -> str | None:
    low, high = supported or _DISABLED
    if low <= level <= high:
        return None
    if high == 0:
        return f"{who} does not support this feature."
    return f"{who} only supports versions {low}" + (f"-{high}" if high > low else "")
