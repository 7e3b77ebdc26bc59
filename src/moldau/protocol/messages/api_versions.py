"""◇ ApiVersions: the request and its response."""

from moldau.errors import ErrorCode
from moldau.protocol.wire import Request, Response, array, boolean, int16, int32, int64, message, string, struct


@message(api_key=18, versions="0-4", flexible="3+", listeners=("broker", "controller"))
class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    """Ask which APIs and versions are served.  The first request of nearly every client.  Source: KIP-511."""

    client_software_name: str = string("3+", default="", ignorable=True)
    client_software_version: str = string("3+", default="", ignorable=True)

    def refused(self, code: int, message: str | None = None) -> "ApiVersionsResponse":
        """The response for a client that asked in an unknown version: it names the known versions (KIP-511)."""
        known = ApiVersion(api_key=self.API_KEY, min_version=self.VERSIONS[0], max_version=self.VERSIONS[-1])
        return ApiVersionsResponse(error_code=code, api_keys=[known] if code == ErrorCode.UNSUPPORTED_VERSION else [])


@struct
class ApiVersion:
    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@struct
class SupportedFeatureKey:
    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


@struct
class FinalizedFeatureKey:
    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


@message(response_to=ApiVersionsRequest)
class ApiVersionsResponse(Response):
    error_code: int = int16(default=0)
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32("1+", default=0, ignorable=True)
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, "3+", tag=0, default=[], ignorable=True)
    finalized_features_epoch: int = int64("3+", tag=1, default=-1, ignorable=True)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, "3+", tag=2, default=[], ignorable=True)
    zk_migration_ready: bool = boolean("3+", tag=3, default=False, ignorable=True)
