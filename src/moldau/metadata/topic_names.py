"""◇ What a topic may be called, and which names collide.

Names that differ only in `.` and `_` collide: metrics write both as `_`.  Source: org.apache.kafka.common.internals.Topic.
"""

import re
from typing import Final

MAX_LENGTH: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def invalid_topic_reason(name: str) -> str | None:
    """A sentence that says what is wrong with it; None for a name that can be."""
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
    """What a name with `.` or `_` in it collides by; None for others, which collide with nothing."""
    return name.replace(".", "_") if "." in name or "_" in name else None
