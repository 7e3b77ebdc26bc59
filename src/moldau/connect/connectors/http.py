"""● Values to an HTTP server, one request each, in the order of their partition.

An answer of 2xx takes the record; 408, 429, 5xx and a broken connection are tried again; any other answer fails the task, or the record
alone where errors.tolerance allows it.
Promise: at least once.  The header `Idempotency-Key` holds topic-partition-offset, so that the server can recognise a repetition.
"""

from collections.abc import Sequence
from typing import Any, Final

import httpx

from moldau.connect.connectors.connector import Connector, SinkTask
from moldau.connect.converters.json_converter import JsonConverter
from moldau.connect.data import Record
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.errors import ConfigError, ConnectError, RetriableError

OPTIONS: Final = Definition(
    Key(
        "http.url", Kind.STRING, REQUIRED, "HIGH", "Where values go, as https://host/path.", check.non_empty, other_names=("http.api.url",)
    ),
    Key(
        "http.method", Kind.STRING, "POST", "MEDIUM", "The method.", check.one_of_any_case("POST", "PUT", "PATCH"),
        other_names=("request.method",),
    ),
    Key("http.headers", Kind.LIST, [], "MEDIUM", "Headers of every request, each Name:value."),
    Key("headers", Kind.STRING, "", "MEDIUM", "The same, with header.separator between them."),
    Key("header.separator", Kind.STRING, "|", "LOW", "What divides headers."),
    Key("auth.type", Kind.STRING, "NONE", "MEDIUM", "BASIC: user and password.", check.one_of_any_case("NONE", "BASIC")),
    Key("connection.user", Kind.STRING, "", "MEDIUM", "The user."),
    Key("connection.password", Kind.PASSWORD, "", "MEDIUM", "The user's password."),
    Key("http.timeout.ms", Kind.INT, 30_000, "MEDIUM", "How long an answer may take.", check.at_least(1)),
)  # fmt: skip
AGAIN: Final = {408, 425, 429}
SHOWN: Final = 200


class HttpSinkTask(SinkTask):
    async def start(self, config: Config) -> None:
        options = OPTIONS.parse(config)
        self._url, self._method = options["http.url"], options["http.method"].upper()
        headers: dict[str, str] = {}
        more = [one for one in options["headers"].split(options["header.separator"]) if one.strip()]
        for entry in [*options["http.headers"], *more]:
            name, colon, value = entry.partition(":")
            if not colon:
                raise ConfigError.invalid("http.headers", entry, "Name:value is expected")
            headers[name.strip()] = value.strip()
        auth = (options["connection.user"], options["connection.password"]) if options["auth.type"].upper() == "BASIC" else None
        self._client = httpx.AsyncClient(headers=headers, timeout=options["http.timeout.ms"] / 1000, auth=auth)
        self._json = JsonConverter(schemas_enable=False)
        self._taken: set[tuple[str, int, int]] = set()
        """The records of this `put` that the server took; they are left out when the records come again."""

    async def put(self, records: Sequence[Record]) -> None:
        """Errors: ConnectError; RetriableError: the records come again."""
        for record in records:
            position = record.position or (record.topic, record.partition or 0, record.offset or 0)
            if record.value is None or position in self._taken:
                continue
            topic, partition, offset = position
            body, kind = self._body(record)
            headers = {"content-type": kind, "idempotency-key": f"{topic}-{partition}-{offset}"}
            try:
                answer = await self._client.request(self._method, self._url, content=body, headers=headers)
            except httpx.InvalidURL as error:
                raise ConfigError.invalid("http.url", self._url, str(error)) from error
            except httpx.UnsupportedProtocol as error:
                raise ConfigError.invalid("http.url", self._url, str(error)) from error
            except httpx.HTTPError as error:
                raise RetriableError(f"{self._url} cannot be asked: {str(error) or type(error).__name__}") from error
            if answer.status_code in AGAIN or answer.status_code >= 500:
                raise RetriableError(f"{self._url} answers {answer.status_code}")
            if not answer.is_success:
                text = f"{self._url} refuses offset {offset} of {topic}: {answer.status_code} {answer.text[:SHOWN]}"
                self.report(record, ConnectError(text))
            self._taken.add(position)
        self._taken.clear()

    def _body(self, record: Record) -> tuple[bytes, str]:
        value: Any = record.value
        if isinstance(value, bytes):
            return value, "application/octet-stream"
        if isinstance(value, str):
            return value.encode(), "text/plain; charset=utf-8"
        return self._json.to_bytes(record.topic, record.value_schema, value) or b"null", "application/json"

    async def stop(self) -> None:
        if hasattr(self, "_client"):
            await self._client.aclose()


class HttpSink(Connector):
    names = ("io.confluent.connect.http.HttpSinkConnector",)
    kind = "sink"
    definition = OPTIONS
    task = HttpSinkTask
    task_class = "io.confluent.connect.http.HttpSinkTask"
