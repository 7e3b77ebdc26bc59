"""◇ UpdateFeatures: the request and its response."""

from moldau.protocol.wire import Request, Response, array, boolean, int8, int16, int32, message, string, struct


@struct
class FeatureUpdateKey:
    feature: str = string()
    max_version_level: int = int16(about="Below 1 deletes the feature.")
    allow_downgrade: bool = boolean("0", default=False)
    upgrade_type: int = int8("1+", default=1, about="1 upgrade, 2 safe downgrade, 3 unsafe downgrade.")


@message(api_key=57, versions="0-2", flexible="0+", listeners=("broker", "controller"))
class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    """Raise or lower finalized feature levels.  Sent by admin tools."""

    timeout_ms: int = int32(default=60000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean("1+", default=False)


@struct
class UpdatableFeatureResult:
    feature: str = string()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@message(response_to=UpdateFeaturesRequest)
class UpdateFeaturesResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, "0-1", default=[], ignorable=True)
