"""The REST API over TLS: requests of users, and requests that workers pass on to each other, both with certificates."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import httpx
import pytest

from moldau.connect.errors import ConfigError
from moldau.connect.worker.options import parse_worker
from moldau.testing.child import HOST
from moldau.testing.process import BrokerProcess
from proof.connect.own_worker import WorkerProcess
from proof.connect.worker import worker_properties
from proof.kafka.certificates import Certificates
from tests.integration.connect.test_workers import cluster_of, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


class SecureWorker(WorkerProcess):
    context: ClassVar[ssl.SSLContext]

    def __init__(self, bootstrap: str, properties: Mapping[str, str]) -> None:
        super().__init__(bootstrap, properties=properties)
        self.properties["listeners"] = self.url

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self.port}"

    def ask(self, method: str, path: str, **more: object) -> httpx.Response:
        return httpx.request(method, self.url + path, verify=self.context, timeout=30, **more)  # type: ignore[arg-type]

    def is_ready(self) -> bool:
        try:
            return self.ask("GET", "/health").status_code == 200
        except httpx.HTTPError:
            return False


def state_of(worker: SecureWorker, name: str) -> str:
    return str(worker.ask("GET", f"/connectors/{name}/status").json()["tasks"][0]["state"])


def test_workers_speak_tls_with_users_and_with_each_other(tmp_path: Path) -> None:
    made = Certificates.make(tmp_path, HOST)
    inline = {f"listeners.https.{name}": value for name, value in made.kafka_properties().items()}
    store = tmp_path / "store.pem"
    store.write_text(made.key.read_text() + made.certificate.read_text())
    files = {"ssl.keystore.location": str(store), "ssl.truststore.location": str(made.authority)}
    demand = {"listeners.https.ssl.client.authentication": "required"}
    SecureWorker.context = made.client_context()
    SecureWorker.context.load_cert_chain(made.certificate, made.key)
    with BrokerProcess(properties={"group.min.session.timeout.ms": "1000"}) as broker:
        common = cluster_of("secure")
        with (
            SecureWorker(broker.bootstrap, {**common, **inline, **demand}) as one,
            SecureWorker(broker.bootstrap, {**common, **files, **demand}) as other,
        ):
            for number, worker in enumerate((one, other)):
                config = {"connector.class": "FileStreamSource", "topic": "t", "file": str(tmp_path / "in")}
                assert worker.ask("PUT", f"/connectors/c{number}/config", json=config).status_code == 201, "one of the two passed it on"
            until(
                lambda: all(one.ask("GET", f"/connectors/c{n}/status").json()["tasks"][0]["state"] == "RUNNING" for n in (0, 1)),
                "tasks run",
            )
            with pytest.raises(httpx.HTTPError):
                httpx.get(f"{one.url}/", verify=made.client_context())  # the client has no certificate
            with pytest.raises(httpx.HTTPError):
                httpx.get(f"http://{HOST}:{one.port}/")


def test_what_is_missing_for_https_is_named() -> None:
    properties = worker_properties("localhost:9092", 8083, {"listeners": "https://:8443"})
    for more, name in (
        ({}, "ssl.keystore.location"),
        ({"ssl.keystore.type": "JKS"}, "ssl.keystore.type"),
        ({"ssl.keystore.location": "/nowhere"}, "ssl.keystore.location"),
        ({"listeners": "ftp://:21"}, "listeners"),
    ):
        with pytest.raises(ConfigError, match=name.replace(".", r"\.")):
            parse_worker({**properties, **more})
