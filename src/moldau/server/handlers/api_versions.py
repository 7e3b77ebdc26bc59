"""● ApiVersions: the APIs of this listener, and the features of the cluster.

Versions       0-4; any other is answered in version 0 with UNSUPPORTED_VERSION (KIP-511), by `requests/dispatch.py`.
Authorises     nothing: it comes before authentication.
Behaviour      Only APIs with a handler are listed.  Produce is listed from version 0, though it is served from 3: an older librdkafka takes
               a broker for too old otherwise (KAFKA-18659).
Version notes  3+ the client says who it is; 3+ features; below 4 features from level 0 are left out, older clients cannot read them.
Errors         INVALID_REQUEST (a client name or version of other characters).
Differs from Kafka: nothing known.
"""

import re
from typing import Final

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from moldau.protocol.messages.produce import ProduceRequest
from moldau.server.requests.broker import Services
from moldau.server.requests.dispatch import RequestContext, served_versions
from moldau.server.requests.registry import handles

SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
SOFTWARE_VERSION: Final = 3
LEVEL_ZERO_VERSION: Final = 4


@handles(ApiVersionsRequest)
def api_versions(services: Services, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    software = (request.client_software_name, request.client_software_version)
    if context.version >= SOFTWARE_VERSION and not all(map(SOFTWARE.fullmatch, software)):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a client's name and version are letters, digits, dots and dashes")
    features = services.cluster.features()
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=key,
                min_version=0 if key == ProduceRequest.API_KEY else served_versions(api.request)[0],
                max_version=served_versions(api.request)[-1],
            )
            for key, api in services.apis[context.client.listener].items()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels[0], max_version=levels[-1])
            for name, levels in features.supported.items()
            if levels[0] > 0 or context.version >= LEVEL_ZERO_VERSION
        ],
        finalized_features_epoch=features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level) for name, level in features.finalized.items()
        ],
    )
