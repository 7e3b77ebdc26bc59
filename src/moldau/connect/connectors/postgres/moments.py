"""◇ PostgreSQL's dates, times and intervals as Debezium tells them.  Years go beyond those of Python's calendar.

The texts are those of `datestyle = ISO`, `intervalstyle = postgres` and `timezone = UTC`.
"""

import re
from collections.abc import Callable
from datetime import date
from typing import Any, Final

from moldau.connect import data
from moldau.connect.connectors.postgres.modes import Modes
from moldau.connect.data import EPOCH, Schema, Type, from_millis

Made = tuple[Schema, Callable[[str], Any], Any, Any]
"""Schema, reader, value in place of none, value in place of one that was left as it was."""
SECOND_US: Final = 1_000_000
DAY_US: Final = 86_400 * SECOND_US
MONTH_US: Final = 2_629_800 * SECOND_US
"""30.4375 days."""
POSITIVE_INFINITY_US: Final = 9_223_372_036_825_200_000
NEGATIVE_INFINITY_US: Final = -9_223_372_036_832_400_000
INT32_MAX: Final = (1 << 31) - 1
CYCLE_YEARS: Final = 400
CYCLE_DAYS: Final = 146_097
_DATE: Final = re.compile(r"(\d+)-(\d\d)-(\d\d)")
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)(?:\.(\d+))?")
_ZONE: Final = re.compile(r"([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?$")
_PART: Final = re.compile(r"([+-]?\d+) (year|mon|day)s?")
_CLOCK: Final = re.compile(r"([+-])?(\d+):(\d\d):(\d\d)(?:\.(\d+))?")


def _micros(hours: str, minutes: str, seconds: str, fraction: str | None) -> int:
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * SECOND_US + int((fraction or "0").ljust(6, "0"))


def days(text: str) -> int:
    """Days since 1970.  A date without end becomes the largest or smallest number."""
    if text in ("infinity", "-infinity"):
        return INT32_MAX if text == "infinity" else -INT32_MAX - 1
    found = _DATE.match(text)
    if found is None:
        raise ValueError(text)
    year, month, day = map(int, found.groups())
    year = 1 - year if text.endswith("BC") else year
    cycles, within = divmod(year - 2000, CYCLE_YEARS)
    return (date(2000 + within, month, day) - EPOCH.date()).days + cycles * CYCLE_DAYS


def time_micros(text: str) -> int:
    """Microseconds since midnight; with a zone, in UTC."""
    found = _TIME.match(text)
    if found is None:
        raise ValueError(text)
    micros = _micros(*found.groups())
    zone = _ZONE.search(text)
    if zone is None:
        return micros
    sign, hours, minutes, seconds = zone.groups()
    shift = _micros(hours, minutes or "0", seconds or "0", None)
    return (micros - shift if sign == "+" else micros + shift) % DAY_US


def timestamp_micros(text: str) -> int:
    """Microseconds since 1970, of a text in UTC."""
    if text in ("infinity", "-infinity"):
        return POSITIVE_INFINITY_US if text == "infinity" else NEGATIVE_INFINITY_US
    found = _TIME.search(text)
    if found is None:
        raise ValueError(text)
    return days(text) * DAY_US + _micros(*found.groups())


def interval_parts(text: str) -> tuple[int, int, int]:
    """Months, days and microseconds."""
    months = found_days = micros = 0
    for count, unit in _PART.findall(text):
        if unit == "day":
            found_days += int(count)
        else:
            months += int(count) * (12 if unit == "year" else 1)
    if clock := _CLOCK.search(text):
        sign, *parts = clock.groups()
        micros = _micros(*parts) * (-1 if sign == "-" else 1)
    return months, found_days, micros


def interval_micros(text: str) -> int:
    months, found_days, micros = interval_parts(text)
    return months * MONTH_US + found_days * DAY_US + micros


def interval_text(text: str) -> str:
    """ISO 8601, as Debezium writes it: all units but seconds are whole numbers."""
    months, found_days, micros = interval_parts(text)
    sign = -1 if micros < 0 else 1
    minutes, rest = divmod(abs(micros), 60 * SECOND_US)
    hours, minutes = divmod(minutes, 60)
    years, months = int(months / 12), months - int(months / 12) * 12
    seconds = f"{sign * rest / SECOND_US:.6f}".rstrip("0").rstrip(".")
    return f"P{years}Y{months}M{found_days}DT{sign * hours}H{sign * minutes}M{seconds}S"


def zoned_timestamp(text: str) -> str:
    """Six places; a year of more than four digits has a sign."""
    if text in ("infinity", "-infinity"):
        return text
    date_, clock = _DATE.match(text), _TIME.search(text)
    if date_ is None or clock is None:
        raise ValueError(text)
    year = int(date_[1])
    if text.endswith("BC"):
        year = 1 - year
    shown = f"+{year}" if year > 9999 else f"{year:05d}" if year < 0 else f"{year:04d}"
    return f"{shown}-{date_[2]}-{date_[3]}T{clock[1]}:{clock[2]}:{clock[3]}.{(clock[4] or '').ljust(6, '0')}Z"


def zoned_time(text: str) -> str:
    seconds, micros = divmod(time_micros(text), SECOND_US)
    fraction = f".{micros:06d}".rstrip("0") if micros else ""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}Z"


def _named(kind: Type, name: str) -> Schema:
    return Schema(kind, name=f"io.debezium.time.{name}", version=1)


def _is_short(modifier: int) -> bool:
    return 0 <= modifier <= 3


def _date(modifier: int, modes: Modes) -> Made:
    if modes.time == "connect":
        return data.date(), lambda text: from_millis(days(text) * (DAY_US // 1000)), EPOCH, None
    return _named(Type.INT32, "Date"), days, 0, None


def _time(modifier: int, modes: Modes) -> Made:
    if modes.time == "connect":
        return data.time_of_day(), lambda text: from_millis(time_micros(text) // 1000), EPOCH, None
    if _is_short(modifier) and modes.time == "adaptive":
        return _named(Type.INT32, "Time"), lambda text: time_micros(text) // 1000, 0, None
    return _named(Type.INT64, "MicroTime"), time_micros, 0, None


def _timestamp(modifier: int, modes: Modes) -> Made:
    if modes.time == "connect":
        return data.timestamp(), lambda text: from_millis(timestamp_micros(text) // 1000), EPOCH, None
    if _is_short(modifier):
        return _named(Type.INT64, "Timestamp"), lambda text: timestamp_micros(text) // 1000, 0, None
    return _named(Type.INT64, "MicroTimestamp"), timestamp_micros, 0, None


def _interval(modifier: int, modes: Modes) -> Made:
    if modes.interval == "string":
        return _named(Type.STRING, "Interval"), interval_text, "P0Y0M0DT0H0M0S", modes.placeholder
    return _named(Type.INT64, "MicroDuration"), interval_micros, 0, None


MAKERS: Final[dict[str, Callable[[int, Modes], Made]]] = {
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timetz": lambda modifier, modes: (_named(Type.STRING, "ZonedTime"), zoned_time, "00:00:00Z", modes.placeholder),
    "timestamptz": lambda modifier, modes: (
        _named(Type.STRING, "ZonedTimestamp"),
        zoned_timestamp,
        "1970-01-01T00:00:00Z",
        modes.placeholder,
    ),
    "interval": _interval,
}
