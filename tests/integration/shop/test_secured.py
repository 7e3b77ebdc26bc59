"""The shop speaks to brokers that want TLS and a password, with the properties file that Kafka's tools take."""

import asyncio
from pathlib import Path

import httpx
import pytest

from moldau.pipelines.validation.model import Line, Order
from proof.kafka.secured import PASSWORD, USER, SecuredKafka
from proof.shop.clients import ask, order_body
from proof.shop.parts import Part, Web

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("shop"), pytest.mark.timeout(300)]


async def test_an_order_goes_to_a_broker_that_wants_a_password(tmp_path: Path) -> None:
    with SecuredKafka() as kafka:
        assert kafka.certificates is not None
        quoted = PASSWORD.replace('"', '\\"')
        client = tmp_path / "client.properties"
        lines = (
            "security.protocol=SASL_SSL",
            "sasl.mechanism=SCRAM-SHA-512",
            "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
            f'username="{USER}" password="{quoted}";'.replace("\\", "\\\\"),
            f"ssl.truststore.location={kafka.certificates.authority}",
            "ssl.truststore.type=PEM",
            "acks=1",
        )
        client.write_text("\n".join(lines), encoding="utf-8")
        common = ("--command-config", str(client))
        gateway = Part(tmp_path / "gateway", "--only", "gateway", "--bootstrap-server", kafka.sasl, *common)
        with Web(tmp_path / "web", kafka.sasl, *common) as web, gateway:
            async with httpx.AsyncClient(base_url=web.url, timeout=30, trust_env=False) as http:
                answer = await ask(http, "/orders", "k", order_body(Order("n1", "7", "1", 1_700_000_000_000, (Line(7, 1, 99),), 99)))
                assert answer.status == 202
                told = await http.get(f"/orders/{answer.body['order_id']}")
                assert told.json()["state"] == "CREATED"
            assert gateway.process is not None and gateway.process.poll() is None, gateway.said
            await asyncio.to_thread(gateway.kill)
