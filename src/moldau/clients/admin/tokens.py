"""● Issues, renews, ends and lists delegation tokens.

A token lets a program act for the user that it was issued to, without the user's password.  Apache Kafka issues tokens to authenticated
users where `delegation.token.secret.key` is set.  Brokers of Moldau do not: the calls end in UNSUPPORTED_VERSION there.

Source: Admin.createDelegationToken, renewDelegationToken, expireDelegationToken, describeDelegationToken; KIP-48, 373.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from moldau.clients.admin.answers import raise_for
from moldau.clients.admin.limited import Limited
from moldau.clients.cluster import Cluster
from moldau.protocol.messages import create_delegation_token as creating
from moldau.protocol.messages import describe_delegation_token as describing
from moldau.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from moldau.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

AS_THE_BROKER_SAYS: Final = -1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token.  `token_id` and `hmac` are the user name and the password (in base64) of SCRAM with the extension `tokenauth=true`.

    Principals are written as `User:alice`.  Times are in milliseconds since 1970.  `renewers` is empty for a token that was just created.
    """

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    issued_ms: int
    expires_ms: int
    renewable_until_ms: int
    renewers: Sequence[str] = ()


class TokenAdmin(Limited):
    """Errors: KafkaError (DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, …)."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = AS_THE_BROKER_SAYS
    ) -> DelegationToken:
        """Issue a token.  `owner` None: to the user that is logged in.  `max_lifetime_ms` -1: `delegation.token.max.lifetime.ms`."""
        kind, name = ("", "") if owner is None else _principal(owner)
        wanted = list(renewers)
        request = creating.CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[creating.CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in map(_principal, wanted)],
            max_lifetime_ms=max_lifetime_ms,
        )
        made = await self._cluster.send(request)
        raise_for(made.error_code)
        owned_by = f"{made.principal_type}:{made.principal_name}"
        return DelegationToken(
            made.token_id,
            made.hmac,
            owned_by,
            _requester(made.token_requester_principal_type, made.token_requester_principal_name) or owned_by,
            made.issue_timestamp_ms,
            made.expiry_timestamp_ms,
            made.max_timestamp_ms,
            wanted,
        )

    async def renew(self, hmac: bytes, *, period_ms: int = AS_THE_BROKER_SAYS) -> int:
        """Let a token live `period_ms` longer from now on.  Returns the time at which it expires.

        `period_ms` -1: `delegation.token.expiry.time.ms`.
        """
        answer = await self._cluster.send(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms))
        raise_for(answer.error_code)
        return answer.expiry_timestamp_ms

    async def expire(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """End a token `period_ms` from now; a negative number ends it at once.  Returns the time at which it expires."""
        answer = await self._cluster.send(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms))
        raise_for(answer.error_code)
        return answer.expiry_timestamp_ms

    async def describe(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """The tokens of these owners that the caller may see.  `owners` None: of all."""
        asked = None
        if owners is not None:
            asked = [
                describing.DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in map(_principal, owners)
            ]
        answer = await self._cluster.send(describing.DescribeDelegationTokenRequest(owners=asked))
        raise_for(answer.error_code)
        return [_token(one) for one in answer.tokens]


def _token(one: describing.DescribedDelegationToken) -> DelegationToken:
    owner = f"{one.principal_type}:{one.principal_name}"
    return DelegationToken(
        one.token_id,
        one.hmac,
        owner,
        _requester(one.token_requester_principal_type, one.token_requester_principal_name) or owner,
        one.issue_timestamp,
        one.expiry_timestamp,
        one.max_timestamp,
        [f"{each.principal_type}:{each.principal_name}" for each in one.renewers],
    )


def _requester(kind: str, name: str) -> str:
    """Empty for brokers before Kafka 3.3, which only issue tokens to the one who asks."""
    return f"{kind}:{name}" if name else ""


def _principal(text: str) -> tuple[str, str]:
    """Errors: ValueError."""
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise ValueError(f"{text!r} is no principal: a kind and a name are expected, as in User:alice")
    return kind, name
