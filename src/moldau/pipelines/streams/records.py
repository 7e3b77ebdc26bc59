"""◇ The values between processors: records, changes of tables, windowed keys, and rejected records."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]
Joiner = Callable[[Any, Any], Any]

NULL_KEY: Final = "NULL_KEY"
NULL_KEY_OR_VALUE: Final = "NULL_KEY_OR_VALUE"
LATE: Final = "LATE"
"""The window, or every window, that the record belongs to is closed; or a versioned table's history no longer reaches back to it."""
OUT_OF_ORDER: Final = "OUT_OF_ORDER"
"""An older version of a versioned table's row: joins and aggregates of the table take newer rows only (KIP-914)."""
STALE_RESPONSE: Final = "STALE_RESPONSE"
"""A foreign-key join's answer to a row that has changed since: another answer follows."""
REASON_HEADER: Final = "reason"


class Record(NamedTuple):
    """A record of a topic, or between two processors.  A table's record has a `Change` as its value."""

    key: Any
    value: Any
    timestamp: int
    headers: Headers = ()


class Change(NamedTuple):
    """A change of one row of a table.  None: there is, or was, no such row."""

    new: Any
    old: Any = None
    is_latest: bool = True
    """Whether `new` is the newest version of the row: an older version may come later into a versioned table (KIP-914)."""

    def mapped(self, mapper: Callable[[Any], Any]) -> "Change":
        """The change with both rows changed by `mapper`."""
        return self._replace(new=mapper(self.new), old=mapper(self.old))


class Windowed(NamedTuple):
    """A key in one window, in ms.  `end` is exclusive for tumbling and hopping windows, inclusive for sliding and session windows."""

    key: Any
    start: int
    end: int


class Dropped(NamedTuple):
    """A record that a processor did not take, and the reason.  Kafka Streams counts such records and forgets them."""

    record: Record
    reason: str
