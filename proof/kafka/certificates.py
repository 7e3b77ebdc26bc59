"""● A certificate authority for one test, and a server certificate for some host names, made by `openssl`."""

import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM: the authority, a certificate that it signed, and its key without a pass phrase."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def make(cls, folder: Path, *hosts: str) -> Self:
        """Make the files.  `hosts` are the names and addresses that the certificate is for."""
        made = cls(folder / "ca.pem", folder / "server.pem", folder / "server.key")
        names = ",".join(f"IP:{host}" if host[:1].isdigit() else f"DNS:{host}" for host in hosts)
        authority_key = folder / "ca.key"
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc")
        subject = ("-days", "1", "-subj", "/CN=test authority", "-addext", "keyUsage=critical,keyCertSign")  # Python 3.13 asks for it
        _openssl("req", "-x509", *curve, "-keyout", authority_key, "-out", made.authority, *subject)
        signing = ("-CA", made.authority, "-CAkey", authority_key)
        names_of = ("-addext", f"subjectAltName={names}", "-addext", "basicConstraints=CA:FALSE")
        _openssl(
            "req",
            "-x509",
            *curve,
            "-keyout",
            made.key,
            "-out",
            made.certificate,
            "-days",
            "1",
            "-subj",
            f"/CN={hosts[0]}",
            *signing,
            *names_of,
        )
        made.key.chmod(0o600)
        return made

    def server_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context

    def client_context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))

    def kafka_properties(self) -> dict[str, str]:
        """Properties for Apache Kafka's listeners.  They hold the same certificates and key in PEM."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _one_line(self.certificate),
            "ssl.keystore.key": _one_line(self.key),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": _one_line(self.authority),
        }


def _one_line(path: Path) -> str:
    return path.read_text(encoding="ascii").strip().replace("\n", "\\n")


def _openssl(*arguments: object) -> None:
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)
