"""● Variables in configurations, `${file:/etc/secrets.properties:password}`, and the providers that know their values (KIP-297).

config.providers=file,dir,env
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider
config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.file.param.allowed.paths=/etc/connect

A configuration stays as it was written, in the config topic and in answers of the REST API.  Values are read when a connector is validated
and when it or a task of it starts.  A variable whose provider or key is not known stays as it is.

Source: ConfigTransformer, WorkerConfigTransformer, AbstractHerder.reverseTransform.
"""

import os
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from moldau.connect.declare.definition import Config
from moldau.connect.errors import ConfigError
from moldau.server.node.properties import PropertiesError, parse_properties, values_of

VARIABLE: Final = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
PREFIX: Final = "config.providers"
_JAVA: Final = "org.apache.kafka.common.config.provider."

Provider = Callable[[str, Collection[str]], Mapping[str, str]]
"""The values of keys at a path.  Errors: ConfigError."""


class Providers:
    """The providers of a worker, by the names that variables have."""

    def __init__(self, known: Mapping[str, Provider] | None = None) -> None:
        self._known = known or {}

    @classmethod
    def of(cls, given: Config) -> "Providers":
        """`given`: a worker's properties.  Errors: ConfigError."""
        names = [one.strip() for one in (given.get(PREFIX) or "").split(",") if one.strip()]
        return cls({name: _provider(name, given) for name in names})

    def resolved(self, config: Config) -> dict[str, str | None]:
        """The configuration with values in place of variables.  Errors: ConfigError."""
        found: dict[tuple[str, str], Mapping[str, str]] = {}
        for (name, path), keys in self._asked(config).items():
            found[name, path] = self._known[name](path, keys)

        def value_of(match: re.Match[str]) -> str:
            name, path, key = match[1], match[2] or "", match[3]
            return found.get((name, path), {}).get(key, match[0])

        return {key: None if value is None else VARIABLE.sub(value_of, value) for key, value in config.items()}

    def _asked(self, config: Config) -> dict[tuple[str, str], set[str]]:
        asked: dict[tuple[str, str], set[str]] = {}
        for value in config.values() if self._known else ():
            for match in VARIABLE.finditer(value or ""):
                if match[1] in self._known:
                    asked.setdefault((match[1], match[2] or ""), set()).add(match[3])
        return asked


def with_variables(config: Config, connector: Config) -> dict[str, str | None]:
    """A task's configuration as it is stored: options that have variables in their connector's have them again."""
    return {key: connector[key] if VARIABLE.search(connector.get(key) or "") else value for key, value in config.items()}


def _provider(name: str, given: Config) -> Provider:
    option = f"{PREFIX}.{name}.class"
    chosen = (given.get(option) or "").strip().removeprefix(_JAVA)
    parameters = f"{PREFIX}.{name}.param."
    options = {key.removeprefix(parameters): value or "" for key, value in given.items() if key.startswith(parameters)}
    makers: dict[str, Callable[[dict[str, str]], Provider]] = {
        "FileConfigProvider": _of_file,
        "DirectoryConfigProvider": _of_directory,
        "EnvVarConfigProvider": _of_environment,
    }
    if chosen not in makers:
        known = ", ".join(_JAVA + one for one in makers)
        raise ConfigError.invalid(option, given.get(option), f"providers here are {known}")
    return makers[chosen](options)


def _allowed(options: dict[str, str], path: str) -> bool:
    """Whether allowed.paths, when there is one, holds the path, whatever dots and links the path has."""
    folders = [Path(one.strip()).resolve() for one in options.get("allowed.paths", "").split(",") if one.strip()]
    there = Path(path).resolve()
    return not folders or any(there == one or one in there.parents for one in folders)


def _of_file(options: dict[str, str]) -> Provider:
    def values(path: str, keys: Collection[str]) -> dict[str, str]:
        if not path or not _allowed(options, path):
            return {}
        try:
            found = values_of(parse_properties(Path(path).read_bytes()))
        except (OSError, PropertiesError) as error:
            raise ConfigError(f"Could not read properties from file {path}") from error
        return {key: found[key] for key in keys if key in found}

    return values


def _of_directory(options: dict[str, str]) -> Provider:
    def values(path: str, keys: Collection[str]) -> dict[str, str]:
        if not path or not _allowed(options, path):
            return {}
        found = {}
        for key in keys:
            file = Path(path) / key
            if Path(key).name == key and file.is_file():
                try:
                    found[key] = file.read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError) as error:
                    raise ConfigError(f"Could not read file {file} for property {key}") from error
        return found

    return values


def _of_environment(options: dict[str, str]) -> Provider:
    try:
        pattern: re.Pattern[Any] = re.compile(options.get("allowlist.pattern") or ".*", re.DOTALL)
    except re.error as error:
        raise ConfigError(f"Invalid value {options['allowlist.pattern']} for configuration allowlist.pattern: {error}") from error

    def values(path: str, keys: Collection[str]) -> dict[str, str]:
        if path:
            raise ConfigError(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        return {key: os.environ[key] for key in keys if key in os.environ and pattern.fullmatch(key)}

    return values
