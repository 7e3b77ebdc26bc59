"""● Finds the broker that coordinates a group or a transactional id.  It asks once, and again when the coordinator has moved."""

from collections.abc import Callable
from typing import Final, TypeVar

from moldau.clients.cluster import GIVE_UP_AFTER_S, Cluster, Unreachable, retrying
from moldau.clients.view import Node
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.wire import Request, Response

R = TypeVar("R", bound=Response)

GROUP: Final = 0
TRANSACTION: Final = 1
MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""Error codes after which the coordinator has to be looked up anew."""


class Coordinators:
    """The coordinators of one cluster's groups, or of its transactional ids."""

    def __init__(self, cluster: Cluster, *, key_type: int = GROUP) -> None:
        self._cluster = cluster
        self._key_type = key_type
        self._nodes: dict[str, int] = {}

    async def node_of(self, key: str, *, within_s: float = GIVE_UP_AFTER_S) -> Node:
        """The node id of the coordinator of `key`.  Errors: KafkaError; Unreachable."""

        async def find() -> int:
            response = await self._cluster.send(FindCoordinatorRequest(key_type=self._key_type, coordinator_keys=[key]))
            found = response.coordinators[0]
            if found.error_code:
                raise KafkaError(ErrorCode.of(found.error_code), found.error_message)
            return found.node_id

        if key not in self._nodes:
            self._nodes[key] = await retrying(find, within_s=within_s)
        node_id = self._nodes[key]
        if node_id not in self._cluster.view.nodes:
            await self._cluster.refresh([])
        if node_id not in self._cluster.view.nodes:
            self.forget(key)
            raise Unreachable(f"the coordinator of {key}, broker {node_id}, is not there")
        return self._cluster.view.nodes[node_id]

    def forget(self, key: str) -> None:
        self._nodes.pop(key, None)

    async def ask(
        self,
        key: str,
        request: Request[R],
        error_of: Callable[[R], int],
        *,
        extra_s: float = 0.0,
        within_s: float = GIVE_UP_AFTER_S,
        max_version: int | None = None,
    ) -> R:
        """Send to the coordinator of `key`, and again while `error_of` the answer says that the coordinator is another broker.

        Errors: KafkaError of `MOVED` when that lasts; OSError; Unreachable.  Other errors are left in the answer.
        """

        async def attempt() -> R:
            node = await self.node_of(key, within_s=within_s)
            try:
                response = await self._cluster.send(request, node_id=node.node_id, extra_s=extra_s, max_version=max_version)
            except (OSError, Unreachable):
                self.forget(key)
                raise
            code = ErrorCode.of(error_of(response))
            if code in MOVED:
                self.forget(key)
                raise KafkaError(code)
            return response

        return await retrying(attempt, within_s=within_s + extra_s)
