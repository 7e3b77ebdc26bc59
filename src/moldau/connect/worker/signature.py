"""◇ How workers sign their requests to each other, with the key in the config topic.  Source: InternalRequestSignature (KIP-507)."""

import base64
import binascii
import hmac
from collections.abc import Mapping
from typing import Final

from moldau.connect.errors import BadRequest, ConnectError
from moldau.connect.store.configs import ALGORITHM

SIGNATURE: Final = "x-connect-authorization"
SIGNATURE_ALGORITHM: Final = "x-connect-request-signature-algorithm"


class Forbidden(ConnectError):
    status = 403


def signed_headers(key: bytes, body: bytes) -> dict[str, str]:
    signature = base64.b64encode(hmac.digest(key, body, "sha256")).decode()
    return {SIGNATURE: signature, SIGNATURE_ALGORITHM: ALGORITHM, "content-type": "application/json"}


def require_signature(key: bytes | None, headers: Mapping[str, str], body: bytes) -> None:
    """Errors: BadRequest, Forbidden."""
    signature, algorithm = headers.get(SIGNATURE), headers.get(SIGNATURE_ALGORITHM)
    if signature is None or algorithm is None:
        raise BadRequest("Internal request missing required signature")
    if algorithm != ALGORITHM:
        raise BadRequest(f"This worker does not support the '{algorithm}' key signing algorithm used by other workers.")
    try:
        given = base64.b64decode(signature, validate=True)
    except binascii.Error:
        given = b""
    if key is None or not hmac.compare_digest(hmac.digest(key, body, "sha256"), given):
        raise Forbidden("Internal request contained invalid signature.")
