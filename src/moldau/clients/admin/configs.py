"""● Reads and changes the configs of topics, brokers, loggers, groups and client metrics.

Source: Admin.describeConfigs, incrementalAlterConfigs, listConfigResources; KIP-133, 226, 339, 412, 714, 1142.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from moldau.clients.admin.answers import error_of, raise_for
from moldau.clients.admin.limited import Limited
from moldau.clients.admin.values import ConfigChange, Resource, ResourceType
from moldau.clients.cluster import Cluster
from moldau.errors import KafkaError
from moldau.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig, AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.protocol.messages.list_config_resources import ListConfigResourcesRequest


class ConfigAdmin(Limited):
    """Answers are by resource; one that failed has its `KafkaError` there."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(
        self, resources: Sequence[Resource], *, synonyms: bool = True, documentation: bool = False
    ) -> dict[Resource, list[DescribeConfigsResourceResult] | KafkaError]:
        """The configs of each resource.  Each broker answers for its own configs; any broker answers for the others."""
        found: dict[Resource, list[DescribeConfigsResourceResult] | KafkaError] = {}
        for node_id, group in _by_node(resources, ResourceType.BROKER, ResourceType.BROKER_LOGGER).items():
            asked = [DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None) for kind, name in group]
            request = DescribeConfigsRequest(resources=asked, include_synonyms=synonyms, include_documentation=documentation)
            response = await self._cluster.send(request, node_id=node_id)
            for one in response.results:
                resource = (ResourceType(one.resource_type), one.resource_name)
                found[resource] = error_of(one.error_code, one.error_message) or one.configs
        return found

    async def alter(
        self, changes: Mapping[Resource, Sequence[ConfigChange]], *, validate_only: bool = False
    ) -> dict[Resource, KafkaError | None]:
        """Change configs.  Every node is asked, also when another one is not there; then the first failure is raised.

        Errors: as `Cluster.send`.
        """
        # A broker looks at what is to be its own before the active controller notes it; a controller notes it if it is the active one.
        own = (ResourceType.BROKER_LOGGER,) if self._cluster.is_at_controllers else (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
        groups = _by_node(changes, *own)
        asking = (self._alter({one: changes[one] for one in group}, node_id, validate_only) for node_id, group in groups.items())
        answers: dict[Resource, KafkaError | None] = {}
        failed: BaseException | None = None
        for answer in await asyncio.gather(*asking, return_exceptions=True):
            if isinstance(answer, BaseException):
                failed = failed or answer
            else:
                answers |= answer
        if failed is not None:
            raise failed
        return answers

    async def _alter(
        self, changes: Mapping[Resource, Sequence[ConfigChange]], node_id: int | None, validate_only: bool
    ) -> dict[Resource, KafkaError | None]:
        asked = [
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=one.key, config_operation=one.operation, value=one.value) for one in configs],
            )
            for (kind, name), configs in changes.items()
        ]
        request = IncrementalAlterConfigsRequest(resources=asked, validate_only=validate_only)
        response = await self._cluster.send(request, node_id=node_id)
        return {
            (ResourceType(one.resource_type), one.resource_name): error_of(one.error_code, one.error_message) for one in response.responses
        }

    async def list_resources(self, *types: ResourceType) -> list[Resource]:
        response = await self._cluster.send(ListConfigResourcesRequest(resource_types=list(types)))
        raise_for(response.error_code)
        return [(ResourceType(one.resource_type), one.resource_name) for one in response.config_resources]


def _by_node(resources: Iterable[Resource], *types: ResourceType) -> dict[int | None, list[Resource]]:
    """Resources by the node to ask.  Only a node itself knows its static configs and its loggers.  None: any node will do."""
    groups: dict[int | None, list[Resource]] = defaultdict(list)
    for kind, name in resources:
        own = kind in types and name
        groups[int(name) if own else None].append((kind, name))
    return groups
