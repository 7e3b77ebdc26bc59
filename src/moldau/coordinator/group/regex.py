"""◇ Regular expressions of topic names, with an engine whose time is linear in the name: a client's pattern cannot hold up the broker.

The language is RE2, as Kafka's (RE2/J); an expression has to match the whole name.
"""

from functools import lru_cache
from typing import Protocol, cast


class Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


class RegexError(ValueError):
    """The error that RE2 finds in the expression."""


LONGEST_REGEX = 4096


@lru_cache(maxsize=256)
def compile_regex(regex: str) -> Pattern:
    """Compile an expression.  Errors: RegexError."""
    import re2  # a native library, loaded when the first group subscribes by an expression

    if len(regex) > LONGEST_REGEX:
        raise RegexError(f"longer than {LONGEST_REGEX} characters")
    options = re2.Options()
    options.log_errors = False
    try:
        return cast(Pattern, re2.compile(regex, options))
    except re2.error as error:
        reason = error.args[0] if error.args else "not valid"
        raise RegexError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None
