"""● The levels of this process's loggers, in Kafka's words, and changes of them (KIP-412).

Loggers are named after modules.  A name without its last part stands for all loggers below it, `root` for all.  Levels are the process's
own: they are not stored, and end with it.

Source: LoggingController, RuntimeLoggerManager.
"""

import logging
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from moldau.errors import ErrorCode
from moldau.metadata.configs import Operation
from moldau.metadata.outcome import Refusal
from moldau.protocol.messages.incremental_alter_configs import AlterableConfig

LOG: Final = logging.getLogger(__name__)
ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""The levels, from the most verbose to the least."""


def levels() -> dict[str, str]:
    """The effective level of each logger, its own or that of a logger above it."""
    return {name: _word(_logger(name).getEffectiveLevel()) for name in _names()}


def alter(node_id: int, resource_name: str, changes: Sequence[AlterableConfig], *, validate_only: bool) -> Refusal | None:
    """Set levels, or remove them: all of `changes`, or none.  Errors: INVALID_REQUEST, INVALID_CONFIG."""
    refusal = _refusal_of_name(node_id, resource_name) or next(filter(None, map(_refusal, changes)), None)
    if refusal is None and not validate_only:
        for change in changes:
            is_set = change.config_operation == Operation.SET
            _logger(change.name).setLevel(LEVELS[change.value or ""] if is_set else logging.NOTSET)
            LOG.warning("the level of logger %s is %s now", change.name, change.value if is_set else "that of those above it")
    return refusal


def _names() -> list[str]:
    return [ROOT, *sorted(logging.root.manager.loggerDict)]


def _logger(name: str) -> logging.Logger:
    return logging.root if name == ROOT else logging.getLogger(name)


def _word(level: int) -> str:
    return list(LEVELS)[max(bisect_right(list(LEVELS.values()), level) - 1, 0)]


def _refusal_of_name(node_id: int, name: str) -> Refusal | None:
    if not name.lstrip("-").isdigit():
        return Refusal(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) == node_id:
        return None
    return Refusal(ErrorCode.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {int(name)}")


def _refusal(change: AlterableConfig) -> Refusal | None:
    match change.config_operation:
        case Operation.SET | Operation.DELETE if change.name not in _names():
            return Refusal(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
        case Operation.SET if change.value not in LEVELS:
            text = f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level."
            return Refusal(ErrorCode.INVALID_CONFIG, f"{text} Valid log levels are {', '.join(sorted(LEVELS))}")
        case Operation.DELETE if change.name == ROOT:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")
        case Operation.SET | Operation.DELETE:
            return None
        case Operation.APPEND | Operation.SUBTRACT:
            name = Operation(change.config_operation).name
            return Refusal(ErrorCode.INVALID_REQUEST, f"{name} operation is not allowed for the BROKER_LOGGER resource")
    text = f"Unknown operation type {change.config_operation} is not allowed for the BROKER_LOGGER resource"
    return Refusal(ErrorCode.INVALID_REQUEST, text)
