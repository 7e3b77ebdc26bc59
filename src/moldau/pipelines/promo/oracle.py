"""◇ Every verdict of the promotion once more, by brute force over all lines in their order."""

from collections import defaultdict
from collections.abc import Iterable

from moldau.pipelines.promo.model import PromoLine

HOUR_MS = 3_600_000


def expect(lines: Iterable[PromoLine], *, most: int = 5) -> dict[str, str | None]:
    """Line id → reason, None for PASS."""
    verdicts: dict[str, str | None] = {}
    granted: dict[str, list[PromoLine]] = defaultdict(list)
    newest: dict[str, int] = {}
    for line in lines:
        seen = newest.get(line.customer_id, line.bought_ms)
        if line.bought_ms < seen - HOUR_MS:
            verdicts[line.line_id] = "LATE"
            continue
        newest[line.customer_id] = max(seen, line.bought_ms)
        counted = sum(old.quantity for old in granted[line.customer_id] if line.bought_ms - old.bought_ms < 24 * HOUR_MS)
        if counted + line.quantity > most:
            verdicts[line.line_id] = "OVER_LIMIT"
        else:
            verdicts[line.line_id] = None
            granted[line.customer_id].append(line)
    return verdicts
