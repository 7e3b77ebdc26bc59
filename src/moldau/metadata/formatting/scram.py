"""◇ SCRAM credentials from the argument of `storage format --add-scram`.

    SCRAM-SHA-256=[name=alice,password=alice-secret]
    SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]

Source: ScramParser.java, ScramFormatter.java; RFC 5802, KIP-84, 900.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable
from typing import Final, NamedTuple

from moldau.metadata.records import UserScramCredentialRecord

DEFAULT_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384


class Mechanism(NamedTuple):
    number: int
    hash_name: str


MECHANISMS: Final = {"SCRAM-SHA-256": Mechanism(1, "sha256"), "SCRAM-SHA-512": Mechanism(2, "sha512")}


class ScramSyntax(ValueError):
    """The error in the argument, in one line."""


def parse_scram(argument: str, new_salt: Callable[[], bytes]) -> UserScramCredentialRecord:
    """Errors: ScramSyntax."""
    name, equals, settings = argument.strip().partition("=")
    if not equals:
        raise ScramSyntax(f"Failed to find equals sign in SCRAM argument '{argument}'")
    mechanism = MECHANISMS.get(name)
    if mechanism is None:
        raise ScramSyntax(f"The add-scram mechanism {name} is not supported.")
    if not settings.startswith("["):
        raise ScramSyntax("Expected configuration string to start with [")
    if not settings.endswith("]"):
        raise ScramSyntax("Expected configuration string to end with ]")
    given = dict(map(_component, settings[1:-1].split(",")))
    user = given.pop("name", None)
    if user is None:
        raise ScramSyntax("You must supply 'name' to add-scram")
    salt = _decoded("salt", given.pop("salt")) if "salt" in given else None
    iterations = _iterations(given.pop("iterations", str(DEFAULT_ITERATIONS)), name)
    password, salted_text = given.pop("password", None), given.pop("saltedpassword", None)
    if given:
        raise ScramSyntax(f"Unknown SCRAM configurations: {', '.join(sorted(given))}")
    if password is not None:
        salt = new_salt() if salt is None else salt
        salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode("utf-8"), salt, iterations)
    elif salted_text is None:
        raise ScramSyntax("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif salt is None:
        raise ScramSyntax("You must supply 'salt' with 'saltedpassword' to add-scram")
    else:
        salted = _decoded("saltedPassword", salted_text)
    return credential(user, mechanism, salt, salted, iterations)


def credential(user: str, mechanism: Mechanism, salt: bytes, salted_password: bytes, iterations: int) -> UserScramCredentialRecord:
    """The credential that is stored.  It is enough to check a password, and not enough to log in elsewhere."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.hash_name)
    return UserScramCredentialRecord(
        name=user,
        mechanism=mechanism.number,
        salt=salt,
        stored_key=hashlib.new(mechanism.hash_name, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", mechanism.hash_name),
        iterations=iterations,
    )


def _component(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ScramSyntax(f"No equals sign found in SCRAM component: {text}")
    if len(value) >= 2 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return key, value


def _decoded(what: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ScramSyntax(f"Failed to decode given {what}: {text}") from None


def _iterations(text: str, mechanism: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise ScramSyntax(f"Failed to parse iterations count: {text}")
    iterations = int(text)
    if iterations < DEFAULT_ITERATIONS:
        raise ScramSyntax(f"The 'iterations' value must be >= {DEFAULT_ITERATIONS} for add-scram using {mechanism}")
    if iterations > MAX_ITERATIONS:
        raise ScramSyntax(f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {mechanism}")
    return iterations
