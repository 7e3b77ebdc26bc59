"""Admin's access control lists, quotas and credentials on Apache Kafka, and the removal of a group's members on both brokers."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from moldau import Admin, Consumer
from moldau.clients.admin.acls import Acl, AclFilter, AclOperation, AclPermission, AclResource, PatternType
from moldau.clients.admin.quotas import entity_of
from moldau.clients.admin.users import ScramCredential, ScramMechanism
from moldau.errors import ErrorCode, KafkaError
from moldau.testing.embedded import EmbeddedBroker
from proof.kafka.apache import ApacheKafka

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("admin-security")]

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    with ApacheKafka(properties=AUTHORIZER) as kafka:
        yield kafka


async def all_of(admin: Admin) -> set[Acl]:
    return set(await admin.acls.list())


async def told(ask: Callable[[], Awaitable[Any]], wanted: object) -> None:
    """Asks until the answer is `wanted`: a broker replays the controller's records a moment after the change was acknowledged."""
    async with asyncio.timeout(60):
        while await ask() != wanted:  # noqa: ASYNC110  nothing announces the change
            await asyncio.sleep(0.02)


async def test_acls(kafka: ApacheKafka) -> None:
    reads = Acl(AclResource.TOPIC, "orders", "User:alice", AclOperation.READ)
    denied = Acl(AclResource.GROUP, "b", "User:bob", AclOperation.ALL, AclPermission.DENY, "10.0.0.1", PatternType.PREFIXED)
    wrong = Acl(AclResource.TOPIC, "orders", "alice", AclOperation.READ)
    async with Admin(kafka.bootstrap) as admin:
        answers = await admin.acls.create([reads, denied, wrong])
        assert answers[reads] is answers[denied] is None
        error = answers[wrong]
        assert error is not None
        assert error.code is ErrorCode.INVALID_REQUEST
        await told(lambda: all_of(admin), {reads, denied})
        of_bob = AclFilter(principal="User:bob")
        assert list(await admin.acls.list(of_bob)) == [denied]
        assert await admin.acls.delete([of_bob]) == {of_bob: [denied]}
        await told(lambda: all_of(admin), {reads})


async def test_quotas(kafka: ApacheKafka) -> None:
    alice, everyone = entity_of(user="alice", client_id="c"), entity_of(user=None)
    async with Admin(kafka.bootstrap) as admin:
        answers = await admin.quotas.alter({alice: {"producer_byte_rate": 1000.0}, everyone: {"consumer_byte_rate": 5.0, "nosuch": 1.0}})
        assert answers[alice] is None
        assert isinstance(answers[everyone], KafkaError)
        await told(admin.quotas.describe, {alice: {"producer_byte_rate": 1000.0}})
        assert await admin.quotas.describe(entity_of(user="alice"), strict=True) == {}
        await admin.quotas.alter({alice: {"producer_byte_rate": None}})
        await told(admin.quotas.describe, {})


async def test_credentials(kafka: ApacheKafka) -> None:
    async with Admin(kafka.bootstrap) as admin:
        credential = ScramCredential("alice", "secret", ScramMechanism.SCRAM_SHA_256, 4096)
        assert "secret" not in repr(credential)
        assert await admin.users.alter([credential]) == {"alice": None}
        await told(admin.users.describe, {"alice": {ScramMechanism.SCRAM_SHA_256: 4096}})
        await admin.users.alter(delete=[("alice", ScramMechanism.SCRAM_SHA_256)])
        await told(lambda: admin.users.describe(["alice"]), {"alice": AnyError(ErrorCode.RESOURCE_NOT_FOUND)})


@pytest.mark.parametrize("whose", ["ours", "theirs"])
async def test_members_are_removed(kafka: ApacheKafka, moldau_broker: EmbeddedBroker, whose: str) -> None:
    bootstrap = kafka.bootstrap if whose == "theirs" else moldau_broker.bootstrap_servers
    given: dict[str, Any] = {"group_id": "static", "group_instance_id": "one", "topics": ["removed"]}
    async with Admin(bootstrap) as admin, Consumer(bootstrap, **given) as consumer:
        async with asyncio.timeout(60):
            while not consumer.positions:
                await consumer.poll(0.2)
        removed = await admin.groups.remove_members("static", ["one", "two"])
        assert removed == {"one": None, "two": AnyError(ErrorCode.UNKNOWN_MEMBER_ID)}
        assert await admin.groups.remove_members("static") == {}


class AnyError:
    """Equal to every error of its code."""

    def __init__(self, code: ErrorCode) -> None:
        self.code = code

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KafkaError) and other.code is self.code

    __hash__ = None  # type: ignore[assignment]
