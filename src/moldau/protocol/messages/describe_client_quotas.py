"""◇ DescribeClientQuotas: the request and its response."""

from moldau.protocol.wire import Request, Response, array, boolean, float64, int8, int16, int32, message, string, struct


@struct
class ComponentData:
    entity_type: str = string()
    match_type: int = int8()
    match: str | None = string(nullable="0+")


@message(api_key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest(Request["DescribeClientQuotasResponse"]):
    """List the quotas that match a filter.  Sent by admin tools."""

    components: list[ComponentData] = array(ComponentData)
    strict: bool = boolean()

    def refused(self, code: int, message: str | None = None) -> "DescribeClientQuotasResponse":
        return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)


@struct
class EntityData:
    entity_type: str = string()
    entity_name: str | None = string(nullable="0+")


@struct
class ValueData:
    key: str = string()
    value: float = float64()


@struct
class EntryData:
    entity: list[EntityData] = array(EntityData)
    values: list[ValueData] = array(ValueData)


@message(response_to=DescribeClientQuotasRequest)
class DescribeClientQuotasResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    entries: list[EntryData] | None = array(EntryData, nullable="0+")
