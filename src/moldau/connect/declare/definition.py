"""◇ Options declared once: parsing, validation, and their description by the REST API.

Source: ConfigDef, ConfigInfos.

DEFINITION = Definition(
    Key("file", Kind.STRING, None, "HIGH", "Where lines are read from; standard input without it."),
    Key("topic", Kind.STRING, REQUIRED, "HIGH", "The topic that the lines go to.", non_empty),
)
values = DEFINITION.parse({"topic": "lines"})       # {"file": None, "topic": "lines"}; errors: ConfigError
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from moldau.connect.declare.validators import Check
from moldau.connect.errors import ConfigError

Config = Mapping[str, str | None]


class Kind(StrEnum):
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Final = _Required()
BITS: Final = {Kind.INT: 32, Kind.SHORT: 16, Kind.LONG: 64}
IMPORTANCES: Final = ("HIGH", "MEDIUM", "LOW")
HIDDEN: Final = "[hidden]"
_INTEGER: Final = re.compile(r"[+-]?\d+")


@dataclass(frozen=True, slots=True)
class Key:
    """One option.  `default`: REQUIRED, or the parsed value.  `recommended`: values to choose from; others are valid, too."""

    name: str
    kind: Kind
    default: Any
    importance: str
    doc: str
    check: Check | None = None
    group: str | None = None
    order: int = -1
    width: str = "NONE"
    display: str | None = None
    recommended: Sequence[str] = ()
    checked_as: str | None = None
    """The option's name in the check's errors, when it differs: a transform's own name of an option, without the connector's prefix."""
    other_names: tuple[str, ...] = ()
    """Names of the same option in other connectors' configurations."""

    def parse(self, value: str | None, known_class: Callable[[str], bool] = lambda _: True) -> Any:
        """Errors: ConfigError."""
        if value is None:
            return None
        text = value.strip()
        if self.kind in BITS:
            bits = BITS[self.kind]
            if _INTEGER.fullmatch(text) and -(1 << bits - 1) <= int(text) < 1 << bits - 1:
                return int(text)
            raise ConfigError.invalid(self.name, value, f"Not a number of type {self.kind}")
        if self.kind is Kind.DOUBLE:
            try:
                return float(text)
            except ValueError:
                raise ConfigError.invalid(self.name, value, f"Not a number of type {self.kind}") from None
        if self.kind is Kind.BOOLEAN:
            if text.lower() in ("true", "false"):
                return text.lower() == "true"
            raise ConfigError.invalid(self.name, value, "Expected value to be either true or false")
        if self.kind is Kind.LIST:
            return re.split(r"\s*,\s*", text) if text else []
        if self.kind is Kind.CLASS:
            if not known_class(text):
                raise ConfigError.invalid(self.name, value, f"Class {text} could not be found.")
            return text
        return value if self.kind is Kind.PASSWORD else text

    def shown(self, value: Any) -> str | None:
        """A parsed value as text."""
        if value is None:
            return None
        if self.kind is Kind.PASSWORD:
            return HIDDEN
        if self.kind is Kind.LIST:
            return ",".join(value)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def described(self) -> dict[str, Any]:
        is_required = self.default is REQUIRED
        return {
            "name": self.name,
            "type": str(self.kind),
            "required": is_required,
            "default_value": None if is_required else self.shown(self.default),
            "importance": self.importance,
            "documentation": self.doc,
            "group": self.group,
            "order_in_group": self.order,
            "width": self.width,
            "display_name": self.display or self.name,
            "dependents": [],
        }


@dataclass(slots=True)
class Validated:
    """The result for one option.  `value`: the parsed value; None if parsing failed."""

    key: Key
    value: Any = None
    errors: list[str] = field(default_factory=list)
    visible: bool = True

    def described(self) -> dict[str, Any]:
        value = {
            "name": self.key.name,
            "value": self.key.shown(self.value),
            "recommended_values": list(self.key.recommended),
            "errors": self.errors,
            "visible": self.visible,
        }
        return {"definition": self.key.described(), "value": value}


class Definition:
    """Options in their order."""

    def __init__(self, *keys: Key) -> None:
        self.keys: Final = {key.name: key for key in keys}

    def __add__(self, other: "Definition") -> "Definition":
        return Definition(*self.keys.values(), *other.keys.values())

    def validate(self, config: Config, known_class: Callable[[str], bool] = lambda _: True) -> dict[str, Validated]:
        """Every option, with all that is wrong about it."""
        found = {}
        for key in self.keys.values():
            one = Validated(key)
            try:
                given = next((name for name in (key.name, *key.other_names) if name in config), None)
                if given is not None:
                    one.value = key.parse(config[given], known_class)
                elif key.default is REQUIRED:
                    one.errors.append(f'Missing required configuration "{key.name}" which has no default value.')
                else:
                    one.value = key.default
            except ConfigError as error:
                one.errors.append(str(error))
            if key.check is not None:
                try:
                    key.check(key.checked_as or key.name, one.value)
                except ConfigError as error:
                    one.errors.append(str(error))
            found[key.name] = one
        return found

    def parse(self, config: Config) -> dict[str, Any]:
        """All values.  Errors: ConfigError, the first one."""
        validated = self.validate(config)
        for one in validated.values():
            if one.errors:
                raise ConfigError(one.errors[0])
        return {name: one.value for name, one in validated.items()}

    def prefixed(self, prefix: str, group: str | None, first_order: int) -> list[Key]:
        """The definitions in the order of a connector's options: required ones first, then by importance and name; numbered from
        `first_order` on.
        """
        ordered = sorted(self.keys.values(), key=lambda key: (key.default is not REQUIRED, IMPORTANCES.index(key.importance), key.name))
        return [
            replace(
                key, name=prefix + key.name, group=group, order=first_order + number, display=key.display or key.name, checked_as=key.name
            )
            for number, key in enumerate(ordered)
        ]


def infos(name: str, validated: Iterable[Validated], groups: Sequence[str]) -> dict[str, Any]:
    """The JSON of an answer to validate."""
    listed = list(validated)
    return {
        "name": name,
        "error_count": sum(len(one.errors) for one in listed),
        "groups": list(groups),
        "configs": [one.described() for one in listed],
    }
