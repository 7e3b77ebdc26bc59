"""● Tables and notes for people.  `rich` draws on a terminal, and is loaded only then; any other output gets plain text."""

import sys
from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> None:
    """Print a table.  `right`: columns of numbers.  An output that is not a terminal gets cells separated by tabs, for `cut` and `awk`."""
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
    """Clear a terminal's screen; on any other output, print an empty line between two tables."""
    print("\x1b[2J\x1b[H" if sys.stdout.isatty() else "", end="" if sys.stdout.isatty() else "\n")


def say(text: str) -> None:
    """Print a note on stderr, so that standard output stays clean."""
    print(text, file=sys.stderr, flush=True)


def size(count: int) -> str:
    """Bytes in words: 1536 → 1.5 KiB."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"
