"""● The search view beside the shop: OpenSearch, and a worker of ours that keeps its index equal to the topic of orders.

The connector is the one that `docs/how-to/run-the-shop.md` shows.
"""

import time
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import httpx

from proof.connect.opensearch import OpenSearch
from proof.connect.own_worker import WorkerProcess

NAME: Final = "orders-search"
INDEX: Final = "orders"
CONNECTOR: Final = {
    "connector.class": "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector",
    "topics": INDEX,
    "key.ignore": "false",
    "schema.ignore": "true",
    "behavior.on.null.values": "delete",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
SOON: Final = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
PAGE: Final = 2_000


class Search:
    """`with` starts OpenSearch; `follow` starts the worker, which is a part to kill like the others."""

    def __init__(self, bootstrap: str) -> None:
        self._server = OpenSearch()
        # A connector's consumer takes part in its group by the worker's defaults: a killed worker's seat is free after a moment.
        consumer = {f"consumer.{name}": value for name, value in SOON.items()}
        self.worker = WorkerProcess(bootstrap, properties={**SOON, **consumer})

    def __enter__(self) -> Self:
        self._server.__enter__()
        self.worker.__enter__()
        self._ask("PUT", f"{self.worker.url}/connectors/{NAME}/config", {**CONNECTOR, "connection.url": self._server.url})
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.worker.__exit__(kind, error, trace)
        self._server.__exit__(kind, error, trace)

    def documents(self) -> dict[str, dict[str, Any]]:
        """All documents, by id."""
        self._ask("POST", f"{self._server.url}/{INDEX}/_refresh")
        found: dict[str, dict[str, Any]] = {}
        answer = self._ask("POST", f"{self._server.url}/{INDEX}/_search?scroll=2m", {"size": PAGE, "sort": ["_doc"]})
        while hits := answer["hits"]["hits"]:
            found |= {one["_id"]: one["_source"] for one in hits}
            answer = self._ask("POST", f"{self._server.url}/_search/scroll", {"scroll": "2m", "scroll_id": answer["_scroll_id"]})
        return found

    def wait_until(self, wanted: dict[str, dict[str, Any]], quiet_s: float) -> list[str]:
        """Mistakes in words, once nothing has changed for so long; empty as soon as the index holds these documents and no others."""
        last, moved_s, found = -1, time.monotonic(), dict[str, dict[str, Any]]()
        while time.monotonic() < moved_s + quiet_s:
            with suppress(httpx.HTTPStatusError, httpx.TimeoutException):  # no index yet, or a busy one
                count = self._count()
                if count != last:
                    last, moved_s = count, time.monotonic()
                if count == len(wanted) and (found := self.documents()) == wanted:
                    return []
            time.sleep(0.2)
        wrong = [key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)]
        return [f"the index has {last} documents, the topic {len(wanted)}; {len(wrong)} differ, such as {sorted(wrong)[:3]}"]

    def wipe(self) -> None:
        """Delete the index and let the connector build it anew from the topic's beginning."""
        connector = f"{self.worker.url}/connectors/{NAME}"
        self._ask("PUT", f"{connector}/stop")
        self._ask("DELETE", f"{self._server.url}/{INDEX}")
        deadline_s = time.monotonic() + 60.0
        while (answer := httpx.delete(f"{connector}/offsets", timeout=30)).status_code != 200:
            assert time.monotonic() < deadline_s, f"the connector's offsets stay: {answer.text}"
            time.sleep(0.1)
        self._ask("PUT", f"{connector}/resume")

    def _count(self) -> int:
        self._ask("POST", f"{self._server.url}/{INDEX}/_refresh")
        return int(self._ask("GET", f"{self._server.url}/{INDEX}/_count")["count"])

    def _ask(self, method: str, url: str, body: dict[str, Any] | None = None) -> Any:
        answer = httpx.request(method, url, json=body, timeout=60, trust_env=False)
        answer.raise_for_status()
        return answer.json() if answer.content else None
