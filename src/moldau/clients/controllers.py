"""◇ Refuses what an admin client may not ask of controllers, and sees in an answer that another controller is the active one.

Source: KIP-919; KafkaAdminClient: the calls whose NodeProvider supportsUseControllers, and handleNotControllerError.  Called by `cluster`.
"""

from collections.abc import Iterator
from typing import Any, Final

from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.wire import Request, Struct

SERVED: Final = {
    18: "ApiVersions",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    55: "DescribeQuorum",
    57: "UpdateFeatures",
    60: "DescribeCluster",
    64: "UnregisterBroker",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
}
"""The APIs that Java's Admin asks of controllers, by their keys."""
INACTIVE: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def refuse_what_brokers_do(request: Request[Any]) -> None:
    """Errors: KafkaError UNSUPPORTED_ENDPOINT_TYPE for an API that is asked of brokers alone."""
    if request.API_KEY not in SERVED:
        name = type(request).__name__.removesuffix("Request")
        detail = f"{name} is not supported when communicating directly with the controller quorum: give brokers, as bootstrap.servers"
        raise KafkaError(ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, detail)


def inactive(answer: object) -> ErrorCode | None:
    """The error by which a controller says, anywhere in its answer, that another one is active; None if it does not."""
    codes = set(_codes(answer))
    return next((code for code in INACTIVE if code in codes), None)


def _codes(part: object) -> Iterator[int]:
    if isinstance(part, list):
        for one in part:
            yield from _codes(one)
    elif isinstance(part, Struct):
        for field in part.FIELDS:
            value = getattr(part, field.name)
            if field.name == "error_code":
                yield value
            else:
                yield from _codes(value)
