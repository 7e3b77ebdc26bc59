"""● TLS of the REST API, both ends, from Kafka's `ssl.` options.  Options with the prefix `listeners.https.` come first.

Stores are PEM: Python reads no JKS and no PKCS12.

Source: RestServer, SSLUtils.
"""

import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from moldau.connect.declare.definition import Config
from moldau.connect.errors import ConfigError

PREFIX: Final = "listeners.https."
DEMANDS: Final[Mapping[str, ssl.VerifyMode]] = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_PART: Final = re.compile(r"-----BEGIN ([^-]+)-----(.*?)-----END \1-----", re.DOTALL)


class TlsOptions:
    def __init__(self, given: Config) -> None:
        own = {key: value for key, value in given.items() if key.startswith("ssl.")}
        over = {key.removeprefix(PREFIX): value for key, value in given.items() if key.startswith(f"{PREFIX}ssl.")}
        self._values = {key: value for key, value in {**own, **over}.items() if value is not None}

    def server(self) -> ssl.SSLContext:
        """Errors: ConfigError."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if not self._load_own(context):
            raise ConfigError.invalid("ssl.keystore.location", None, "https needs a certificate and its key, as PEM")
        self._load_trusted(context)
        wanted = self._values.get("ssl.client.auth", self._values.get("ssl.client.authentication", "none")).lower()
        if wanted not in DEMANDS:
            raise ConfigError.invalid("ssl.client.authentication", wanted, "Value must be one of none, requested, required")
        context.verify_mode = DEMANDS[wanted]
        return context

    def client(self) -> ssl.SSLContext:
        """For requests to other workers.  Errors: ConfigError."""
        context = ssl.create_default_context()
        self._load_own(context)
        self._load_trusted(context)
        if self._values.get("ssl.endpoint.identification.algorithm", "https") == "":
            context.check_hostname = False
        return context

    def _load_own(self, context: ssl.SSLContext) -> bool:
        """Whether there is a certificate."""
        self._check_type("ssl.keystore.type")
        password = self._values.get("ssl.key.password")
        chain, key = self._values.get("ssl.keystore.certificate.chain"), self._values.get("ssl.keystore.key")
        location = self._values.get("ssl.keystore.location")
        try:
            if chain and key:
                with tempfile.TemporaryDirectory() as folder:  # the folder is this user's alone; the library reads files only
                    path = Path(folder) / "store.pem"
                    path.write_text(_lines(key) + _lines(chain), encoding="utf-8")
                    context.load_cert_chain(path, password=password)
                return True
            if location:
                context.load_cert_chain(location, password=password)
            return bool(location)
        except (OSError, ValueError) as error:
            raise ConfigError.invalid("ssl.keystore.location", location, f"it cannot be read: {error}") from error

    def _load_trusted(self, context: ssl.SSLContext) -> None:
        self._check_type("ssl.truststore.type")
        location, inline = self._values.get("ssl.truststore.location"), self._values.get("ssl.truststore.certificates")
        if location or inline:
            try:
                context.load_verify_locations(cafile=location, cadata=None if inline is None else _lines(inline))
            except (OSError, ValueError) as error:
                raise ConfigError.invalid("ssl.truststore.location", location, f"it cannot be read: {error}") from error

    def _check_type(self, name: str) -> None:
        found = self._values.get(name, "PEM")
        if found.upper() != "PEM":
            raise ConfigError.invalid(name, found, "Python reads PEM; `openssl pkcs12 -in store.p12 -out store.pem` converts")


def _lines(text: str) -> str:
    """The PEM text in lines, as the library reads it.  In a properties file it is one line."""
    found = ((kind, re.sub(r"\s", "", body)) for kind, body in _PART.findall(text))
    parts = ((kind, "\n".join(body[at : at + 64] for at in range(0, len(body), 64))) for kind, body in found)
    return "".join(f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n" for kind, body in parts)
