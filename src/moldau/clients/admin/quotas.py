"""● Describes and changes client quotas of users, client ids and addresses.

    entity = {"user": "alice", "client-id": None}           # None: the default for client ids without a quota of their own
    await admin.quotas.alter({entity_of(user="alice"): {"producer_byte_rate": 1_000_000.0}})

Source: Admin.describeClientQuotas, alterClientQuotas; KIP-546.
"""

from collections.abc import Mapping

from moldau.clients.admin.answers import error_of, raise_for
from moldau.clients.admin.limited import Limited
from moldau.clients.cluster import Cluster
from moldau.errors import KafkaError
from moldau.protocol.messages import alter_client_quotas as altering
from moldau.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

EXACT, DEFAULT, ANY = range(3)

Entity = frozenset[tuple[str, str | None]]
"""An entity of quotas: names by kind.  None: the default of its kind."""
UNSAID = "\0"


def entity_of(*, user: str | None = UNSAID, client_id: str | None = UNSAID, ip: str | None = UNSAID) -> Entity:
    """The entity that a quota is for.  None stands for the default of a kind."""
    given = ((USER, user), (CLIENT_ID, client_id), (IP, ip))
    return frozenset((kind, name) for kind, name in given if name != UNSAID)


class QuotaAdmin(Limited):
    """Describes and changes quotas.  Errors: KafkaError."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, entity: Entity | None = None, *, strict: bool = False) -> dict[Entity, dict[str, float]]:
        """Quotas by name, for each entity.

        `entity` None: all entities.  Otherwise the entities that have these kinds and names, with `strict` those that have no other kinds.
        """
        components = [
            ComponentData(entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name) for kind, name in entity or ()
        ]
        response = await self._cluster.send(DescribeClientQuotasRequest(components=components, strict=strict))
        raise_for(response.error_code, response.error_message)
        return {
            frozenset((one.entity_type, one.entity_name) for one in entry.entity): {one.key: one.value for one in entry.values}
            for entry in response.entries or ()
        }

    async def alter(
        self, changes: Mapping[Entity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> dict[Entity, KafkaError | None]:
        """Set quotas.  The value None removes a quota."""
        entries = [
            altering.AlterClientQuotasRequestEntryData(
                entity=[altering.EntityData(entity_type=kind, entity_name=name) for kind, name in sorted(entity)],
                ops=[altering.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in quotas.items()],
            )
            for entity, quotas in changes.items()
        ]
        response = await self._cluster.send(altering.AlterClientQuotasRequest(entries=entries, validate_only=validate_only))
        return {
            frozenset((one.entity_type, one.entity_name) for one in entry.entity): error_of(entry.error_code, entry.error_message)
            for entry in response.entries
        }
