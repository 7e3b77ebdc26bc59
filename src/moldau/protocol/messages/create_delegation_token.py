"""◇ CreateDelegationToken: the request and its response."""

from moldau.protocol.wire import Request, Response, array, bytes_, int16, int32, int64, message, string, struct


@struct
class CreatableRenewers:
    principal_type: str = string()
    principal_name: str = string()


@message(api_key=38, versions="1-3", flexible="2+", listeners=("broker", "controller"))
class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"]):
    """Issue a delegation token.  Sent by authenticated clients."""

    owner_principal_type: str | None = string("3+", nullable="0+", default="")
    owner_principal_name: str | None = string("3+", nullable="0+", default="")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()

    def refused(self, code: int, message: str | None = None) -> "CreateDelegationTokenResponse":
        response = Request.refused(self, code, message)
        response.principal_type, response.principal_name = "User", "ANONYMOUS"
        response.issue_timestamp_ms = response.expiry_timestamp_ms = response.max_timestamp_ms = -1
        return response


@message(response_to=CreateDelegationTokenRequest)
class CreateDelegationTokenResponse(Response):
    error_code: int = int16(default=0)
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+", default="")
    token_requester_principal_name: str = string("3+", default="")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()
    throttle_time_ms: int = int32(default=0)
