"""● Asks an HTTP server again and again.  Its answer is a list of objects, or one object; each object is a record.

    url                                https://host/orders?after=${offset}
    http.response.data.json.pointer    /items        where the list is in the answer
    http.offset.json.pointer           /id           where an object's own offset is

The next request has the last object's offset in place of `${offset}`.  If a list repeats that object, only the objects behind it are taken.
Promise: a record is written as often as the server tells it.  The connector itself writes each record that it is told at least once; with
exactly.once.source.support=enabled in the worker, once.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import httpx

from moldau.connect import data
from moldau.connect.connectors.connector import Connector, OffsetReader, SourceTask
from moldau.connect.connectors.http import AGAIN, SHOWN
from moldau.connect.data import Record
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.errors import ConfigError, ConnectError, DataError, RetriableError

OFFSET: Final = "${offset}"
OPTIONS: Final = Definition(
    Key("url", Kind.STRING, REQUIRED, "HIGH", "What is asked, with ${offset} where the last offset goes.", check.non_empty),
    Key("topic", Kind.STRING, REQUIRED, "HIGH", "The topic that records go to.", check.non_empty),
    Key("http.headers", Kind.LIST, [], "MEDIUM", "Headers of every request, each Name:value."),
    Key("http.initial.offset", Kind.STRING, "", "MEDIUM", "What ${offset} is in the first request."),
    Key("http.response.data.json.pointer", Kind.STRING, "", "MEDIUM", "Where the records are in the answer (RFC 6901)."),
    Key("http.offset.json.pointer", Kind.STRING, None, "MEDIUM", "Where a record's offset is in it."),
    Key("http.key.json.pointer", Kind.STRING, None, "MEDIUM", "Where a record's key is in it."),
    Key("request.interval.ms", Kind.INT, 15_000, "MEDIUM", "How long to wait between two requests.", check.at_least(1)),
    Key("http.timeout.ms", Kind.INT, 30_000, "MEDIUM", "How long an answer may take.", check.at_least(1)),
)


class HttpSourceTask(SourceTask):
    async def start(self, config: Config, offsets: OffsetReader) -> None:
        self._options = options = OPTIONS.parse(config)
        if OFFSET in options["url"] and options["http.offset.json.pointer"] is None:
            raise ConfigError.invalid("http.offset.json.pointer", None, "url has ${offset}: say where it is in a record")
        headers: dict[str, str] = {}
        for entry in options["http.headers"]:
            name, colon, value = entry.partition(":")
            if not colon:
                raise ConfigError.invalid("http.headers", entry, "Name:value is expected")
            headers[name.strip()] = value.strip()
        self._client = httpx.AsyncClient(headers=headers, timeout=options["http.timeout.ms"] / 1000, follow_redirects=True)
        self._partition = {"url": options["url"]}
        found = offsets.offset(self._partition) or {}
        self._offset: Any = found.get("offset")
        self._etag: str | None = found.get("etag")
        self._next_at = 0.0

    async def poll(self) -> Sequence[Record]:
        """Errors: ConnectError, RetriableError."""
        loop = asyncio.get_running_loop()
        if (left := self._next_at - loop.time()) > 0:
            await asyncio.sleep(min(left, 0.5))
            if self._next_at > loop.time():
                return []
        answer = await self._asked()
        found = [] if answer is None else self._records(answer)
        if not found or OFFSET not in self._options["url"]:
            self._next_at = loop.time() + self._options["request.interval.ms"] / 1000
        return found

    async def _asked(self) -> httpx.Response | None:
        """None: nothing has changed since the last answer."""
        shown = self._options["http.initial.offset"] if self._offset is None else str(self._offset)
        url = self._options["url"].replace(OFFSET, quote(shown, safe=""))
        headers = {"if-none-match": self._etag} if self._etag and OFFSET not in self._options["url"] else {}
        try:
            answer = await self._client.get(url, headers=headers)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise ConfigError.invalid("url", url, str(error)) from error
        except httpx.HTTPError as error:
            raise RetriableError(f"{url} cannot be asked: {str(error) or type(error).__name__}") from error
        if answer.status_code in AGAIN or answer.status_code >= 500:
            raise RetriableError(f"{url} answers {answer.status_code}")
        if answer.status_code in (204, 304):
            return None
        if not answer.is_success:
            raise ConnectError(f"{url} refuses: {answer.status_code} {answer.text[:SHOWN]}")
        return answer

    def _records(self, answer: httpx.Response) -> list[Record]:
        """Errors: DataError."""
        try:
            found = pointed(json.loads(answer.content), self._options["http.response.data.json.pointer"])
        except ValueError as error:
            raise DataError(f"the answer of {answer.url} is no JSON: {error}") from error
        items = found if isinstance(found, list) else [found]
        where, key = self._options["http.offset.json.pointer"], self._options["http.key.json.pointer"]
        offsets = [None if where is None else pointed(one, where) for one in items]
        start = len(offsets) - offsets[::-1].index(self._offset) if self._offset is not None and self._offset in offsets else 0
        self._etag = answer.headers.get("etag")
        records = []
        for one, offset in list(zip(items, offsets, strict=True))[start:]:
            self._offset = offset
            known = {"offset": offset} if where is not None else {"etag": self._etag}
            own_key = None if key is None else str(pointed(one, key))
            records.append(
                Record(
                    self._options["topic"], None, None if own_key is None else data.STRING, own_key, None, one,
                    source_partition=self._partition, source_offset=known,
                )
            )  # fmt: skip
        return records

    async def stop(self) -> None:
        if hasattr(self, "_client"):
            await self._client.aclose()


def pointed(found: Any, pointer: str) -> Any:
    """The value at a JSON pointer (RFC 6901).  Errors: DataError."""
    for raw in pointer.split("/")[1:] if pointer else []:
        name = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise DataError(f"there is no {pointer} in {json.dumps(found)[:SHOWN]}")
    return found


class HttpSource(Connector):
    names = ("moldau.connect.HttpSourceConnector",)
    kind = "source"
    definition = OPTIONS
    task = HttpSourceTask
    task_class = "moldau.connect.HttpSourceTask"
