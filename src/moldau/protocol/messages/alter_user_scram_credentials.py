"""◇ AlterUserScramCredentials: the request and its response."""

from moldau.protocol.wire import Request, Response, array, bytes_, int8, int16, int32, message, string, struct


@struct
class ScramCredentialDeletion:
    name: str = string()
    mechanism: int = int8()


@struct
class ScramCredentialUpsertion:
    name: str = string()
    mechanism: int = int8()
    iterations: int = int32()
    salt: bytes = bytes_()
    salted_password: bytes = bytes_()


@message(api_key=51, versions="0", flexible="0+", listeners=("broker", "controller"))
class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    """Insert, change and delete SCRAM credentials.  Sent by admin tools."""

    deletions: list[ScramCredentialDeletion] = array(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array(ScramCredentialUpsertion)

    def refused(self, code: int, message: str | None = None) -> "AlterUserScramCredentialsResponse":
        users = sorted({deletion.name for deletion in self.deletions} | {upsertion.name for upsertion in self.upsertions})
        results = [AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message) for user in users]
        return AlterUserScramCredentialsResponse(results=results)


@struct
class AlterUserScramCredentialsResult:
    user: str = string()
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)


@message(response_to=AlterUserScramCredentialsRequest)
class AlterUserScramCredentialsResponse(Response):
    throttle_time_ms: int = int32(default=0)
    results: list[AlterUserScramCredentialsResult] = array(AlterUserScramCredentialsResult)
