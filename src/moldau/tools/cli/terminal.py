"""● Tables and notes for people.  `rich` is loaded only when something is drawn, and only plain text leaves when nobody watches."""

import sys
from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> None:
    """`right`: columns of numbers.  Tab-separated without decoration when the output is not a terminal, for `cut` and `awk`."""
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [list(columns), *texts]:
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    aligned = set(right)
    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        drawn.add_column(column, justify="right" if column in aligned else "left", overflow="fold")
    for row in texts:
        drawn.add_row(*map(Text, row))
    Console(highlight=False).print(drawn)


def clear() -> None:
    """An empty screen; between two tables of an output that nobody watches, an empty line."""
    print("\x1b[2J\x1b[H" if sys.stdout.isatty() else "", end="" if sys.stdout.isatty() else "\n")


def say(text: str) -> None:
    """A note to whoever watches: on stderr, so that output stays clean."""
    print(text, file=sys.stderr, flush=True)


def size(count: int) -> str:
    """Bytes in words: 1536 → 1.5 KiB."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
