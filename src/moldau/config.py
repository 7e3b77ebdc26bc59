"""◇ The words to declare an option with: one line gives type, default, docs, check, broker and topic key.

    class LogConfig(Configs, update="cluster-wide"):
        segment_bytes: int = option("log.segment.bytes", GiB, "Roll to a new segment before the active one would exceed this many bytes.",
                                    topic="segment.bytes", check=at_least(MiB), importance="high")
        segment_ms: Long = option("log.roll.ms", 168 * HOUR_MS, …)

    LogConfig.load({"log.segment.bytes": "1048576"})                       the broker's values
    LogConfig.load(...).override({"segment.bytes": "2097152"})             one topic's values

The relation of an option to another one is declared with it, as `bounds`; `first_refusal` names the pair that does not fit.
Options live in the room that reads them, in its `config.py`.  Names and defaults are Kafka's (AbstractKafkaConfig, LogConfig, TopicConfig).
"""

import dataclasses
import difflib
import operator
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from enum import IntEnum
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple, Self, cast, dataclass_transform

MAX_INT: Final = (1 << 31) - 1
MAX_LONG: Final = (1 << 63) - 1
MiB: Final = 1 << 20
GiB: Final = 1 << 30
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

Update = Literal["read-only", "per-broker", "cluster-wide"]
Importance = Literal["high", "medium", "low"]
Check = Callable[[Any], str | None]
"""Returns what is wrong with a value, or None."""


class Kind(IntEnum):
    """Types of values, numbered as DescribeConfigs numbers them (ConfigDef.Type, DescribeConfigsResponse.ConfigType)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


Long = Annotated[int, Kind.LONG]
Short = Annotated[int, Kind.SHORT]
Password = Annotated[str, Kind.PASSWORD]
_KIND_OF: Final[Mapping[Any, Kind]] = {
    bool: Kind.BOOLEAN,
    int: Kind.INT,
    Short: Kind.SHORT,
    Long: Kind.LONG,
    float: Kind.DOUBLE,
    str: Kind.STRING,
    Password: Kind.PASSWORD,
    tuple[str, ...]: Kind.LIST,
}
_KIND_OF_FIELD: Final = {annotation: kind for plain, kind in _KIND_OF.items() for annotation in (plain, plain | None)}
"""The kind of an option by its field's annotation."""


SHOWN_CHARACTERS: Final = 2_000


def shortened(text: str) -> str:
    """The text, cut to the length that a message has room for."""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}… ({len(text)} characters)"


class ConfigError(ValueError):
    """A value that cannot be taken: names the key, the value and the way out."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        super().__init__(f"Invalid value {shortened(str(value))} for configuration {key}: {reason}")
        self.key = key
        self.value = value
        self.reason = reason


_SIGNS: Final[Mapping[str, tuple[Callable[[Any, Any], bool], str]]] = {
    ">=": (operator.ge, "greater than or equal to"),
    "<=": (operator.le, "less than or equal to"),
    ">": (operator.gt, "greater than"),
}


class Bound(NamedTuple):
    """The relation of an option's value to the value of another option."""

    sign: str
    key: str
    """The key of the other option."""

    @classmethod
    def read(cls, text: str) -> Self:
        """The bound that a text such as `>= group.min.session.timeout.ms` declares."""
        sign, key = text.split()
        assert sign in _SIGNS, text
        return cls(sign, key)

    @property
    def words(self) -> str:
        return _SIGNS[self.sign][1]

    def holds(self, value: Any, other: Any) -> bool:
        return _SIGNS[self.sign][0](value, other)


