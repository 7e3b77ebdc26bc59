"""● Lag and pace of the running pipelines, from the figures that they serve in Prometheus' form."""

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx

LOG: Final = logging.getLogger(__name__)
EVERY_S: Final = 1.0
WITHIN_S: Final = 2.0
MOST_BYTES: Final = 1 << 20
_LINE: Final = re.compile(r'^moldau_pipeline_(\w+)\{query="([^"]*)"\} (\S+)$', re.MULTILINE)
NAMES: Final = {
    "lag_records": "lag",
    "state_rows": "state_rows",
    "batch_id": "batch",
    "rows_total": "rows",
    "dead_letters_total": "dead_letters",
    "restarts_total": "restarts",
    "batch_seconds_sum": "seconds",
    "batch_seconds_count": "batches",
}


def queries_of(text: str) -> dict[str, dict[str, float]]:
    """The figures of each query, by its name.  Other figures, and values that are no numbers, are left out."""
    found: dict[str, dict[str, float]] = {}
    for name, query, value in _LINE.findall(text):
        if name in NAMES:
            try:
                found.setdefault(query, {})[NAMES[name]] = float(value)
            except ValueError:
                continue
    return found


class Queries:
    def __init__(self, urls: Sequence[str], told: Callable[[], None]) -> None:
        self._urls = urls
        self._told = told
        self._found: dict[str, dict[str, float]] = {}

    async def run(self) -> None:
        """Runs for ever.  A pipeline that does not answer is shown no longer."""
        if not self._urls:
            return
        async with httpx.AsyncClient(timeout=WITHIN_S) as http:
            while True:
                answers = await asyncio.gather(*(_ask(http, url) for url in self._urls))
                self._found = {name: one for answer in answers for name, one in answer.items()}
                self._told()
                await asyncio.sleep(EVERY_S)

    def frame(self) -> list[dict[str, Any]]:
        return [{"name": name, **figures} for name, figures in sorted(self._found.items())]


async def _ask(http: httpx.AsyncClient, url: str) -> dict[str, dict[str, float]]:
    try:
        answer = await http.get(url)
        return queries_of(answer.text[:MOST_BYTES]) if answer.status_code == 200 else {}
    except httpx.HTTPError:
        return {}
