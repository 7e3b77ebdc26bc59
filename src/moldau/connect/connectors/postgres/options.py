"""◇ The options of the PostgreSQL connector, under Debezium's names."""

import re
from typing import Any, Final

from moldau.connect.connectors.postgres.modes import OPTIONS as MODES
from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Definition, Key, Kind
from moldau.connect.errors import ConfigError

OPERATIONS: Final = ("c", "u", "d", "t")


def _patterns(name: str, value: Any) -> None:
    for one in value or []:
        try:
            re.compile(one)
        except re.error as error:
            raise ConfigError.invalid(name, value, f"Invalid regex {one}: {error}") from error


def _operations(name: str, value: Any) -> None:
    if value is not None and value != ["none"] and not set(value) <= set(OPERATIONS):
        raise ConfigError.invalid(name, value, "A list of c, u, d and t, or none")


def _chooses(kind: str, what: str, importance: str) -> tuple[Key, Key]:
    doc = f"Regular expressions of {what}; "
    return (
        Key(f"{kind}.include.list", Kind.LIST, [], importance, f"{doc}without it, all.", _patterns),
        Key(f"{kind}.exclude.list", Kind.LIST, [], importance, f"{doc}those that match are left out.", _patterns),
    )


OPTIONS: Final = (
    Definition(
        Key("database.hostname", Kind.STRING, REQUIRED, "HIGH", "The server's host, or the folder of its socket."),
        Key("database.port", Kind.INT, 5432, "HIGH", "The server's port."),
        Key("database.user", Kind.STRING, REQUIRED, "HIGH", "The user, who needs REPLICATION."),
        Key("database.password", Kind.PASSWORD, None, "HIGH", "The user's password."),
        Key("database.dbname", Kind.STRING, REQUIRED, "HIGH", "The database."),
        Key(
            "database.sslmode", Kind.STRING, "prefer", "MEDIUM", "Whether the connection is encrypted, and the server's name is checked.",
            check.one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
        ),
        Key("topic.prefix", Kind.STRING, REQUIRED, "HIGH", "Topics are this, the schema and the table, with dots.", check.non_empty),
        *_chooses("schema", "schemas", "MEDIUM"),
        *_chooses("table", "schema.table", "HIGH"),
        *_chooses("column", "schema.table.column", "MEDIUM"),
        Key("slot.name", Kind.STRING, "debezium", "MEDIUM", "The replication slot; made when it is not there."),
        Key("publication.name", Kind.STRING, "dbz_publication", "MEDIUM", "The publication."),
        Key(
            "publication.autocreate.mode", Kind.STRING, "filtered", "MEDIUM",
            "How the publication is made when it is not there: for the included tables, which are also added later; for all tables; not.",
            check.one_of("filtered", "all_tables", "disabled"),
        ),
        Key(
            "message.key.columns", Kind.STRING, None, "MEDIUM", "Not offered.",
            check.not_offered("keys are those of the tables; the transform ValueToKey makes others"),
        ),
        Key("plugin.name", Kind.STRING, "pgoutput", "MEDIUM", "pgoutput, the plug-in that PostgreSQL has.", check.one_of("pgoutput")),
        Key(
            "snapshot.mode", Kind.STRING, "initial", "MEDIUM", "Whether rows that are there come first.",
            check.one_of("initial", "no_data", "never"),
        ),
        Key("tombstones.on.delete", Kind.BOOLEAN, True, "MEDIUM", "Whether a record without a value follows a deletion."),
        Key("skipped.operations", Kind.LIST, ["t"], "LOW", "Operations that are not told: c, u, d, t; or none.", _operations),
        Key("max.batch.size", Kind.INT, 2048, "MEDIUM", "How many messages one poll takes.", check.at_least(1)),
        Key("extended.headers.enabled", Kind.BOOLEAN, True, "LOW", "Whether records have headers with the connector's name."),
        Key(
            "heartbeat.interval.ms", Kind.INT, 0, "MEDIUM", "How often a record tells how far the log was read; 0: never.",
            check.at_least(0),
        ),
        Key(
            "heartbeat.topics.prefix", Kind.STRING, "__debezium-heartbeat", "LOW",
            "Before the dot and topic.prefix: the topic of heartbeats.",
        ),
        Key("heartbeat.action.query", Kind.STRING, None, "LOW", "A statement that is run with each heartbeat."),
        Key("poll.interval.ms", Kind.INT, 500, "MEDIUM", "How long to wait when there was nothing.", check.at_least(1)),
    )
    + MODES
)  # fmt: skip
