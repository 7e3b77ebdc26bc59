"""◇ Paths of the REST API, as a table.  A segment in braces is a parameter; a slash inside a parameter is written %2F."""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from moldau.connect.errors import ConnectError


class WebError(ConnectError):
    """A 404, 405 or 415 of the web server itself."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"HTTP {status} {reason}")
        self.status = status


class Route(NamedTuple):
    method: str
    path: str
    name: str
    """The method of `Answers` that serves the route."""


ROUTES: Final = [
    Route("GET", "/", "root"),
    Route("GET", "/health", "health"),
    Route("GET", "/connectors", "list_connectors"),
    Route("POST", "/connectors", "create"),
    Route("GET", "/connectors/{connector}", "info"),
    Route("DELETE", "/connectors/{connector}", "delete"),
    Route("GET", "/connectors/{connector}/config", "config"),
    Route("PUT", "/connectors/{connector}/config", "put_config"),
    Route("PATCH", "/connectors/{connector}/config", "patch_config"),
    Route("GET", "/connectors/{connector}/status", "status"),
    Route("GET", "/connectors/{connector}/topics", "topics"),
    Route("PUT", "/connectors/{connector}/topics/reset", "reset_topics"),
    Route("POST", "/connectors/{connector}/restart", "restart"),
    Route("PUT", "/connectors/{connector}/pause", "pause"),
    Route("PUT", "/connectors/{connector}/resume", "resume"),
    Route("PUT", "/connectors/{connector}/stop", "stop"),
    Route("GET", "/connectors/{connector}/tasks", "tasks"),
    Route("POST", "/connectors/{connector}/tasks", "put_tasks"),
    Route("PUT", "/connectors/{connector}/fence", "fence"),
    Route("GET", "/connectors/{connector}/tasks/{task:int}/status", "task_status"),
    Route("POST", "/connectors/{connector}/tasks/{task:int}/restart", "restart_task"),
    Route("GET", "/connectors/{connector}/offsets", "offsets"),
    Route("PATCH", "/connectors/{connector}/offsets", "alter_offsets"),
    Route("DELETE", "/connectors/{connector}/offsets", "reset_offsets"),
    Route("GET", "/connector-plugins", "plugins"),
    Route("GET", "/connector-plugins/{plugin}/config", "plugin_config"),
    Route("PUT", "/connector-plugins/{plugin}/config/validate", "validate"),
    Route("GET", "/admin/loggers", "loggers"),
    Route("GET", "/admin/loggers/{logger}", "logger"),
    Route("PUT", "/admin/loggers/{logger}", "set_logger"),
]


def _segments(path: str) -> list[str]:
    return path.strip("/").split("/")


def _matches(pattern: str, given: list[str]) -> dict[str, str] | None:
    wanted = _segments(pattern)
    if len(wanted) != len(given):
        return None
    found = {}
    for one, segment in zip(wanted, given, strict=True):
        if not one.startswith("{"):
            if one != segment:
                return None
            continue
        name, _, kind = one.strip("{}").partition(":")
        if not segment or (kind == "int" and not segment.isdigit()):
            return None
        found[name] = segment
    return found


def methods_of(path: str) -> list[str]:
    given = [unquote(one) for one in _segments(path)]
    return [route.method for route in ROUTES if _matches(route.path, given) is not None]


def find(method: str, raw_path: str) -> tuple[Route, Mapping[str, str]]:
    """`raw_path`: the path as it came, with its escapes.  Errors: WebError."""
    given = [unquote(one) for one in _segments(raw_path)]
    is_known = False
    for route in ROUTES:
        found = _matches(route.path, given)
        if found is None:
            continue
        is_known = True
        if route.method == method:
            return route, found
    raise WebError(405, "Method Not Allowed") if is_known else WebError(404, "Not Found")
