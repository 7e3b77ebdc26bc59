"""◇ The options that every connector has.  Source: ConnectorConfig, SourceConnectorConfig, SinkConnectorConfig."""

from typing import Final

from moldau.connect.declare import validators as check
from moldau.connect.declare.definition import REQUIRED, Definition, Key, Kind

COMMON: Final = "Common"
ERRORS: Final = "Error Handling"
ONCE: Final = "Exactly Once Support"
BASE_GROUPS: Final = (COMMON, "Transforms", "Predicates", ERRORS)
SOURCE_GROUPS: Final = (*BASE_GROUPS, "Topic Creation", ONCE, "offsets.topic")

_IDENTITY: Final = (
    Key(
        "name",
        Kind.STRING,
        REQUIRED,
        "HIGH",
        "The connector's name, unique in its cluster.",
        check.connector_name,
        COMMON,
        1,
        "MEDIUM",
        "Connector name",
    ),
    Key(
        "connector.class",
        Kind.STRING,
        REQUIRED,
        "HIGH",
        "The connector's class, whole, or its last part with or without Connector.",
        None,
        COMMON,
        2,
        "LONG",
        "Connector class",
    ),
)
_TASKS: Final = (
    Key(
        "tasks.max",
        Kind.INT,
        1,
        "HIGH",
        "How many tasks the connector may run at once.",
        check.at_least(1),
        COMMON,
        4,
        "SHORT",
        "Tasks max",
    ),
    Key(
        "tasks.max.enforce",
        Kind.BOOLEAN,
        True,
        "LOW",
        "A connector that makes more tasks than tasks.max fails.",
        None,
        COMMON,
        5,
        "SHORT",
        "Enforce tasks max",
    ),
)
_CHAIN: Final = (
    Key(
        "transforms",
        Kind.LIST,
        [],
        "LOW",
        "Names of the transforms that each record goes through, in order.",
        check.unique_aliases,
        "Transforms",
        12,
        "LONG",
        "Transforms",
    ),
    Key(
        "predicates",
        Kind.LIST,
        [],
        "LOW",
        "Names of the predicates that transforms refer to.",
        check.unique_aliases,
        "Predicates",
        13,
        "LONG",
        "Predicates",
    ),
)
_RELOAD: Final = Key(
    "config.action.reload",
    Kind.STRING,
    "restart",
    "LOW",
    "What happens when a secret of the configuration changes.",
    check.one_of("none", "restart"),
    COMMON,
    14,
    "MEDIUM",
    "Reload Action",
)
_ERROR_HANDLING: Final = (
    Key(
        "errors.retry.timeout",
        Kind.LONG,
        0,
        "MEDIUM",
        "How many milliseconds a failed operation is tried again; -1: without end.",
        None,
        ERRORS,
        1,
        "MEDIUM",
        "Retry Timeout for Errors",
    ),
    Key(
        "errors.retry.delay.max.ms",
        Kind.LONG,
        60_000,
        "MEDIUM",
        "The longest time between two tries.",
        None,
        ERRORS,
        2,
        "MEDIUM",
        "Maximum Delay Between Retries for Errors",
    ),
    Key(
        "errors.tolerance",
        Kind.STRING,
        "none",
        "MEDIUM",
        "none: a bad record ends the task; all: bad records are passed over.",
        check.one_of("none", "all"),
        ERRORS,
        3,
        "SHORT",
        "Error Tolerance",
    ),
    Key(
        "errors.log.enable",
        Kind.BOOLEAN,
        False,
        "MEDIUM",
        "Whether bad records are written to the log, too.",
        None,
        ERRORS,
        4,
        "SHORT",
        "Log Errors",
    ),
    Key(
        "errors.log.include.messages",
        Kind.BOOLEAN,
        False,
        "MEDIUM",
        "Whether the log names the record's topic, partition and offset.",
        None,
        ERRORS,
        5,
        "SHORT",
        "Log Error Details",
    ),
)


