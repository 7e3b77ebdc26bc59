"""● Asks a schema registry over its REST API.  Every call blocks, so it belongs into a thread.

    POST /subjects/S/versions            register a schema
    POST /subjects/S                     the id of a schema that is registered
    GET  /subjects/S/versions/latest     the newest schema
    GET  /schemas/ids/N                  the schema with this id

Source: Confluent's documentation of Schema Registry, "API Reference".
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import httpx

from moldau.connect.errors import DataError, RetriableError

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
TIMEOUT_S: Final = 10.0
SERIALIZED: Final = "?format=serialized"
"""Protobuf's schemas come as FileDescriptorProto; those of other kinds come as always."""
MOST_DEPTH: Final = 64
WORTH_ANOTHER_TRY: Final = frozenset({408, 425, 429})


class Registered(NamedTuple):
    """A schema as the registry holds it.  `kind`: AVRO, JSON or PROTOBUF, whose text is a FileDescriptorProto in base64.

    `imported`: the schemas that it refers to, each under the name of the reference, behind those that it refers to itself.
    """

    kind: str
    text: str
    imported: tuple[tuple[str, str], ...] = ()


class Client:
    """`urls` are addresses of one registry; another one is asked when one does not answer."""

    def __init__(
        self, urls: Sequence[str], *, auth: tuple[str, str] | None = None, token: str | None = None, ca: str | None = None
    ) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        headers = {"Accept": CONTENT_TYPE, "Content-Type": CONTENT_TYPE}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        verify = ca or any(url.startswith("https:") for url in self._urls)  # certificates take a while to load
        self._http = httpx.Client(auth=auth, headers=headers, timeout=TIMEOUT_S, verify=verify)

    def register(self, subject: str, schema: Registered) -> int:
        """The id.  Errors: DataError; RetriableError."""
        return int(self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", _body(schema))["id"])

    def lookup(self, subject: str, schema: Registered) -> int:
        """The id.  Errors: DataError, also when the schema is not registered; RetriableError."""
        return int(self._ask("POST", f"/subjects/{quote(subject, safe='')}", _body(schema))["id"])

    def latest(self, subject: str) -> tuple[int, Registered]:
        """Errors: DataError; RetriableError."""
        found = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest{SERIALIZED}", None)
        return int(found["id"]), self._registered(found)

    def schema(self, schema_id: int) -> Registered:
        """Errors: DataError; RetriableError."""
        return self._registered(self._ask("GET", f"/schemas/ids/{schema_id}{SERIALIZED}", None))

    def _registered(self, answer: dict[str, Any]) -> Registered:
        imported: dict[str, str] = {}
        self._follow(answer, imported, 0)
        return Registered(answer.get("schemaType") or "AVRO", str(answer["schema"]), tuple(imported.items()))

    def _follow(self, answer: dict[str, Any], imported: dict[str, str], depth: int) -> None:
        """Adds the schemas that an answer refers to.  Errors: DataError; RetriableError."""
        if depth > MOST_DEPTH:
            raise DataError("the references of a schema go in a circle")
        for one in answer.get("references") or ():
            if one["name"] not in imported:
                path = f"/subjects/{quote(one['subject'], safe='')}/versions/{one['version']}{SERIALIZED}"
                found = self._ask("GET", path, None)
                self._follow(found, imported, depth + 1)
                imported[one["name"]] = str(found["schema"])

    def _ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        failure: Exception | None = None
        for url in self._urls:
            try:
                answer = self._http.request(method, url + path, json=body)
            except httpx.HTTPError as error:
                failure = error
                continue
            if answer.is_success:
                return _json(answer)
            if answer.status_code >= 500 or answer.status_code in WORTH_ANOTHER_TRY:
                failure = RuntimeError(f"{answer.status_code} {answer.text[:300]}")
                continue
            raise DataError(f"the schema registry refuses {method} {path}: {answer.status_code} {_reason(answer)}")
        raise RetriableError(f"the schema registry does not answer {method} {path}: {failure}") from failure


def _body(schema: Registered) -> dict[str, Any]:
    return {"schema": schema.text, **({} if schema.kind == "AVRO" else {"schemaType": schema.kind})}


def _json(answer: httpx.Response) -> dict[str, Any]:
    try:
        found = answer.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DataError(f"the schema registry answers something other than a JSON object: {answer.text[:300]}")
    return found


def _reason(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:300]
