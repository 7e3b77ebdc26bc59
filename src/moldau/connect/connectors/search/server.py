"""● The few requests that a search sink sends: ask for an index, make an index, run a bulk of actions."""

import json
from collections.abc import Sequence
from typing import Any, Final

import httpx

from moldau.connect.connectors.search.documents import Action
from moldau.connect.errors import ConfigError, ConnectError, RetriableError

AGAIN: Final = {408, 429}
SHOWN: Final = 300


class SearchServer:
    """A cluster with one or several addresses.  When one address does not answer, another one is asked."""

    def __init__(self, urls: Sequence[str], *, user: tuple[str, str] | None, connect_s: float, read_s: float) -> None:
        self._urls = [url.rstrip("/") for url in urls]
        self._at = 0
        self._client = httpx.AsyncClient(auth=user, timeout=httpx.Timeout(read_s, connect=connect_s))

    async def close(self) -> None:
        await self._client.aclose()

    async def make_index(self, name: str, mapping: dict[str, Any] | None) -> None:
        """An index that is there stays as it is.  Errors: ConnectError, RetriableError."""
        if (await self._ask("HEAD", f"/{name}", allowed={404})).status_code == 200:
            return
        body = json.dumps({} if mapping is None else {"mappings": mapping}).encode()
        answer = await self._ask("PUT", f"/{name}", body, "application/json", allowed={400})
        if not answer.is_success and "resource_already_exists_exception" not in answer.text:
            raise ConnectError(f"index {name} cannot be made: {answer.text[:SHOWN]}")

    async def bulk(self, actions: Sequence[Action]) -> list[dict[str, Any]]:
        """Send actions.  Returns the `status` of each action, and its `error` if it failed.  Errors: ConnectError, RetriableError."""
        answer = await self._ask("POST", "/_bulk", b"".join(one.lines for one in actions), "application/x-ndjson")
        found = [next(iter(one.values())) for one in answer.json()["items"]]
        if len(found) != len(actions):
            raise ConnectError(f"{self._urls[self._at]} answers {len(found)} of {len(actions)} actions of a bulk request")
        return found

    async def _ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json", *, allowed: set[int] | None = None
    ) -> httpx.Response:
        url = self._urls[self._at]
        try:
            answer = await self._client.request(method, url + path, content=body, headers={"content-type": kind})
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise ConfigError.invalid("connection.url", url, str(error)) from error
        except httpx.HTTPError as error:
            self._at = (self._at + 1) % len(self._urls)
            raise RetriableError(f"{url} cannot be asked: {str(error) or type(error).__name__}") from error
        if answer.is_success or answer.status_code in (allowed or ()):
            return answer
        said = f"{url}{path} answers {answer.status_code}: {answer.text[:SHOWN]}"
        raise RetriableError(said) if answer.status_code in AGAIN or answer.status_code >= 500 else ConnectError(said)
