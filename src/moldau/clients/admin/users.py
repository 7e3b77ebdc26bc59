"""● Describes and changes users' SCRAM credentials.  A password never leaves this process; only the salted hash made from it does.

Source: Admin.describeUserScramCredentials, alterUserScramCredentials; KIP-554, RFC 5802.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from moldau.clients.admin.answers import error_of, raise_for
from moldau.clients.admin.limited import Limited
from moldau.clients.cluster import Cluster
from moldau.errors import ErrorCode, KafkaError
from moldau.protocol.messages import alter_user_scram_credentials as altering
from moldau.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

SALT_BYTES: Final = 24


class ScramMechanism(IntEnum):
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


DIGESTS: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    iterations: int = 8192


class UserAdmin(Limited):
    """Answers are by user; one that failed has its `KafkaError` there."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, users: Iterable[str] | None = None) -> dict[str, Mapping[ScramMechanism, int] | KafkaError]:
        """The iterations of each user's credentials, by mechanism.  `users` None: all users.  Errors: KafkaError."""
        names = None if users is None else [UserName(name=user) for user in users]
        response = await self._cluster.send(DescribeUserScramCredentialsRequest(users=names))
        raise_for(response.error_code, response.error_message)
        return {
            one.user: error_of(one.error_code, one.error_message)
            or {ScramMechanism(found.mechanism): found.iterations for found in one.credential_infos}
            for one in response.results
        }

    async def alter(
        self, set_: Sequence[ScramCredential] = (), delete: Sequence[tuple[str, ScramMechanism]] = ()
    ) -> dict[str, KafkaError | None]:
        """Set and delete credentials.  Errors: KafkaError."""
        request = altering.AlterUserScramCredentialsRequest(
            deletions=[altering.ScramCredentialDeletion(name=user, mechanism=mechanism) for user, mechanism in delete],
            upsertions=[_upsertion(one, secrets.token_bytes(SALT_BYTES)) for one in set_],
        )
        response = await self._cluster.send_to_controller(
            request, lambda answer: next((one.error_code for one in answer.results), ErrorCode.NONE)
        )
        return {one.user: error_of(one.error_code, one.error_message) for one in response.results}


def _upsertion(one: ScramCredential, salt: bytes) -> altering.ScramCredentialUpsertion:
    salted = hashlib.pbkdf2_hmac(DIGESTS[one.mechanism], one.password.encode(), salt, one.iterations)
    return altering.ScramCredentialUpsertion(
        name=one.user, mechanism=one.mechanism, iterations=one.iterations, salt=salt, salted_password=salted
    )
