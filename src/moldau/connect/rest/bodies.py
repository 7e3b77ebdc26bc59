"""◇ Bodies of requests, read and checked; an error says what is wrong.  Kafka's worker answers most of these errors with 500; so do we."""

import json
from typing import Any, Final

from moldau.connect.errors import BadRequest, ConnectError
from moldau.connect.rest.routes import WebError
from moldau.connect.store.configs import Target

CREATE_FIELDS: Final = ("config", "name", "initial_state")
INITIAL: Final = {"RUNNING": Target.STARTED, "PAUSED": Target.PAUSED, "STOPPED": Target.STOPPED}


def parse(content_type: str | None, body: bytes) -> Any:
    """None: an empty body.  Errors: WebError, ConnectError."""
    if content_type is not None and content_type.partition(";")[0].strip().lower() != "application/json":
        raise WebError(415, "Unsupported Media Type")
    if not body.strip():
        return None
    try:
        return json.loads(body)
    except ValueError as error:
        raise ConnectError(f"the body is not JSON: {error}") from error


def an_object(found: Any, what: str) -> dict[str, Any]:
    """Errors: ConnectError."""
    if not isinstance(found, dict):
        raise ConnectError(f"{what} is expected to be a JSON object")
    return found


def config_of(found: Any) -> dict[str, str | None]:
    """Errors: ConnectError."""
    return {key: _value(key, value) for key, value in an_object(found, "a configuration").items()}


def _value(key: str, value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise ConnectError(f"the value of {key} in a configuration is expected to be a text")


def creation(found: Any) -> tuple[str, dict[str, str | None], Target | None]:
    """The connector's name, its configuration, and the state that it begins in.  Errors: ConnectError."""
    request = an_object(found, 'a connector, as in {"name": …, "config": {…}},')
    for key in request:
        if key not in CREATE_FIELDS:
            raise ConnectError(f'Unrecognized field "{key}": the fields are {", ".join(CREATE_FIELDS)}')
    name = request.get("name")
    if name is not None and not isinstance(name, str):
        raise ConnectError("the name is expected to be a text")
    state = request.get("initial_state")
    if state is not None and (not isinstance(state, str) or state.upper() not in INITIAL):
        raise ConnectError(f"initial_state cannot be {state!r}: one of {', '.join(INITIAL)} is expected")
    if request.get("config") is None:
        raise ConnectError("the configuration is missing")
    bare = (name or "").strip("".join(map(chr, range(33))))
    return bare, config_of(request["config"]), None if state is None else INITIAL[state.upper()]


def offset_changes(found: Any) -> list[tuple[Any, Any]]:
    """Errors: ConnectError, BadRequest."""
    request = an_object(found, 'offsets, as in {"offsets": […]},')
    for key in request:
        if key != "offsets":
            raise ConnectError(f'Unrecognized field "{key}": the one field is offsets')
    listed = request.get("offsets")
    if not listed:
        raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
    if not isinstance(listed, list):
        raise ConnectError("offsets is expected to be a list")
    changes = []
    for one in listed:
        entry = an_object(one, "each of the offsets")
        for name in ("partition", "offset"):
            if entry.get(name) is not None and not isinstance(entry[name], dict):
                raise ConnectError(f"{name} is expected to be a JSON object")
        changes.append((entry.get("partition"), entry.get("offset")))
    return changes
