"""● ListGroups: every group that this broker coordinates.

Versions       0-5.
Authorises     DESCRIBE on the cluster, or on each group.
Behaviour      Groups of every protocol.
Version notes  4+ filters by state (KIP-518); 5+ filters by type (KIP-848).
Errors         COORDINATOR_LOAD_IN_PROGRESS while part of the groups is not loaded.
Differs from Kafka: nothing known.
"""

from moldau.errors import ErrorCode
from moldau.net.later import Later
from moldau.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from moldau.server.coordinators.topic import gather
from moldau.server.requests.broker import Broker
from moldau.server.requests.dispatch import RequestContext
from moldau.server.requests.registry import handles


@handles(ListGroupsRequest)
def list_groups(broker: Broker, context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse | Later[ListGroupsResponse]:
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}

    def is_wanted(group: ListedGroup) -> bool:
        return (not states or group.group_state.lower() in states) and (not types or group.group_type.lower() in types)

    def combined(parts: list[list[ListedGroup]]) -> ListGroupsResponse:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if broker.coordinators.groups.is_loading() else ErrorCode.NONE
        return ListGroupsResponse(error_code=error, groups=[group for part in parts for group in part if is_wanted(group)])

    return gather(broker.coordinators.groups.ask_all(lambda machine, token, _: machine.list_groups(token), refused=_nothing), combined)


def _nothing(code: ErrorCode) -> list[ListedGroup]:
    """An empty answer: a shard that closes meanwhile has no groups to list, and its next leader lists them."""
    return []
