"""● UpdateFeatures: finalized levels go up or down, all of them or none.

Versions       0-2.
Authorises     ALTER on the cluster.
Errors         those of `metadata.features.update_features`; NOT_CONTROLLER.
Version notes  From version 1 on upgrade_type says what may be lost, before it allow_downgrade; from version 2 on no results per feature.
Differs from Kafka: nothing known.
"""

from collections.abc import Awaitable

from moldau.protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from moldau.server.broker import Broker
from moldau.server.dispatch import RequestContext
from moldau.server.handlers.registry import handles


@handles(UpdateFeaturesRequest)
def update_features(broker: Broker, context: RequestContext, request: UpdateFeaturesRequest) -> Awaitable[UpdateFeaturesResponse]:
    return broker.controller.update_features(request, version=context.version)
