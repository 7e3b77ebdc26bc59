"""● Records to documents of a search index.  The key is the id, and the offset the version; a record without a value deletes its document.

Promise: at least once, and the index ends equal to the topic: a record that comes again or too late has an old version, which the index
refuses.  `index.write.method=upsert` and `key.ignore=true` with `key.ignore.id.strategy=none` have no versions: see the reference.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from moldau.connect.connectors.connector import Connector, SinkTask
from moldau.connect.connectors.search import documents
from moldau.connect.connectors.search.documents import Action
from moldau.connect.connectors.search.server import SHOWN, SearchServer
from moldau.connect.data import Record, Schema
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Config, Definition, Key, Kind
from moldau.connect.errors import ConfigError, ConnectError, DataError, RetriableError

LOG: Final = logging.getLogger(__name__)
MAX_BACKOFF_S: Final = 10.0
POLICIES: Final = ("IGNORE", "WARN", "FAIL", "REPORT")


def _maps_are_compact(name: str, value: Any) -> None:
    if value is False:
        raise ConfigError.invalid(name, value, "maps are always written as objects here")


def _options(null_values: str, method: str) -> Definition:
    return Definition(
        Key("connection.url", Kind.LIST, REQUIRED, "HIGH", "Addresses of the cluster, as http://host:9200.", check.valid_list),
        Key("connection.username", Kind.STRING, None, "MEDIUM", "The user; without it, nobody logs in."),
        Key("connection.password", Kind.PASSWORD, None, "MEDIUM", "The user's password."),
        Key("connection.timeout.ms", Kind.INT, 1000, "LOW", "How long a connection may take to be made.", check.at_least(1)),
        Key("read.timeout.ms", Kind.INT, 30_000, "LOW", "How long an answer may take.", check.at_least(1)),
        Key("batch.size", Kind.INT, 2000, "MEDIUM", "How many records one bulk request has at most.", check.at_least(1)),
        Key("bulk.size.bytes", Kind.INT, 5 << 20, "LOW", "How large a bulk request may be; one record always fits.", check.at_least(1)),
        Key("max.retries", Kind.INT, 5, "LOW", "How often a bulk request is tried again before the worker pauses.", check.at_least(0)),
        Key("retry.backoff.ms", Kind.LONG, 100, "LOW", "The first pause between tries; each is twice as long.", check.at_least(0)),
        Key("key.ignore", Kind.BOOLEAN, False, "HIGH", "Whether key.ignore.id.strategy makes ids, and not the key."),
        Key("topic.key.ignore", Kind.LIST, [], "LOW", "Topics that key.ignore=true holds for."),
        Key(
            "key.ignore.id.strategy", Kind.STRING, "topic.partition.offset", "LOW", "What the id is when keys are ignored.",
            check.one_of("none", "record.key", "topic.partition.offset"),
        ),
        Key("schema.ignore", Kind.BOOLEAN, False, "LOW", "Whether the index finds types out by itself, and not by the records' schema."),
        Key("topic.schema.ignore", Kind.LIST, [], "LOW", "Topics that schema.ignore=true holds for."),
        Key("compact.map.entries", Kind.BOOLEAN, True, "LOW", "Maps are objects; true is the only value.", _maps_are_compact),
        Key("topic.index.map", Kind.LIST, [], "LOW", "Indices of topics, each topic:index; without it, the topic in lower case."),
        Key(method, Kind.STRING, "insert", "LOW", "insert: documents as a whole; upsert: the given fields.",
            check.one_of_any_case("INSERT", "UPSERT")),
        Key("behavior.on.null.values", Kind.STRING, null_values, "LOW", "What a record with a key and without a value does.",
            check.one_of_any_case("IGNORE", "DELETE", "FAIL")),
        Key("behavior.on.malformed.documents", Kind.STRING, "fail", "LOW",
            "What becomes of records that are no documents, or that the index refuses; report: to the dead letters.",
            check.one_of_any_case(*POLICIES)),
        Key("behavior.on.version.conflict", Kind.STRING, "ignore", "LOW", "What becomes of records that the index has a later version of.",
            check.one_of_any_case(*POLICIES)),
        Key("drop.invalid.message", Kind.BOOLEAN, False, "LOW", "Whether records that are no documents are passed over."),
    )  # fmt: skip


AIVEN: Final = _options("ignore", "index.write.method")
CONFLUENT: Final = _options("fail", "write.method")


class SearchSinkTask(SinkTask):
    definition = AIVEN

    async def start(self, config: Config) -> None:
        self._options = options = self.definition.parse(config)
        self._upserts = (options.get("index.write.method") or options["write.method"]).upper() == "UPSERT"
        self._indices: dict[str, str] = {}
        for entry in options["topic.index.map"]:
            topic, colon, index = entry.partition(":")
            if not colon or not topic or not index:
                raise ConfigError.invalid("topic.index.map", entry, "topic:index is expected")
            self._indices[topic] = index
        user = options["connection.username"]
        self._server = SearchServer(
            options["connection.url"],
            user=None if user is None else (user, options["connection.password"] or ""),
            connect_s=options["connection.timeout.ms"] / 1000,
            read_s=options["read.timeout.ms"] / 1000,
        )
        self._made: set[str] = set()
        """Indices that are there, as far as this task knows."""
        self._settled: set[tuple[str, int, int]] = set()
        """Positions of records of this put that a policy has dealt with."""

    async def put(self, records: Sequence[Record]) -> None:
        actions = [one for one in map(self._action, records) if one is not None]
        for chunk in self._chunks(actions):
            await self._store(chunk)
        self._settled.clear()

    async def stop(self) -> None:
        if hasattr(self, "_server"):
            await self._server.close()

    # ------------------------------------------------------------ actions

    def _action(self, record: Record) -> Action | None:
        """None: there is nothing to do, or a policy says so.  Errors: ConnectError."""
        if documents.position_of(record) in self._settled:
            return None
        index = self._index_of(record.topic)
        try:
            return self._made_of(record, index)
        except DataError as error:
            if self._options["drop.invalid.message"]:
                LOG.warning("%s is passed over: %s", _named(record), error)
            else:
                self._treat("behavior.on.malformed.documents", record, error)
            return None

    def _made_of(self, record: Record, index: str) -> Action | None:
        ignores_key = self._options["key.ignore"] or record.topic in self._options["topic.key.ignore"]
        strategy = self._options["key.ignore.id.strategy"] if ignores_key else "record.key"
        is_keyed = strategy == "record.key"
        if record.value is None:
            behaviour = self._options["behavior.on.null.values"].upper()
            if behaviour == "IGNORE" or (behaviour == "DELETE" and not is_keyed):
                return None
            if behaviour == "FAIL":
                raise DataError("a record without a value: behavior.on.null.values=delete makes it delete, ignore passes it over")
            return documents.delete_action(record, index, documents.id_of(record), is_versioned=not self._upserts)
        if strategy == "none":
            return documents.index_action(record, index, None, is_versioned=False)
        document_id = documents.id_of(record) if is_keyed else documents.position_id(record)
        if self._upserts:
            return documents.upsert_action(record, index, document_id)
        return documents.index_action(record, index, document_id, is_versioned=is_keyed)

    def _index_of(self, topic: str) -> str:
        if topic not in self._indices:
            self._indices[topic] = documents.index_of(topic)
        return self._indices[topic]

    def _chunks(self, actions: Sequence[Action]) -> Iterator[list[Action]]:
        chunk: list[Action] = []
        size = 0
        for one in actions:
            if chunk and (len(chunk) >= self._options["batch.size"] or size + len(one.lines) > self._options["bulk.size.bytes"]):
                yield chunk
                chunk, size = [], 0
            chunk.append(one)
            size += len(one.lines)
        if chunk:
            yield chunk

    # ------------------------------------------------------------ requests

    async def _store(self, chunk: Sequence[Action]) -> None:
        """Errors: ConnectError; RetriableError after max.retries: the worker pauses, then puts all records again."""
        left = list(chunk)
        for attempt in range(self._options["max.retries"] + 1):
            try:
                await self._make_indices(left)
                left, why = self._judged(left, await self._server.bulk(left))
            except RetriableError as error:
                why = str(error)
            if not left:
                return
            if attempt < self._options["max.retries"]:
                LOG.info("%d records are stored again: %s", len(left), why)
                await asyncio.sleep(min(MAX_BACKOFF_S, self._options["retry.backoff.ms"] / 1000 * 2**attempt))
        raise RetriableError(f"{len(left)} records could not be stored: {why}")

    async def _make_indices(self, actions: Sequence[Action]) -> None:
        for one in actions:
            if one.index not in self._made and one.kind != "delete":
                await self._server.make_index(one.index, self._mapping(one.record))
                self._made.add(one.index)

    def _mapping(self, record: Record) -> dict[str, Any] | None:
        schema: Schema | None = record.value_schema
        is_ignored = self._options["schema.ignore"] or record.topic in self._options["topic.schema.ignore"]
        if is_ignored or schema is None or not schema.fields:
            return None
        return documents.mapping_of(schema)

    def _judged(self, actions: Sequence[Action], results: Sequence[dict[str, Any]]) -> tuple[list[Action], str]:
        """The actions to repeat, and why.  Errors: ConnectError."""
        again: set[int] = set()
        ids: set[str | None] = set()
        why = ""
        for number, (one, result) in enumerate(zip(actions, results, strict=True)):
            status, error = int(result["status"]), result.get("error")
            if one.id in ids:
                again.add(number)  # updates have no versions: updates of one document have to keep their order
            elif status < 300 or (status == 404 and one.kind == "delete" and error is None):
                continue
            elif status == 409:
                self._treat("behavior.on.version.conflict", one.record, ConnectError(_said(error)))
            elif status in (408, 429) or status >= 500 or (error or {}).get("type") == "index_not_found_exception":
                self._made.discard(one.index)
                again.add(number)
                why = _said(error)
                if self._upserts:
                    ids.add(one.id)
            else:
                self._treat("behavior.on.malformed.documents", one.record, DataError(_said(error)))
        return [one for number, one in enumerate(actions) if number in again], why

    def _treat(self, policy: str, record: Record, error: ConnectError) -> None:
        """Errors: ConnectError, when the policy is fail, or when it is report and no errors are tolerated."""
        chosen = self._options[policy].upper()
        if chosen == "FAIL":
            raise type(error)(f"{_named(record)}: {error}; {policy} says what becomes of it") from error
        if chosen == "REPORT":
            self.report(record, error)
        LOG.log(logging.WARNING if chosen == "WARN" else logging.DEBUG, "%s is passed over: %s", _named(record), error)
        self._settled.add(documents.position_of(record))


class ElasticsearchSinkTask(SearchSinkTask):
    definition = CONFLUENT


def _named(record: Record) -> str:
    topic, partition, offset = documents.position_of(record)
    return f"offset {offset} of {topic}-{partition}"


def _said(error: Any) -> str:
    """An error in the index's own words, with its cause."""
    found = error or {}
    cause = found.get("caused_by") or {}
    words = [str(one.get(name)) for one in (found, cause) for name in ("type", "reason") if one.get(name)]
    return ": ".join(words)[:SHOWN]


class OpenSearchSink(Connector):
    names = ("io.aiven.kafka.connect.opensearch.OpensearchSinkConnector",)
    kind = "sink"
    definition = AIVEN
    task = SearchSinkTask
    task_class = "io.aiven.kafka.connect.opensearch.OpensearchSinkTask"


class ElasticsearchSink(Connector):
    names = ("io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",)
    kind = "sink"
    definition = CONFLUENT
    task = ElasticsearchSinkTask
    task_class = "io.confluent.connect.elasticsearch.ElasticsearchSinkTask"