@dataclasses.dataclass(frozen=True, slots=True)
class Option:
    """One declared option.  `fallbacks` are (key, factor): other keys that set it, in falling precedence."""

    key: str
    kind: Kind
    default: Any
    doc: str = ""
    field: str = ""
    topic: str | None = None
    group: str | None = None
    """The name of the option that sets it for one group (resource GROUP)."""
    fallbacks: tuple[tuple[str, int], ...] = ()
    check: Check | None = None
    group_check: Check | None = None
    """The check of a group's value, if it is not `check`."""
    bounds: tuple[Bound, ...] = ()
    update: Update = "read-only"
    importance: Importance = "medium"
    nullable: bool = False
    is_ours: bool = False
    """Kafka 4.3 has no such option."""
    has_default: bool = True
    """Whether the option is told with its default and the keys behind it.  Kafka has no default for some options that have one here."""
    told_as: Kind | None = None
    """The type that DescribeConfigs tells, if it is not `kind`."""
    is_pool_size: bool = False
    """One change while the broker runs may at most halve or double the value."""

    @property
    def is_sensitive(self) -> bool:
        return self.kind is Kind.PASSWORD

    @property
    def keys(self) -> tuple[str, ...]:
        """Every broker key that sets this option, in falling precedence."""
        return (self.key, *(key for key, _ in self.fallbacks))

    def parse(self, text: str, *, key: str | None = None, factor: int = 1, is_stored: bool = False) -> Any:
        """The parsed value.  A value that `is_stored` was accepted once, and stays valid even if it would be refused today (KIP-1030 raised
        many minimums).

        Errors: ConfigError.
        """
        name = key or self.key
        try:
            value = _PARSERS[self.kind](text.strip() if self.kind is not Kind.PASSWORD else text)
        except ValueError as error:
            raise ConfigError(name, text, str(error)) from None
        if factor != 1 and value >= 0:
            value *= factor
        reason = self.check(value) if self.check and not is_stored else None
        if reason is not None:
            raise ConfigError(name, text, reason)
        return value

    def text(self, value: Any) -> str | None:
        """The value's text, as DescribeConfigs and server.properties spell it."""
        if value is None:
            return None
        if self.kind is Kind.BOOLEAN:
            return "true" if value else "false"
        if self.kind is Kind.LIST:
            return ",".join(value)
        return _double_text(value) if self.kind is Kind.DOUBLE else str(value)


def option(
    key: str,
    default: Any,
    doc: str,
    *,
    topic: str | None = None,
    group: str | None = None,
    fallbacks: Iterable[tuple[str, int]] = (),
    check: Check | None = None,
    group_check: Check | None = None,
    bounds: Iterable[str] = (),
    update: Update | None = None,
    importance: Importance = "medium",
    nullable: bool = False,
    is_ours: bool = False,
    has_default: bool = True,
    told_as: Kind | None = None,
    is_pool_size: bool = False,
) -> Any:
    """Declares one field of a class of `Configs`.  The annotation is the kind; the class says how it is updated, unless `update` does."""
    told = _Told(
        key=key,
        default=default,
        doc=doc,
        topic=topic,
        group=group,
        fallbacks=tuple(fallbacks),
        check=check,
        group_check=group_check,
        bounds=tuple(map(Bound.read, bounds)),
        importance=importance,
        nullable=nullable or default is None,
        is_ours=is_ours,
        has_default=has_default,
        told_as=told_as,
        is_pool_size=is_pool_size,
    )
    return told if update is None else _Told(told, update=update)


def group_option(
    name: str,
    default: int,
    doc: str,
    *,
    check: Check,
    group_check: Check | None = None,
    bounds: Iterable[str] = (),
    update: Update | None = None,
) -> Any:
    """An `option` that a group sets as `name`, all groups as group.NAME.  `group_limit` declares the limits of its values."""
    limits = [f"{sign} {_limit_key(name, which)}" for sign, which in ((">=", "min"), ("<=", "max"))]
    return option(f"group.{name}", default, doc, group=name, check=check, group_check=group_check, bounds=[*limits, *bounds], update=update)


def group_limit(which: Literal["min", "max"], name: str, value: int, *, check: Check) -> Any:
    """An `option` that limits the values of `name` for groups."""
    word = "Least" if which == "min" else "Greatest"
    return option(_limit_key(name, which), value, f"{word} {name} that a group may be given.", check=check)


def _limit_key(name: str, which: str) -> str:
    """The key of a limit; of KIND.REST it is group.KIND.min.REST."""
    kind, _, rest = name.partition(".")
    return f"group.{kind}.{which}.{rest}"


