"""● Levels of loggers, by Kafka's names for them, on Python's logging.  Source: Loggers.java (KIP-495, KIP-976)."""

import logging
from typing import Any, Final

from moldau.connect.errors import BadRequest, NotFound

LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50, "OFF": 60}
ROOT: Final = "root"
_modified: dict[str, int] = {}
"""The time of the last change in milliseconds, by logger.  It is the process's, as the loggers are."""


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _level(logger: logging.Logger) -> str:
    level = logger.getEffectiveLevel()
    return next((name for name, number in LEVELS.items() if number >= level), "OFF")


def _described(name: str) -> dict[str, Any]:
    return {"level": _level(_logger(name)), "last_modified": _modified.get(name)}


def all_levels() -> dict[str, Any]:
    """The levels of loggers that have one of their own."""
    own = [name for name, one in logging.root.manager.loggerDict.items() if isinstance(one, logging.Logger) and one.level]
    return {name: _described(name) for name in sorted([ROOT, *own])}


def level_of(name: str) -> dict[str, Any]:
    """Errors: NotFound."""
    known = logging.root.manager.loggerDict.get(name)
    if name != ROOT and not isinstance(known, logging.Logger):
        raise NotFound(f"Logger {name} not found.")
    return _described(name)


def require_level(level: Any) -> str:
    """Errors: BadRequest, NotFound."""
    if not isinstance(level, str):
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    if level.upper() not in LEVELS:
        raise NotFound(f"invalid log level '{level}'.")
    return level.upper()


def set_level(name: str, level: str, now_ms: int) -> list[str]:
    """Set the level of a logger and all below it.  Returns the names of loggers whose level changed."""
    wanted = LEVELS.get(level.upper())
    if wanted is None:
        return []
    below = [one for one in logging.root.manager.loggerDict if one.startswith(f"{name}.")]
    changed = []
    for one in sorted({name, *below}):
        logger = _logger(one)
        if logger.level != wanted:
            logger.setLevel(wanted)
            _modified[one] = now_ms
            changed.append(one)
    return changed
