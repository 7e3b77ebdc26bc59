"""● The files of connectors that a worker alone begins with: properties, or JSON in one of two forms, whatever the files' names.

    name=lines                            {"name": "lines", "connector.class": …}
    connector.class=FileStreamSource      {"name": "lines", "config": {"connector.class": …}, "initial_state": "PAUSED"}

Source: ConnectStandalone.parseConnectorConfigurationFile.
"""

import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from moldau.connect.errors import ConfigError, ConnectError
from moldau.connect.rest.bodies import config_of, creation
from moldau.connect.store.configs import Target
from moldau.server.node.properties import PropertiesError, parse_properties, values_of

NAME: Final = "name"


class NewConnector(NamedTuple):
    path: str
    name: str
    config: dict[str, str | None]
    target: Target | None


def read_connector(path: str) -> NewConnector:
    """Errors: ConfigError."""
    try:
        data = Path(path).read_bytes()
        return _parsed(path, data)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error
    except PropertiesError as error:
        raise ConfigError(f"{path}, {error}") from error


def _parsed(path: str, data: bytes) -> NewConnector:
    found = _json(data)
    if not isinstance(found, dict):
        return _flat(path, dict(values_of(parse_properties(data))))
    try:
        if not isinstance(found.get("config"), dict):
            return _flat(path, config_of(found))
        name, config, target = creation(found)
    except ConnectError as error:
        raise ConfigError(f"{path}: {error}") from error
    if not name:
        raise ConfigError(f"{path}: the {NAME} of the connector is missing")
    if config.setdefault(NAME, name) != name:
        raise ConfigError(f"{path}: the {NAME} in the configuration, {config[NAME]}, is not {name}")
    return NewConnector(path, name, config, target)


def _flat(path: str, config: dict[str, str | None]) -> NewConnector:
    name = config.get(NAME)
    if not name:
        raise ConfigError(f"{path}: the {NAME} of the connector is missing")
    return NewConnector(path, name, config, None)


def _json(data: bytes) -> Any:
    """None: the file is not JSON."""
    try:
        return json.loads(data)
    except ValueError:
        return None