class _Told(dict[str, Any]):
    """The arguments of one `option`; the class it stands in knows the rest."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(option,))
class Configs:
    """The base of every class of options: makes it a frozen dataclass with `OPTIONS`, `load` and `override`."""

    OPTIONS: ClassVar[Mapping[str, Option]]
    """The options by field name."""

    def __init_subclass__(cls, *, update: Update = "read-only") -> None:
        options = {}
        for field, annotation in cls.__annotations__.items():
            told = cls.__dict__.get(field)
            if isinstance(told, _Told):
                options[field] = Option(**{"update": update, **told, "field": field, "kind": _KIND_OF_FIELD[annotation]})
                setattr(cls, field, told["default"])
        cls.OPTIONS = options
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)

    @classmethod
    def load(cls, properties: Mapping[str, str]) -> Self:
        """Read the options from the broker's keys; other keys are ignored.  Errors: ConfigError."""
        values = {}
        for field, declared in cls.OPTIONS.items():
            for key, factor in ((declared.key, 1), *declared.fallbacks):
                if key in properties:
                    values[field] = declared.parse(properties[key], key=key, factor=factor)
                    break
        return cls(**values)

    def override(self, topic_configs: Mapping[str, str | None]) -> Self:
        """The options with a topic's own values over these; None removes an override.  Errors: ConfigError."""
        by_topic_key = self.by_topic_key()
        values = {
            by_topic_key[key].field: by_topic_key[key].parse(text, key=key)
            for key, text in topic_configs.items()
            if text is not None and key in by_topic_key
        }
        return dataclasses.replace(cast(Any, self), **values) if values else self

    def stored_override(self, topic_configs: Mapping[str, str]) -> Self:
        """`override` with values from the metadata.  They were checked when they were set; one that is invalid now is skipped."""
        by_topic_key = self.by_topic_key()
        values = {}
        for key, text in topic_configs.items():
            with suppress(ConfigError):
                if key in by_topic_key:
                    values[by_topic_key[key].field] = by_topic_key[key].parse(text, key=key, is_stored=True)
        return dataclasses.replace(cast(Any, self), **values) if values else self

    def refusal(self) -> ConfigError | None:
        """The error in a broker's values that neither a check nor a bound can find; None if there is none."""
        return None

    @classmethod
    @cache
    def by_topic_key(cls) -> Mapping[str, Option]:
        return {declared.topic: declared for declared in cls.OPTIONS.values() if declared.topic is not None}


def first_refusal(rooms: Iterable[Configs]) -> ConfigError | None:
    """The first contradiction in a broker's values; None if there is none."""
    loaded = list(rooms)
    values = {declared.key: (declared, getattr(room, field)) for room in loaded for field, declared in room.OPTIONS.items() if declared.key}
    for declared, value in values.values():
        for bound in declared.bounds:
            other = values[bound.key][1] if bound.key in values else None
            if other is not None and not bound.holds(value, other):
                return ConfigError(declared.key, value, f"it must be {bound.words} {bound.key}, which is {other}: change one of the two")
    return next((error for room in loaded if (error := room.refusal()) is not None), None)


def nearest(key: str, known: Iterable[str]) -> str | None:
    """The known key that a typo most likely meant."""
    matches = difflib.get_close_matches(key, list(known), n=1, cutoff=0.75)
    return matches[0] if matches else None


def at_least(low: float) -> Check:
    return lambda value: None if value >= low else f"Value must be at least {low}"


def between(low: float, high: float) -> Check:
    def check(value: float) -> str | None:
        if value < low:
            return f"Value must be at least {low}"
        return f"Value must be no more than {high}" if value > high else None

    return check


def one_of(*allowed: str) -> Check:
    return lambda value: None if value in allowed else f"String must be one of: {', '.join(allowed)}"


def each_of(*allowed: str) -> Check:
    def check(values: tuple[str, ...]) -> str | None:
        wrong = [value for value in values if value not in allowed]
        return f"String must be one of: {', '.join(allowed)}" if wrong else None

    return check


def _double_text(value: float) -> str:
    """The number as Java spells it: 1.0E10 from ten million up and below a thousandth."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(float(value))
    mantissa, _, exponent = f"{Decimal(repr(float(value))).normalize():E}".partition("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


def _parse_boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return text.lower() == "true"


def _parse_integer(kind: str, bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        # A length limit before int(): a thousand digits are no number that fits, and int() of a million is slow (CVE-2020-10735).
        digits = text[1:] if text[:1] in ("+", "-") else text
        if not digits.isascii() or not digits.isdigit() or len(text) > 20:
            raise ValueError(f"Not a number of type {kind}")
        value = int(text)
        if not -(1 << bits - 1) <= value < 1 << bits - 1:
            raise ValueError(f"Not a number of type {kind}")
        return value

    return parse


def _parse_double(text: str) -> float:
    try:
        if "_" in text:  # Python allows it between digits
            raise ValueError
        return float(text)
    except ValueError:
        raise ValueError("Not a number of type DOUBLE") from None


def _parse_list(text: str) -> tuple[str, ...]:
    return tuple(map(str.strip, text.split(","))) if text else ()


_PARSERS: Final[Mapping[Kind, Callable[[str], Any]]] = {
    Kind.BOOLEAN: _parse_boolean,
    Kind.STRING: str,
    Kind.INT: _parse_integer("INT", 32),
    Kind.SHORT: _parse_integer("SHORT", 16),
    Kind.LONG: _parse_integer("LONG", 64),
    Kind.DOUBLE: _parse_double,
    Kind.LIST: _parse_list,
    Kind.CLASS: str,
    Kind.PASSWORD: str,
}
