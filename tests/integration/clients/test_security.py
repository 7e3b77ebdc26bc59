"""TLS and SASL against Apache Kafka: clients with good credentials get in by every mechanism, and stay in when the credentials age."""

import asyncio
import base64
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moldau import Admin, Consumer, Producer, ShareConsumer, TopicPartition
from moldau.clients.errors import AuthenticationError
from moldau.errors import ErrorCode, KafkaError
from moldau.net.sasl import Credentials, OAuthBearer, Plain, Scram
from proof.kafka.secured import PASSWORD, USER, SecuredKafka, unsecured_token

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("secured")]


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredKafka]:
    with SecuredKafka(properties={"delegation.token.secret.key": "of this test"}) as kafka:
        yield kafka


async def a_fresh_token() -> str:
    await asyncio.sleep(0)
    return unsecured_token()


CREDENTIALS: dict[str, Credentials] = {
    "PLAIN": Plain(USER, PASSWORD),
    "SCRAM-SHA-256": Scram(USER, PASSWORD, "SCRAM-SHA-256"),
    "SCRAM-SHA-512": Scram(USER, PASSWORD),
    "OAUTHBEARER": OAuthBearer(a_fresh_token),
}


async def there_and_back(bootstrap: str, topic: str, **options: Any) -> None:
    async with Producer(bootstrap, **options) as producer:
        await producer.send(topic, bytes(300_000))
    async with Consumer(bootstrap, **options) as consumer:
        await consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        async with asyncio.timeout(60):
            while not (found := await consumer.poll()):
                pass
    assert found[0].values == [bytes(300_000)]


async def test_tls(kafka: SecuredKafka) -> None:
    assert kafka.certificates is not None
    await there_and_back(kafka.tls, "tls", ssl_context=kafka.certificates.client_context())


@pytest.mark.parametrize("mechanism", CREDENTIALS)
async def test_sasl(kafka: SecuredKafka, mechanism: str) -> None:
    assert kafka.certificates is not None
    context = kafka.certificates.client_context()
    await there_and_back(kafka.sasl, mechanism.lower(), ssl_context=context, sasl=CREDENTIALS[mechanism])


async def test_tokens(kafka: SecuredKafka) -> None:
    """Our brokers issue no tokens: `test_admin_of_several` holds their answer."""
    assert kafka.certificates is not None
    secure: dict[str, Any] = {"ssl_context": kafka.certificates.client_context()}
    async with Admin(kafka.sasl, sasl=CREDENTIALS["SCRAM-SHA-512"], **secure) as admin:
        token = await admin.tokens.create(renewers=["User:bob"], max_lifetime_ms=3_600_000)
        assert (token.owner, token.requester) == (f"User:{USER}", f"User:{USER}")
        async with asyncio.timeout(60):
            while token.token_id not in {one.token_id for one in await admin.tokens.describe()}:  # noqa: ASYNC110  nothing announces it
                await asyncio.sleep(0.02)
        (described,) = await admin.tokens.describe([f"User:{USER}"])
        assert (described.hmac, list(described.renewers)) == (token.hmac, ["User:bob"])
        assert await admin.tokens.renew(token.hmac, period_ms=600_000) > described.issued_ms
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        login = Scram(token.token_id, base64.b64encode(token.hmac).decode(), mechanism, is_token=True)
        await there_and_back(kafka.sasl, f"token-{mechanism.lower()}", sasl=login, **secure)
        async with Admin(kafka.sasl, sasl=login, **secure) as admin:
            with pytest.raises(KafkaError) as caught:
                await admin.tokens.create()
            assert caught.value.code is ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED  # a token begets no token
    async with Admin(kafka.sasl, sasl=CREDENTIALS["SCRAM-SHA-512"], **secure) as admin:
        await admin.tokens.expire(token.hmac)
        with pytest.raises(KafkaError) as caught:
            await admin.tokens.renew(b"unknown")
        assert caught.value.code is ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_kafkas_own_options(kafka: SecuredKafka) -> None:
    assert kafka.certificates is not None
    quoted = PASSWORD.replace('"', '\\"')
    given = {
        "bootstrap.servers": kafka.sasl,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(kafka.certificates.authority),
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{quoted}";',
    }
    async with Producer(options=given) as producer:
        await producer.send("options", b"x")


