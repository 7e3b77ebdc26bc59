"""◇ Options of the converters whose schemas are in a registry, and the parts that are made of them."""

import importlib.util
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Key, Kind
from moldau.connect.declare.validators import Check
from moldau.connect.errors import ConfigError
from moldau.connect.registry.cache import Schemas
from moldau.connect.registry.client import Client
from moldau.connect.registry.subjects import STRATEGIES, Subject, subject_of

URL: Final = "schema.registry.url"


def _urls(name: str, value: Any) -> None:
    for one in value or []:
        if not one.startswith(("http://", "https://")):
            raise ConfigError.invalid(name, value, "An address of a schema registry begins with http:// or https://")
    if value is not None and not value:
        raise ConfigError.invalid(name, value, "At least one address of a schema registry is needed")


def _urls_and(module: str, kind: str) -> Check:
    def checked(name: str, value: Any) -> None:
        if not _is_installed(module):
            raise ConfigError.invalid(name, value, f'The {kind} converter needs the package {module}: pip install "moldau[registry]"')
        _urls(name, value)

    return checked


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package above it is not there
        return False


def _strategy(kind: str) -> Key:
    doc = f"What names the subject of a {kind}'s schema."
    return Key(f"{kind}.subject.name.strategy", Kind.STRING, STRATEGIES[0], "LOW", doc, check.one_of(*STRATEGIES))


def registry_keys(needs: tuple[str, str] | None = None) -> tuple[Key, ...]:
    """`needs`: the Python module that the converter needs, and the converter's kind."""
    return (
        Key(
            URL, Kind.LIST, REQUIRED, "HIGH", "Addresses of the schema registry; another one is asked when one does not answer.",
            _urls if needs is None else _urls_and(*needs),
        ),
        Key("auto.register.schemas", Kind.BOOLEAN, True, "MEDIUM", "Whether new schemas are registered; otherwise they have to be there."),
        Key("use.latest.version", Kind.BOOLEAN, False, "LOW", "Whether values are written with the newest schema of their subject."),
        Key(
            "basic.auth.credentials.source", Kind.STRING, "URL", "MEDIUM", "Where the user and the password are.",
            check.one_of("URL", "USER_INFO"),
        ),
        Key("basic.auth.user.info", Kind.PASSWORD, None, "MEDIUM", "user:password, for USER_INFO."),
        Key("schema.registry.basic.auth.user.info", Kind.PASSWORD, None, "MEDIUM", "The older name of basic.auth.user.info."),
        Key("bearer.auth.token", Kind.PASSWORD, None, "MEDIUM", "A token that is sent in place of a user."),
        Key("schema.registry.ssl.truststore.location", Kind.STRING, None, "MEDIUM", "A PEM file of authorities for https."),
        _strategy("key"),
        _strategy("value"),
    )  # fmt: skip


def schemas_of(options: dict[str, Any]) -> Schemas:
    """Errors: ConfigError."""
    urls = [urlsplit(one) for one in options[URL]]
    user, password = urls[0].username, urls[0].password
    auth = (unquote(user), unquote(password or "")) if user else None
    if options["basic.auth.credentials.source"] == "USER_INFO":
        given = options["basic.auth.user.info"] or options["schema.registry.basic.auth.user.info"] or ""
        name, colon, secret = given.partition(":")
        if not colon:
            raise ConfigError("basic.auth.user.info has to be user:password when basic.auth.credentials.source is USER_INFO")
        auth = name, secret
    plain = [urlunsplit(one._replace(netloc=one.netloc.rpartition("@")[2])) for one in urls]
    ca = options["schema.registry.ssl.truststore.location"]
    client = Client(plain, auth=auth, token=options["bearer.auth.token"], ca=ca)
    return Schemas(client, registers=options["auto.register.schemas"], uses_latest=options["use.latest.version"])


def strategy_of(options: dict[str, Any]) -> Subject:
    is_key = options["converter.type"] == "key"
    return subject_of(options[f"{'key' if is_key else 'value'}.subject.name.strategy"], is_key=is_key)
