"""● The common parts of `up`, `serve` and `storage`: a node's properties file, and running a node until it is told to stop."""

import asyncio
import logging
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.config import ConfigError
from moldau.server.node.config import NodeConfig, UnknownOption
from moldau.server.node.properties import PropertiesError, parse_properties
from moldau.tools.cli.failure import Failure, one_line

if TYPE_CHECKING:
    from moldau.server.node.node import Node

LOG: Final = logging.getLogger(__name__)
_ERRNO: Final = re.compile(r"\[Errno \d+\] ")
LOG_FORMAT: Final = "[%(asctime)s] %(levelname)s %(message)s"


def load_config(path: Path, overrides: Mapping[str, str] | None = None) -> NodeConfig:
    """Errors: Failure that names the file, and the line where there is one."""
    try:
        found = parse_properties(path.read_bytes())
    except OSError as error:
        raise Failure(f"{path} cannot be read: {(error.strerror or str(error)).lower()}", "Give the path of a server.properties") from error
    except PropertiesError as error:
        raise Failure(f"{path}, {error}") from error
    properties = {key: one.value for key, one in found.items()} | dict(overrides or {})
    try:
        return NodeConfig.parse(properties)
    except ConfigError as error:
        line = f", line {found[error.key].line}" if error.key in found and error.key not in (overrides or {}) else ""
        if isinstance(error, UnknownOption):
            raise Failure(f"{path}{line}: there is no option {error.key}; did you mean {error.meant}?") from error
        raise Failure(f"{path}{line}: {error}") from error


class LineFormatter(logging.Formatter):
    """One line for each message, whatever text of clients is in it.  Stack traces stand below the line."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record))


def set_up_logging(level: int = logging.INFO) -> None:
    """Log lines go to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(LOG_FORMAT))
    logging.basicConfig(level=level, handlers=[handler])


def run_node(config: NodeConfig, on_ready: "Callable[[Node], None]", on_progress: Callable[[str], None] = LOG.info) -> int:
    """Run a node until SIGTERM, SIGINT or a failure.  Errors: Failure, when the node cannot start."""
    from moldau.server.node.process import run

    for warning in config.warnings:
        logging.getLogger("moldau").warning("%s", warning)
    try:
        return asyncio.run(run(config, on_ready, on_progress))
    except Exception as error:
        raise in_words(error) from error


def in_words(error: Exception) -> Failure | Exception:
    """A `Failure` of one line for an error that names its way out.  Any other error is a bug and keeps its traceback."""
    from moldau.server.node.folders import StartRefused

    if isinstance(error, StartRefused):
        return Failure(str(error))
    if isinstance(error, OSError):
        text = _ERRNO.sub("", error.strerror or str(error))
        return Failure(f"the node cannot start: {text}" + (f" ({error.filename})" if error.filename else ""))
    if type(error).__name__.startswith("Corrupt"):
        return Failure(f"the node cannot start: {error}")
    return error
