"""◇ Options of client metrics subscriptions: which clients push which metrics, and how often (KIP-714).

A value of `match` names a property of clients and a pattern for it, as in `client_id=app-.*`.  Patterns are those of `java.util.regex`:
Kafka compiles them when they are set, and refuses what it cannot.

Source: ClientMetricsConfigs.java.
"""

import re
import warnings
from collections.abc import Mapping
from typing import Final

from moldau.config import MAX_INT, ConfigError, Kind, Option
from moldau.errors import ErrorCode
from moldau.metadata.outcome import Refusal


def _option(key: str, kind: Kind, default: object, doc: str) -> Option:
    return Option(key, kind, default, doc, update="cluster-wide")


CLIENT_METRICS: Final[Mapping[str, Option]] = {
    one.key: one
    for one in (
        _option("metrics", Kind.LIST, (), "Prefixes of the metrics that clients are to push; * for all of them."),
        _option("interval.ms", Kind.INT, 300_000, "How often they push."),
        _option("match", Kind.LIST, (), "Which clients: selector=pattern, each of them must match."),
    )
}
MIN_INTERVAL_MS: Final = 100
MAX_INTERVAL_MS: Final = 3_600_000
SELECTORS: Final = frozenset(
    {"client_id", "client_instance_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port"}
)
assert MAX_INTERVAL_MS < MAX_INT


def validate_client_metrics(name: str, configs: Mapping[str, str]) -> Refusal | None:
    """The reason why this subscription is invalid; None if it is valid.  Errors: INVALID_REQUEST, INVALID_CONFIG."""
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key, text in configs.items():
        if key not in CLIENT_METRICS:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
        if key == "interval.ms":
            try:
                interval_ms = CLIENT_METRICS[key].parse(text)
            except ConfigError as error:
                return Refusal(ErrorCode.INVALID_REQUEST, str(error))
            if not MIN_INTERVAL_MS <= interval_ms <= MAX_INTERVAL_MS:
                return Refusal(
                    ErrorCode.INVALID_REQUEST,
                    f"Invalid value {text} for interval.ms, interval must be between {MIN_INTERVAL_MS} and {MAX_INTERVAL_MS} (1 hour)",
                )
        elif key == "match":
            wrong = next((part for part in text.split(",") if part.strip() and not _is_match(part.strip())), None)
            if wrong is not None:
                return Refusal(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {wrong.strip()}")
    return None


def _is_match(part: str) -> bool:
    """`selector=pattern`, with no other equals sign."""
    selector, equals, pattern = part.partition("=")
    return bool(equals and pattern and "=" not in pattern) and selector.strip() in SELECTORS and is_java_pattern(pattern.strip())


# ---------------------------------------------------------------------- Java's patterns

_JAVA_ONLY: Final = re.compile(
    r"""\\Q(?P<literal>.*?)(?:\\E|$)
      | \\[pP](?:\{[^}]*\}|[A-Za-z]) | \\[hHvVRXN](?:\{[^}]*\})? | \\x\{[0-9A-Fa-f]+\} | \\e | \\c.   # a character of some kind
      | (?P<reference>\\k<[A-Za-z][A-Za-z0-9]*>)
      | (?P<nothing>\\[GzZ])
      | (?P<kept>\\.)
      | (?P<group>\(\?<(?P<name>[A-Za-z][A-Za-z0-9]*)>)
      | (?P<flags>\(\?[idmsuxU]*-?[idmsuxU]*(?P<colon>[:)]))
      | (?P<refused>\(\?P)
      | (?P<count>\{\d+(?:,\d*)?\})
      | (?P<brace>\{)
    """,
    re.VERBOSE | re.DOTALL,
)


def is_java_pattern(text: str) -> bool:
    """Whether Java would compile this expression.

    It is rewritten for Python's `re`: a construct that only Java has is replaced by a simple one in the same place.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # sets within sets have a meaning only in Java
            re.compile(_JAVA_ONLY.sub(_as_python, text))
    except re.error as error:
        return "look-behind" in str(error)  # Java bounds the length of a look-behind, Python fixes it
    except (OverflowError, RecursionError):
        return False
    return True


def _as_python(found: re.Match[str]) -> str:
    """The construct in Python's syntax.  Raises re.error for a construct that Java refuses and Python would take."""
    if found["literal"] is not None:
        return re.escape(found["literal"])
    if found["refused"] or found["brace"]:
        raise re.error("not in Java")
    if found["kept"] or found["count"]:
        return found[0]
    if found["group"]:
        return f"(?P<{found['name']}>"
    if found["flags"]:
        return "(?:" if found["colon"] == ":" else ""
    if found["reference"]:
        return f"(?P={found[0][3:-1]})"
    return "" if found["nothing"] else "x"
