"""◇ DescribeDelegationToken: the request and its response."""

from moldau.protocol.wire import Request, Response, array, bytes_, int16, int32, int64, message, string, struct


@struct
class DescribeDelegationTokenOwner:
    principal_type: str = string()
    principal_name: str = string()


@message(api_key=41, versions="1-3", flexible="2+", listeners=("broker", "controller"))
class DescribeDelegationTokenRequest(Request["DescribeDelegationTokenResponse"]):
    """List delegation tokens by owner.  Sent by authenticated clients."""

    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, nullable="0+")


@struct
class DescribedDelegationTokenRenewer:
    principal_type: str = string()
    principal_name: str = string()


@struct
class DescribedDelegationToken:
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+", default="")
    token_requester_principal_name: str = string("3+", default="")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = bytes_()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


@message(response_to=DescribeDelegationTokenRequest)
class DescribeDelegationTokenResponse(Response):
    error_code: int = int16(default=0)
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32(default=0)
