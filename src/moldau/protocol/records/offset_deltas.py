"""◇ How the offsets of a batch's records are written, where none is missing: 0, 1, 2 … as numbers of variable length.

Called where batches are built and read.
"""

from functools import cache, lru_cache
from typing import Final

from moldau.protocol.varint import write_signed

WIDTHS: Final = (1 << 6, 1 << 13, 1 << 20)
"""The first delta that needs another byte."""
_MOST_KNOWN: Final = 1 << 17
_COLUMN_ROWS: Final = 1 << 16


def offset_deltas(count: int) -> list[bytes]:
    """The first `count` of them."""
    known = _known(1 << (count - 1).bit_length() if count < _MOST_KNOWN else _MOST_KNOWN)
    if count <= len(known):
        return known[:count]
    return known + [write_signed(delta) for delta in range(len(known), count)]


@cache  # a table is never changed: clients on several threads share it
def _known(count: int) -> list[bytes]:
    """`count`: a power of two."""
    if count == 1:
        return [write_signed(0)]
    return _known(count // 2) + [write_signed(delta) for delta in range(count // 2, count)]


@lru_cache(maxsize=len(WIDTHS))
def offset_columns(width: int) -> list[bytes]:
    """All deltas of so many bytes, one column a byte; of three bytes, those below 64 Ki."""
    first = first_of(width)
    rows = b"".join(offset_deltas(min(WIDTHS[width - 1], _COLUMN_ROWS))[first:])
    return [rows[place::width] for place in range(width)]


def first_of(width: int) -> int:
    """The lowest delta that is written in so many bytes."""
    return 0 if width == 1 else WIDTHS[width - 2]
