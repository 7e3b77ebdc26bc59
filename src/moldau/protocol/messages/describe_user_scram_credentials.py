"""◇ DescribeUserScramCredentials: the request and its response."""

from moldau.protocol.wire import Request, Response, array, int8, int16, int32, message, string, struct


@struct
class UserName:
    name: str = string()


@message(api_key=50, versions="0", flexible="0+", listeners=("broker", "controller"))
class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
    """List which SCRAM mechanisms users have credentials for.  Sent by admin tools."""

    users: list[UserName] | None = array(UserName, nullable="0+")


@struct
class CredentialInfo:
    mechanism: int = int8()
    iterations: int = int32()


@struct
class DescribeUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    credential_infos: list[CredentialInfo] = array(CredentialInfo)


@message(response_to=DescribeUserScramCredentialsRequest, echoes=("users -> results",))
class DescribeUserScramCredentialsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
    results: list[DescribeUserScramCredentialsResult] = array(DescribeUserScramCredentialsResult)