def common(
    version: str | None, converters: tuple[str, ...], header_converters: tuple[str, ...], defaults: tuple[str | None, ...]
) -> Definition:
    """`version`: the default of the options for versions; `defaults`: the worker's converters of keys, values and headers, or None."""
    key_default, value_default, header_default = defaults
    return Definition(
        *_IDENTITY,
        _version("connector.plugin.version", "Connector version", 3, version, "connector", importance="MEDIUM", width="MEDIUM"),
        *_TASKS,
        *_converter("key", key_default, version, 6, converters),
        *_converter("value", value_default, version, 8, converters),
        *_converter("header", header_default, version, 10, header_converters),
        *_CHAIN,
        _RELOAD,
        *_ERROR_HANDLING,
    )


def _converter(of: str, default: str | None, version: str | None, order: int, choices: tuple[str, ...]) -> tuple[Key, Key]:
    doc = f"Translates {of}s between Connect's data and bytes; the worker's converter without it."
    name, display = f"{of}.converter", f"{of.capitalize()} converter"
    return (
        Key(name, Kind.CLASS, default, "LOW", doc, None, COMMON, order, "SHORT", f"{display} class", choices),
        _version(f"{name}.plugin.version", f"{display} version", order + 1, version if default else None, f"{of} converter"),
    )


def _version(name: str, display: str, order: int, default: str | None, of: str, *, importance: str = "LOW", width: str = "SHORT") -> Key:
    recommended = () if default is None else (default,)
    return Key(
        name, Kind.STRING, default, importance, f"Which version of the {of}; one is here.", None, COMMON, order, width, display, recommended
    )


SOURCE: Final = Definition(
    Key(
        "topic.creation.groups",
        Kind.LIST,
        [],
        "LOW",
        "Groups of topics that are made with settings of their own.",
        check.unique_aliases,
        "Topic Creation",
        1,
        "LONG",
        "Topic Creation Groups",
    ),
    Key(
        "exactly.once.support",
        Kind.STRING,
        "requested",
        "MEDIUM",
        "required: the connector must be able to write each record once.",
        check.one_of_any_case("REQUIRED", "REQUESTED"),
        ONCE,
        2,
        "SHORT",
        "Exactly once support",
    ),
    Key(
        "transaction.boundary",
        Kind.STRING,
        "poll",
        "MEDIUM",
        "What one transaction holds.",
        check.one_of_any_case("INTERVAL", "POLL", "CONNECTOR"),
        ONCE,
        3,
        "SHORT",
        "Transaction Boundary",
    ),
    Key(
        "transaction.boundary.interval.ms",
        Kind.LONG,
        None,
        "LOW",
        "How long one transaction lasts, with the boundary interval.",
        None,
        ONCE,
        4,
        "SHORT",
        "Transaction boundary interval",
    ),
    Key(
        "offsets.storage.topic",
        Kind.STRING,
        None,
        "LOW",
        "A topic of its own for this connector's offsets.",
        check.non_empty,
        "offsets.topic",
        1,
        "LONG",
        "Offsets topic",
    ),
)


def _optional_regex(name: str, value: str | None) -> None:
    if value:
        check.regular_expression(name, value)


SINK: Final = Definition(
    Key("topics", Kind.LIST, [], "HIGH", "The topics to read, divided by commas.", None, COMMON, 4, "LONG", "Topics"),
    Key(
        "topics.regex",
        Kind.STRING,
        "",
        "HIGH",
        "A regular expression for whole names of the topics to read.",
        _optional_regex,
        COMMON,
        4,
        "LONG",
        "Topics regex",
    ),
    Key(
        "errors.deadletterqueue.topic.name",
        Kind.STRING,
        "",
        "MEDIUM",
        "The topic for records that could not be processed.",
        None,
        ERRORS,
        6,
        "MEDIUM",
        "Dead Letter Queue Topic Name",
    ),
    Key(
        "errors.deadletterqueue.topic.replication.factor",
        Kind.SHORT,
        3,
        "MEDIUM",
        "Replicas of that topic when it has to be made.",
        None,
        ERRORS,
        7,
        "MEDIUM",
        "Dead Letter Queue Topic Replication Factor",
    ),
    Key(
        "errors.deadletterqueue.context.headers.enable",
        Kind.BOOLEAN,
        False,
        "MEDIUM",
        "Whether headers say where the record came from and what was wrong.",
        None,
        ERRORS,
        8,
        "MEDIUM",
        "Enable Error Context Headers",
    ),
)
