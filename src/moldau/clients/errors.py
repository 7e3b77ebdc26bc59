"""◇ The errors of the clients, grouped by what a user should do about them.

    ClientError                 the base of all: `code` of the protocol, `detail` in words
    ├─ RetriableError           trying again later may help; the client itself has tried as long as its options allow
    │   ├─ DeliveryTimedOut     a record: not acknowledged within delivery_timeout_ms; it may have been written
    │   ├─ BufferFull           a record: not taken, buffer_memory is full; await something, or send less
    │   └─ ClusterUnreachable   no broker answers
    ├─ AbortableError           a transaction: abort it, then begin the next one
    ├─ FatalError               this client can do no more: close it
    │   ├─ AuthenticationError  a certificate or credentials were refused, at once: trying again will not help, others may
    │   └─ Fenced               another one with its transactional id or group instance id has taken its place
    └─ anything else            the request or the record is at fault, the client goes on

Source: KIP-691, KIP-1050, the exceptions of org.apache.kafka.common.errors.
"""

from typing import Final

from moldau.errors import ErrorCode, KafkaError


class ClientError(KafkaError):
    """A record or a request that failed for good."""


class RetriableError(ClientError):
    """The request was right, and may succeed later."""


class DeliveryTimedOut(RetriableError):
    """A record was not acknowledged in time.  It may have been written."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, detail)


class BufferFull(RetriableError):
    """There is no room for a record; it was not taken."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, detail)


class ClusterUnreachable(RetriableError):
    """No broker answers."""

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, detail)


class AbortableError(ClientError):
    """The transaction cannot be committed any more: abort it."""


class FatalError(ClientError):
    """This client can do no more: close it."""


class AuthenticationError(FatalError):
    """The broker refuses the credentials, or one side refuses the other's certificate.

    The call under way has failed.  The client may be used again once the other side has changed.  The code is SASL_AUTHENTICATION_FAILED
    for TLS, too, because the protocol has no code of its own for it.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(ErrorCode.SASL_AUTHENTICATION_FAILED, detail)


class Fenced(FatalError):
    """Another client has taken this one's place."""


FENCING: Final = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH}
)
FATAL: Final = frozenset(
    {
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


def error_of(code: ErrorCode, detail: str | None = None) -> ClientError:
    """The error for a code outside of transactions."""
    if code is ErrorCode.SASL_AUTHENTICATION_FAILED:
        return AuthenticationError(detail or code.text)
    if code in FENCING:
        return Fenced(code, detail)
    if code in FATAL:
        return FatalError(code, detail)
    return RetriableError(code, detail) if code.retriable else ClientError(code, detail)
