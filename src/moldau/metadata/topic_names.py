"""◇ Checks names of topics, and finds names that collide.

Names that differ only in `.` and `_` collide: metrics write both as `_`.

Source: org.apache.kafka.common.internals.Topic.
"""

import re
from typing import Final

MAX_LENGTH: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_topic_reason(name: str) -> str | None:
    """A sentence about what is wrong with the name; None for a valid name."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {reason}"


def unified(name: str) -> str | None:
    """The form in which a name with `.` or `_` collides; None for other names, which collide with none."""
    return name.replace(".", "_") if "." in name or "_" in name else None
