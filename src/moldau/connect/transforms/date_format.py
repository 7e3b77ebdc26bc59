"""◇ The patterns of Java's SimpleDateFormat, in UTC, as far as timestamps need them: `yyyy-MM-dd'T'HH:mm:ss.SSSXXX` and the like.

Letters: y M d H h m s S a E D Z X z, and text in quotes.  Another letter is an error when the pattern is read.
"""

import re
from datetime import UTC, datetime, timedelta, timezone
from itertools import groupby
from typing import Final

from moldau.connect.errors import ConfigError, DataError

_MONTHS: Final = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
_DAYS: Final = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_LETTERS: Final = set("yMdHhmsSaEDZXz")


class DateFormat:
    """Errors when made: ConfigError."""

    def __init__(self, pattern: str) -> None:
        self._parts = list(_parts(pattern))
        for letters, is_text in self._parts:
            if not is_text and letters[0] not in _LETTERS:
                raise ConfigError(f"TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: {pattern}")

    def format(self, value: datetime) -> str:
        return "".join(letters if is_text else _written(letters, value) for letters, is_text in self._parts)

    def parse(self, text: str) -> datetime:
        """Errors: DataError."""
        pattern = "".join(re.escape(letters) if is_text else _pattern(letters) for letters, is_text in self._parts)
        found = re.match(pattern, text)
        if found is None:
            raise DataError(f"Could not parse timestamp: value ({text}) does not match pattern ({''.join(one for one, _ in self._parts)})")
        try:
            return _value({name: one for name, one in found.groupdict().items() if one is not None})
        except ValueError as error:
            raise DataError(f"Could not parse timestamp: value ({text}): {error}") from error


def _parts(pattern: str) -> "list[tuple[str, bool]]":
    """Runs of one letter, and texts between them; the second of each pair says whether it is text."""
    found: list[tuple[str, bool]] = []
    for number, piece in enumerate(re.split(r"'((?:[^']|'')*)'", pattern)):
        if number % 2:
            found.append((piece.replace("''", "'") or "'", True))
            continue
        for letter, run in groupby(piece):
            found.append(("".join(run), not (letter.isascii() and letter.isalpha())))
    return found


def _written(letters: str, value: datetime) -> str:
    letter, width = letters[0], len(letters)
    if letter == "y":
        return f"{value.year % 100:02d}" if width == 2 else f"{value.year:0{width}d}"
    if letter == "M" and width >= 3:
        return _MONTHS[value.month - 1][: 3 if width == 3 else None]
    if letter == "E":
        return _DAYS[value.weekday()][: None if width >= 4 else 3]
    if letter == "a":
        return "AM" if value.hour < 12 else "PM"
    if letter in "ZXz":
        return {"Z": "+0000", "X": "Z", "z": "UTC"}[letter]
    numbers = {
        "M": value.month, "d": value.day, "H": value.hour, "h": value.hour % 12 or 12, "m": value.minute, "s": value.second,
        "S": value.microsecond // 1000, "D": value.timetuple().tm_yday,
    }  # fmt: skip
    return f"{numbers[letter]:0{width}d}"


def _pattern(letters: str) -> str:
    letter, width = letters[0], len(letters)
    if letter == "y":
        return r"(?P<y2>\d{2})" if width == 2 else r"(?P<y>\d{1,4})"
    if letter == "M" and width >= 3:
        return f"(?P<mon>{'|'.join([*_MONTHS, *(one[:3] for one in _MONTHS)])})"
    if letter == "E":
        return f"(?:{'|'.join([*_DAYS, *(one[:3] for one in _DAYS)])})"
    if letter == "a":
        return "(?P<a>AM|PM)"
    if letter in "ZXz":
        return r"(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)"
    return rf"(?P<{letter}>\d{{1,3}})" if letter in "SD" else rf"(?P<{letter}>\d{{1,2}})"


def _value(found: dict[str, str]) -> datetime:
    month = int(found.get("M", 1))
    if "mon" in found:
        month = [one[:3] for one in _MONTHS].index(found["mon"][:3]) + 1
    hour = int(found.get("H", 0))
    if "h" in found:
        hour = int(found["h"]) % 12 + (12 if found.get("a") == "PM" else 0)
    year = 2000 + int(found["y2"]) if "y2" in found else int(found.get("y", 1970))
    value = datetime(
        year, month, int(found.get("d", 1)), hour, int(found.get("m", 0)), int(found.get("s", 0)), int(found.get("S", 0)) * 1000,
        tzinfo=_zone(found.get("zone", "Z")),
    )  # fmt: skip
    if "D" in found:
        value = value.replace(month=1, day=1) + timedelta(days=int(found["D"]) - 1)
    return value.astimezone(UTC)


def _zone(text: str) -> timezone:
    if text in ("Z", "UTC", "GMT"):
        return UTC
    digits = text[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
    return timezone(-offset if text[0] == "-" else offset)
