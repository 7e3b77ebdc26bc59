"""◇ Checks of one option's value, with Kafka's words.  Each takes the option's name and its parsed value.  Errors: ConfigError."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from moldau.connect.errors import ConfigError

Check = Callable[[str, Any], None]


def at_least(minimum: int) -> Check:
    def check(name: str, value: Any) -> None:
        if value is None:
            raise ConfigError.invalid(name, None, "Value must be non-null")
        if value < minimum:
            raise ConfigError.invalid(name, value, f"Value must be at least {minimum}")

    return check


def one_of(*allowed: str | None) -> Check:
    def check(name: str, value: Any) -> None:
        if value not in allowed:
            raise ConfigError.invalid(name, value, f"String must be one of: {', '.join(one or 'null' for one in allowed)}")

    return check


def one_of_any_case(*allowed: str) -> Check:
    def check(name: str, value: Any) -> None:
        if value is None or value.upper() not in allowed:
            raise ConfigError.invalid(name, value, f"String must be one of (case insensitive): {', '.join(allowed)}")

    return check


def non_empty(name: str, value: Any) -> None:
    if value is not None and not value:
        raise ConfigError.invalid(name, value, "String must be non-empty")


def non_null(name: str, value: Any) -> None:
    if value is None:
        raise ConfigError.invalid(name, None, "entry must be non null")


def connector_name(name: str, value: Any) -> None:
    if value is None:
        return
    if not value:
        raise ConfigError.invalid(name, value, "String may not be empty")
    control = [str(ord(one)) for one in value if ord(one) < 32 or ord(one) == 127]
    if control:
        raise ConfigError.invalid(
            name, value, f"String may not contain control sequences but had the following ASCII chars: {', '.join(control)}"
        )


def valid_list(name: str, value: Any) -> None:
    if value is None:
        raise ConfigError(f"Configuration '{name}' values must not be null.")
    if not value:
        raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: any non-empty value")
    if "" in value:
        raise ConfigError(f"Configuration '{name}' values must not be empty.")
    for one in value:
        if value.count(one) > 1:
            raise ConfigError(f"Configuration '{name}' values must not be duplicated.")


def unique_aliases(name: str, value: Any) -> None:
    if value is not None and len(set(value)) < len(value):
        raise ConfigError.invalid(name, value, "Duplicate alias provided.")


def regular_expression(name: str, value: Any) -> None:
    """Java's dialect and Python's agree on what most people write.  Where they differ, Python's decides."""
    if value is None:
        raise ConfigError.invalid(name, None, "Invalid regex: there is none")
    try:
        re.compile(value)
    except re.error as error:
        raise ConfigError.invalid(name, value, f"Invalid regex: {error}") from error


def all_of(checks: Sequence[Check]) -> Check:
    def check(name: str, value: Any) -> None:
        for one in checks:
            one(name, value)

    return check


def not_offered(instead: str) -> Check:
    """Any value is refused: to pass it over would change what is written.  `instead`: what to do."""

    def checked(name: str, value: Any) -> None:
        if value:
            raise ConfigError.invalid(name, value, f"this is not offered here: {instead}")

    return checked
