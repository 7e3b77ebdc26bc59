"""Levels of features go up and down where every node supports them."""

from uuid import UUID

from moldau.errors import ErrorCode
from moldau.metadata.delta import replay
from moldau.metadata.feature_updates import SAFE_DOWNGRADE, UNSAFE_DOWNGRADE, UPGRADE, Quorum, update_features, upgrades_quorum
from moldau.metadata.image import MetadataImage
from moldau.metadata.records import BrokerFeature, ControllerFeature, FeatureLevelRecord, RegisterControllerRecord
from moldau.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from proof.cluster.images import a_broker, an_image

ALONE = Quorum(node_id=7, voter_ids=(7,), kraft_version=1)


def update(feature: str, level: int, kind: int = UPGRADE, *, now: int = 30) -> tuple[int, int]:
    key = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    outcome = update_features(an_image(1, level=now), ALONE, UpdateFeaturesRequest(feature_updates=[key]), version=2)
    return outcome.response.error_code, len(outcome.records)


def test_features_go_up_and_down_by_the_rules() -> None:
    assert update("transaction.version", 2) == (0, 0)
    assert update("transaction.version", 1) == (ErrorCode.INVALID_UPDATE_VERSION, 0)
    assert update("transaction.version", 1, UNSAFE_DOWNGRADE) == (0, 1)
    assert update("transaction.version", 3) == (ErrorCode.INVALID_UPDATE_VERSION, 0)
    assert update("nosuch", 1) == (ErrorCode.INVALID_UPDATE_VERSION, 0)
    assert update("metadata.version", 31) == (ErrorCode.INVALID_UPDATE_VERSION, 0)


def test_metadata_never_goes_below_records_that_may_be_in_the_log() -> None:
    """An older level could not read such records, whatever kind of downgrade is asked for."""
    refused = (ErrorCode.INVALID_UPDATE_VERSION, 0)
    for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        assert update("metadata.version", 29, kind) == refused
        assert update("metadata.version", 22, kind, now=29) == refused
        assert update("metadata.version", 23, kind, now=29) == (0, 1)
    assert update("metadata.version", 23, UPGRADE, now=29) == refused


def ask(image: MetadataImage, quorum: Quorum, *levels: tuple[str, int]) -> UpdateFeaturesResponse:
    keys = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=UPGRADE) for name, level in levels]
    return update_features(image, quorum, UpdateFeaturesRequest(feature_updates=keys), version=2).response


def a_controller(number: int, *features: tuple[str, int, int]) -> RegisterControllerRecord:
    listed = [ControllerFeature(name=name, min_supported_version=low, max_supported_version=high) for name, low, high in features]
    return RegisterControllerRecord(
        controller_id=number, incarnation_id=UUID(int=number), zk_migration_ready=False, end_points=[], features=listed
    )


def test_the_refusal_names_the_node_that_does_not_support_the_level() -> None:
    image = an_image(1)
    assert "Local controller 7 only supports versions 7-30" in str(ask(image, ALONE, ("metadata.version", 31)).error_message)
    assert "Local controller 7 does not support this feature." in str(ask(image, ALONE, ("nosuch", 1)).error_message)
    old = a_broker(2)
    old.features = [BrokerFeature(name="metadata.version", min_supported_version=7, max_supported_version=29)]
    image = replay(an_image(1, level=29), [old])
    assert "Broker 2 only supports versions 7-29" in str(ask(image, ALONE, ("metadata.version", 30)).error_message)
    assert "Broker 2 does not support this feature." in str(ask(image, ALONE, ("group.version", 1)).error_message)


def test_every_controller_of_the_quorum_has_to_support_the_level() -> None:
    image, quorum = an_image(1, level=29), Quorum(node_id=7, voter_ids=(7, 8), kraft_version=1)
    assert "controller 8 has not registered" in str(ask(image, quorum, ("metadata.version", 30)).error_message)
    behind = replay(image, [a_controller(8, ("metadata.version", 7, 29))])
    assert "Controller 8 only supports versions 7-29" in str(ask(behind, quorum, ("metadata.version", 30)).error_message)
    assert ask(replay(image, [a_controller(8, ("metadata.version", 7, 30))]), quorum, ("metadata.version", 30)).error_code == 0


def test_the_version_of_the_quorum_is_no_record_of_the_image() -> None:
    key = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=UPGRADE)
    outcome = update_features(an_image(1), ALONE, UpdateFeaturesRequest(feature_updates=[key]), version=2)
    assert (outcome.response.error_code, outcome.records) == (0, [])
    silent = Quorum(node_id=7, voter_ids=(7,), kraft_version=0, can_upgrade=False)
    assert "not all of the voters support it" in str(ask(an_image(1), silent, ("kraft.version", 1)).error_message)
    fixed = silent._replace(can_upgrade=True)
    request = UpdateFeaturesRequest(feature_updates=[key])
    outcome = update_features(an_image(1), fixed, request, version=2)
    assert (outcome.response.error_code, outcome.records) == (0, [])
    assert upgrades_quorum(fixed, request, outcome.response) and not upgrades_quorum(ALONE, request, outcome.response)
    looking = UpdateFeaturesRequest(feature_updates=[key], validate_only=True)
    assert not upgrades_quorum(fixed, looking, update_features(an_image(1), fixed, looking, version=2).response)
    assert replay(an_image(1), [FeatureLevelRecord(name="kraft.version", feature_level=1)]).features == an_image(1).features


def test_levels_that_need_each_other_go_up_together() -> None:
    image, elr = an_image(1, level=22), ("eligible.leader.replicas.version", 1)
    assert ask(image, ALONE, elr).error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert ask(image, ALONE, elr, ("metadata.version", 30)).error_code == 0
