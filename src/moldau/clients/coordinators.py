"""● Which broker coordinates a group, asked once and again when it has moved."""

from collections.abc import Callable
from typing import Final, TypeVar

from moldau.clients.cluster import GIVE_UP_AFTER_S, Cluster, Unreachable, retrying
from moldau.clients.view import Node
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages.find_coordinator import FindCoordinatorRequest
from moldau.protocol.wire import Request, Response

R = TypeVar("R", bound=Response)

GROUP: Final = 0
MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
"""Codes after which the coordinator is asked for anew."""


class Coordinators:
    """Of the groups of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nodes: dict[str, int] = {}

    async def node_of(self, group_id: str, *, within_s: float = GIVE_UP_AFTER_S) -> Node:
        """Errors: KafkaError; Unreachable."""

        async def find() -> int:
            response = await self._cluster.send(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[group_id]))
            found = response.coordinators[0]
            if found.error_code:
                raise KafkaError(ErrorCode.of(found.error_code), found.error_message)
            return found.node_id

        if group_id not in self._nodes:
            self._nodes[group_id] = await retrying(find, within_s=within_s)
        node_id = self._nodes[group_id]
        if node_id not in self._cluster.view.nodes:
            await self._cluster.refresh([])
        if node_id not in self._cluster.view.nodes:
            self.forget(group_id)
            raise Unreachable(f"the coordinator of group {group_id}, broker {node_id}, is not there")
        return self._cluster.view.nodes[node_id]

    def forget(self, group_id: str) -> None:
        self._nodes.pop(group_id, None)

    async def ask(
        self,
        group_id: str,
        request: Request[R],
        error_of: Callable[[R], int],
        *,
        extra_s: float = 0.0,
        within_s: float = GIVE_UP_AFTER_S,
    ) -> R:
        """Sends to the group's coordinator, and again as long as `error_of` the answer says that it is another.

        Errors: KafkaError of `MOVED` when that lasts; OSError; Unreachable.  Other errors are left in the answer.
        """

        async def attempt() -> R:
            node = await self.node_of(group_id, within_s=within_s)
            try:
                response = await self._cluster.send(request, node_id=node.node_id, extra_s=extra_s)
            except (OSError, Unreachable):
                self.forget(group_id)
                raise
            code = ErrorCode.of(error_of(response))
            if code in MOVED:
                self.forget(group_id)
                raise KafkaError(code)
            return response

        return await retrying(attempt, within_s=within_s + extra_s)
