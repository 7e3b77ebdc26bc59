"""◇ AlterClientQuotas: the request and its response."""

from moldau.protocol.wire import Request, Response, array, boolean, float64, int16, int32, message, string, struct


@struct
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct
class OpData:
    key: str = string()
    value: float = float64()
    remove: bool = boolean()


@struct
class AlterClientQuotasRequestEntryData:
    entity: list[EntityData] = array(EntityData)
    ops: list[OpData] = array(OpData)


@message(api_key=49, versions="0-1", flexible="1+", listeners=("broker", "controller"))
class AlterClientQuotasRequest(Request["AlterClientQuotasResponse"]):
    """Set or remove quotas of users, client ids and addresses.  Sent by admin tools."""

    entries: list[AlterClientQuotasRequestEntryData] = array(AlterClientQuotasRequestEntryData)
    validate_only: bool = boolean()


@struct
class AlterClientQuotasResponseEntryData:
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    entity: list[EntityData] = array(EntityData)


@message(response_to=AlterClientQuotasRequest, echoes=("entries -> entries",))
class AlterClientQuotasResponse(Response):
    throttle_time_ms: int = int32(default=0)
    entries: list[AlterClientQuotasResponseEntryData] = array(AlterClientQuotasResponseEntryData)
