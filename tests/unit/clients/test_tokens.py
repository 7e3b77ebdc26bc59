"""Delegation tokens: what is asked, and what is made of the answers."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from moldau.clients.admin.tokens import TokenAdmin
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.compiler import decode, encode_bytes
from moldau.protocol.messages import create_delegation_token as creating
from moldau.protocol.messages import describe_delegation_token as describing
from moldau.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse


class Answering:
    """A cluster that answers with `answer(request)`, after both have crossed the wire in `version`."""

    def __init__(self, answer: Callable[[Any], Any], version: int) -> None:
        self._answer = answer
        self._version = version

    def _across(self, message: Any) -> Any:
        return decode(type(message), self._version, encode_bytes(message, self._version))

    async def send(self, request: Any) -> Any:
        response = self._answer(self._across(request))
        return self._across(response)


def tokens(answer: Callable[[Any], Any], version: int) -> TokenAdmin:
    return TokenAdmin(cast(Cluster, Answering(answer, version)))


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_a_created_token(version: int) -> None:
    def answer(request: creating.CreateDelegationTokenRequest) -> creating.CreateDelegationTokenResponse:
        assert [(one.principal_type, one.principal_name) for one in request.renewers] == [("User", "bob:x")]
        assert (request.owner_principal_type, request.owner_principal_name) == (("User", "al") if version == 3 else ("", ""))
        assert request.max_lifetime_ms == -1
        return creating.CreateDelegationTokenResponse(
            principal_type="User",
            principal_name="al",
            token_requester_principal_type="User" if version == 3 else "",
            token_requester_principal_name="root" if version == 3 else "",
            issue_timestamp_ms=1,
            expiry_timestamp_ms=2,
            max_timestamp_ms=3,
            token_id="t",
            hmac=b"secret",
        )

    made = await tokens(answer, version).create(owner="User:al" if version == 3 else None, renewers=["User:bob:x"])
    assert (made.owner, made.requester) == ("User:al", "User:root" if version == 3 else "User:al")
    assert (made.issued_ms, made.expires_ms, made.renewable_until_ms, made.renewers) == (1, 2, 3, ["User:bob:x"])
    assert "secret" not in repr(made)


@pytest.mark.parametrize("version", [1, 3])
async def test_described_tokens(version: int) -> None:
    def answer(request: describing.DescribeDelegationTokenRequest) -> describing.DescribeDelegationTokenResponse:
        assert request.owners is None
        found = describing.DescribedDelegationToken(
            principal_type="User",
            principal_name="al",
            issue_timestamp=1,
            expiry_timestamp=2,
            max_timestamp=3,
            token_id="t",
            hmac=b"h",
            renewers=[describing.DescribedDelegationTokenRenewer(principal_type="User", principal_name="bob")],
        )
        return describing.DescribeDelegationTokenResponse(tokens=[found])

    (token,) = await tokens(answer, version).describe()
    assert (token.owner, token.requester, token.renewers) == ("User:al", "User:al", ["User:bob"])


async def test_a_refusal_is_raised() -> None:
    def answer(request: Any) -> RenewDelegationTokenResponse:
        return RenewDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED, expiry_timestamp_ms=-1)

    with pytest.raises(KafkaError) as caught:
        await tokens(answer, 2).renew(b"h")
    assert caught.value.code is ErrorCode.DELEGATION_TOKEN_EXPIRED


async def test_a_principal_needs_its_kind() -> None:
    with pytest.raises(ValueError, match="User:alice"):
        await tokens(lambda request: request, 3).create(owner="alice")
