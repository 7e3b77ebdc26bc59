"""● Shows the supported and the finalized levels of the cluster's features, and raises or lowers them.

Source: Admin.describeFeatures, updateFeatures; KIP-584, 778, 1022.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from moldau.clients.admin.answers import error_of, raise_for
from moldau.clients.admin.limited import Limited
from moldau.clients.admin.values import UpgradeType
from moldau.clients.cluster import Cluster
from moldau.errors import KafkaError
from moldau.protocol.messages.api_versions import ApiVersionsRequest
from moldau.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from moldau.version import __version__


@dataclass(frozen=True, slots=True)
class Features:
    """The lowest and the highest level of each feature, by its name.  `epoch` None: the node does not know the finalized levels."""

    supported: Mapping[str, tuple[int, int]]
    finalized: Mapping[str, tuple[int, int]]
    epoch: int | None


class FeatureAdmin(Limited):
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, node_id: int | None = None) -> Features:
        """The features as node `node_id` knows them; None asks any node.  Errors: KafkaError."""
        request = ApiVersionsRequest(client_software_name="moldau", client_software_version=__version__)
        response = await self._cluster.send(request, node_id=node_id)
        raise_for(response.error_code)
        return Features(
            {one.name: (one.min_version, one.max_version) for one in response.supported_features},
            {one.name: (one.min_version_level, one.max_version_level) for one in response.finalized_features},
            response.finalized_features_epoch if response.finalized_features_epoch >= 0 else None,
        )

    async def update(
        self, levels: Mapping[str, int], *, upgrade_type: UpgradeType = UpgradeType.UPGRADE, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Set features to these levels; level 0 disables a feature.

        From version 2 of UpdateFeatures on the broker answers once for all features: each then has the same answer.
        """
        updates = [FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type) for name, level in levels.items()]
        request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
        response = await self._cluster.send_to_controller(request, lambda answer: answer.error_code)
        whole = error_of(response.error_code, response.error_message)
        answers: dict[str, KafkaError | None] = dict.fromkeys(levels, whole)
        if whole is None:
            answers.update({one.feature: error_of(one.error_code, one.error_message) for one in response.results})
        return answers
