"""● Apache Kafka with secured listeners: TLS, and SASL over TLS with every mechanism that our client speaks."""

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moldau.testing.child import HOST, free_ports
from proof.kafka.apache import ApacheKafka, Tool
from proof.kafka.certificates import Certificates

USER: Final = "alice"
PASSWORD: Final = 'quite "secret"'
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_MODULES: Final = "org.apache.kafka.common.security"


class SecuredKafka(ApacheKafka):
    """A broker with PLAINTEXT at `bootstrap`, TLS at `tls` and SASL over TLS at `sasl`, all for the user `USER`."""

    def __init__(self, *, properties: Mapping[str, str] | None = None, directory: Path | None = None) -> None:
        super().__init__(properties=properties, directory=directory)
        self.tls_port, self.sasl_port = free_ports(2)
        self.certificates: Certificates | None = None

    @property
    def tls(self) -> str:
        return f"{HOST}:{self.tls_port}"

    @property
    def sasl(self) -> str:
        return f"{HOST}:{self.sasl_port}"

    def prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        if self.certificates is None:
            self.certificates = Certificates.make(self.directory, HOST)
        super().prepare()

    def start(self) -> None:
        super().start()
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            change = f"{mechanism}=[iterations=4096,password={PASSWORD}]"
            self.tool(Tool.CONFIGS, "--alter", "--entity-type", "users", "--entity-name", USER, "--add-config", change)

    def server_properties(self) -> dict[str, str]:
        assert self.certificates is not None
        plain = super().server_properties()
        quoted = PASSWORD.replace('"', '\\\\"')
        listener = "listener.name.sasl_ssl"
        return {
            **plain,
            "listeners": f"{plain['listeners']},SSL://{self.tls},SASL_SSL://{self.sasl}",
            "advertised.listeners": f"{plain['advertised.listeners']},SSL://{self.tls},SASL_SSL://{self.sasl}",
            "listener.security.protocol.map": f"{plain['listener.security.protocol.map']},SSL:SSL,SASL_SSL:SASL_SSL",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "connections.max.reauth.ms": "20000",
            f"{listener}.plain.sasl.jaas.config": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{quoted}";',
            f"{listener}.scram-sha-256.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
            f"{listener}.scram-sha-512.sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required;",
            f"{listener}.oauthbearer.sasl.jaas.config": (
                f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="{USER}";'
            ),
            **self.certificates.kafka_properties(),
        }


def unsecured_token(user: str = USER, *, lives_s: float = 3600) -> str:
    """A token that Kafka accepts unless it is told to look at signatures."""
    now = time.time()
    parts = ({"alg": "none"}, {"sub": user, "iat": now, "exp": now + lives_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."
