"""◇ The registration of a node with the controller: its addresses, and the versions of features that it knows.  `ports` are the opened
ports by listener name: an endpoint may have left its port to the system. Called by `node.py`.

Source: KIP-584, 631, 919.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from moldau.metadata.features import supported_ranges
from moldau.protocol.messages import broker_registration, controller_registration
from moldau.server.node.config import NodeConfig
from moldau.server.requests.endpoints import PROTOCOLS, Endpoint

ListenerT = TypeVar("ListenerT", broker_registration.Listener, controller_registration.Listener)
FeatureT = TypeVar("FeatureT", broker_registration.Feature, controller_registration.Feature)


def register_controller(
    config: NodeConfig, ports: Mapping[str, int], incarnation_id: UUID
) -> controller_registration.ControllerRegistrationRequest:
    return controller_registration.ControllerRegistrationRequest(
        controller_id=config.node_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        listeners=_listeners(controller_registration.Listener, config.advertised_controller_listeners, ports),
        features=_features(controller_registration.Feature),
    )


def register_broker(
    config: NodeConfig,
    ports: Mapping[str, int],
    *,
    cluster_id: str,
    incarnation_id: UUID,
    directory_ids: Iterable[UUID],
    previous_broker_epoch: int,
) -> broker_registration.BrokerRegistrationRequest:
    return broker_registration.BrokerRegistrationRequest(
        broker_id=config.node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=_listeners(broker_registration.Listener, config.advertised_broker_listeners, ports),
        features=_features(broker_registration.Feature),
        rack=config.server.broker_rack,
        log_dirs=sorted(directory_ids),
        previous_broker_epoch=previous_broker_epoch,
    )


def _listeners(declared: type[ListenerT], endpoints: Sequence[Endpoint], ports: Mapping[str, int]) -> list[ListenerT]:
    return [
        declared(
            name=endpoint.name,
            host=endpoint.host or "localhost",
            port=endpoint.port or ports[endpoint.name],
            security_protocol=PROTOCOLS[endpoint.protocol],
        )
        for endpoint in endpoints
    ]


def _features(declared: type[FeatureT]) -> list[FeatureT]:
    ranges = sorted(supported_ranges().items())
    return [declared(name=name, min_supported_version=low, max_supported_version=high) for name, (low, high) in ranges]
