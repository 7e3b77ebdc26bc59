"""● Lets a brought Java trust the certificate authorities that the machine trusts.

A runtime from a wheel knows only the authorities it was built with; behind a company's own authority it could fetch
nothing.  Java reads its `cacerts` in the JKS form, which is simple enough to write:

    feedfeed · version 2 · count · count × (kind 2 · alias · added at, ms · "X.509" · length · DER) · SHA-1 seal
"""

import hashlib
import re
import ssl
import struct
from collections.abc import Sequence
from pathlib import Path

USUAL_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
STORE_PASSWORD = "changeit"
SEAL_SALT = b"Mighty Aphrodite"


def machine_authorities() -> list[bytes]:
    """The authorities of the machine's bundle in DER form, or an empty list when there is no bundle."""
    bundles = [path for path in (ssl.get_default_verify_paths().cafile, *USUAL_BUNDLES) if path and Path(path).is_file()]
    if not bundles:
        return []
    return [ssl.PEM_cert_to_DER_cert(block) for block in PEM.findall(Path(bundles[0]).read_text(encoding="utf-8", errors="replace"))]


def key_store(authorities: Sequence[bytes]) -> bytes:
    """A JKS store of trusted certificates, sealed with the password that Java's own store has."""
    entries = (
        struct.pack(">i", 2) + text(f"authority-{number}") + struct.pack(">q", 0) + text("X.509") + struct.pack(">i", len(der)) + der
        for number, der in enumerate(authorities)
    )
    store = struct.pack(">Iii", 0xFEEDFEED, 2, len(authorities)) + b"".join(entries)
    return store + hashlib.sha1(STORE_PASSWORD.encode("utf-16-be") + SEAL_SALT + store).digest()


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()
