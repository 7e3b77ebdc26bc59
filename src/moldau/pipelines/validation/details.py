"""◇ The details check: what is wrong with an order as it is written.  It needs no state."""

from collections.abc import Sequence

from moldau.pipelines.validation.model import Line, Reason

MOST_UNITS_A_LINE = 24


def first_fault(lines: Sequence[Line], total_cents: int) -> Reason | None:
    """The first thing wrong, or None.  Python's whole numbers have no end, so no sum overflows."""
    if not lines:
        return Reason.NO_LINES
    if not all(1 <= line.quantity <= MOST_UNITS_A_LINE for line in lines):
        return Reason.QUANTITY
    if total_cents <= 0:
        return Reason.NOTHING_TO_PAY
    if total_cents != sum(line.cents for line in lines):
        return Reason.TOTAL_MISMATCH
    return None