AT_ONCE_S = 5.0
"""Far below max_block_ms and default_api_timeout_ms, which are a minute each."""

REFUSED = [Plain(USER, "wrong"), Scram(USER, "wrong"), Scram("nobody", PASSWORD), OAuthBearer("not.a.token")]


async def each_client_is_refused(bootstrap: str, why: str, **options: Any) -> None:
    """Every call that asks the cluster first is refused at once, not after the time-outs of the options."""
    partition = TopicPartition("outside", 0)
    async with asyncio.timeout(AT_ONCE_S), Producer(bootstrap, **options) as producer:
        with pytest.raises(AuthenticationError, match=why):
            await producer.send("outside", b"x")
        with pytest.raises(AuthenticationError, match=why):
            await producer.send_many("outside", [b"x"])
        with pytest.raises(AuthenticationError, match=why):
            await producer.send("another", b"x")  # a refused producer may be tried again
    async with asyncio.timeout(AT_ONCE_S):
        with pytest.raises(AuthenticationError, match=why):
            async with Producer(bootstrap, transactional_id="outside", **options):
                pass
    async with asyncio.timeout(AT_ONCE_S), Consumer(bootstrap, **options) as consumer:
        with pytest.raises(AuthenticationError, match=why):
            await consumer.end_offsets([partition])
        await consumer.assign([partition])
        with pytest.raises(AuthenticationError, match=why):
            await consumer.poll(60)
    for protocol in ("classic", "consumer"):
        async with asyncio.timeout(AT_ONCE_S):
            async with Consumer(bootstrap, group_id="outside", topics=["outside"], group_protocol=protocol, **options) as consumer:
                with pytest.raises(AuthenticationError, match=why):
                    await consumer.poll(60)
    async with asyncio.timeout(AT_ONCE_S), ShareConsumer(bootstrap, "outside", ["outside"], **options) as sharing:
        with pytest.raises(AuthenticationError, match=why):
            await sharing.poll(wait_s=60)
    async with asyncio.timeout(AT_ONCE_S), Admin(bootstrap, **options) as admin:
        with pytest.raises(AuthenticationError, match=why):
            await admin.topics.list()


@pytest.mark.parametrize("credentials", REFUSED)
async def test_credentials_that_are_refused_fail_at_once(kafka: SecuredKafka, credentials: Credentials) -> None:
    assert kafka.certificates is not None
    context = kafka.certificates.client_context()
    await each_client_is_refused(kafka.sasl, "SASL_AUTHENTICATION_FAILED", ssl_context=context, sasl=credentials)


async def test_an_authority_that_is_not_ours_fails_at_once(kafka: SecuredKafka) -> None:
    await each_client_is_refused(kafka.tls, "CERTIFICATE_VERIFY_FAILED", ssl_context=ssl.create_default_context())


def test_the_command_line_takes_a_properties_file(kafka: SecuredKafka, tmp_path: Path) -> None:
    assert kafka.certificates is not None
    settings = tmp_path / "client.properties"
    quoted = PASSWORD.replace('"', '\\\\"')
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}" password="{quoted}";'
    lines = ("security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", f"sasl.jaas.config={login}")
    lines += (f"ssl.truststore.location={kafka.certificates.authority}", "ssl.truststore.type=PEM")
    settings.write_text("\n".join(lines))
    command = [sys.executable, "-m", "moldau.tools.cli.main", "kafka-topics", "--bootstrap-server", kafka.sasl, "--list"]
    done = subprocess.run([*command, "--command-config", str(settings)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


async def test_a_session_outlives_its_credentials(kafka: SecuredKafka) -> None:
    """connections.max.reauth.ms ends a connection that does not authenticate again; our client replaces its connection before."""
    assert kafka.certificates is not None
    context = kafka.certificates.client_context()
    async with Producer(kafka.sasl, ssl_context=context, sasl=CREDENTIALS["SCRAM-SHA-512"], retries=1) as producer:
        channels = set()
        for number in range(50):
            await producer.send("long", b"%d" % number)
            channels |= {id(channel) for channel in producer.cluster._channels.values()}
            await asyncio.sleep(0.5)
        assert producer.metrics()["producer.record.retry.total"] == 0
        assert len(channels) >= 2
