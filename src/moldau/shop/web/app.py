"""● The ASGI application: routes, bodies of bounded size, answers and problems as JSON.  Served by uvicorn."""

import asyncio
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from moldau.pipelines.validation.model import State
from moldau.shop.burgers.promotion import MOST_A_CLAIM, Claim, Refused
from moldau.shop.inside import Inside, Kept
from moldau.shop.live.stream import Live
from moldau.shop.orders.requests import MOST_WAIT_S
from moldau.shop.orders.rows import public
from moldau.shop.web.fields import Fields, json_object
from moldau.shop.web.keys import HEADER, digest_of, id_of, idempotency_key
from moldau.shop.web.openapi import document
from moldau.shop.web.problems import MEDIA_TYPE, Problem, Wrong
from moldau.shop.writer import Unavailable

LOG: Final = logging.getLogger(__name__)
PAGES: Final = Path(__file__).parent / "pages"
PAGE_HEADERS: Final = {"Cache-Control": "no-cache", "Content-Security-Policy": "default-src 'self'; img-src data:"}
MOST_BODY_BYTES: Final = 256 * 1024
ANSWER_WITHIN_S: Final = 20.0
BODY_WITHIN_S: Final = 10.0


class Web:
    """`app` is the ASGI application."""

    def __init__(self, kept: Kept, live: Live, *, is_open: bool = True) -> None:
        self._is_open = is_open
        self._kept = kept
        self._live = live
        routes = [
            Route("/orders", self._place, methods=["POST"]),
            Route("/orders", self._search, methods=["GET"]),
            Route("/orders/{order_id}", self._order, methods=["GET"]),
            Route("/burgers", self._claim, methods=["POST"]),
            Route("/burgers/{claim_id}", self._claimed, methods=["GET"]),
            Route("/burgers/{claim_id}/payment", self._pay, methods=["POST"]),
            Route("/events", self._events, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/openapi.json", self._openapi, methods=["GET"]),
            *(Route(path, self._page, methods=["GET"]) for path in ("/", "/docs", "/live.css", "/live.js", "/docs.js")),
        ]
        handlers: Mapping[Any, Any] = {
            Problem: _problem,
            HTTPException: _http,
            Unavailable: _unavailable,
            TimeoutError: _late,
            500: _mistake,
        }
        self.app = Starlette(routes=routes, exception_handlers=handlers)

    def _open(self) -> Inside:
        """The inside, for requests that change something."""
        if not self._is_open:
            raise Problem(403, "This shop only shows what happens: it was started with --read-only.")
        return self._inside()

    def _inside(self) -> Inside:
        if self._kept.inside is None:
            raise Unavailable("the shop is opening, or no broker answers")
        return self._kept.inside

    async def _place(self, request: Request) -> Response:
        self._open()
        key, body = idempotency_key(request.headers.get(HEADER)), json_object(await _body(request))
        async with asyncio.timeout(ANSWER_WITHIN_S):
            order_id, was_there = await self._open().orders.place(key, body)
        href = f"/orders/{order_id}"
        headers = {"Location": href, "Idempotent-Replayed": "true" if was_there else "false"}
        return _json({"order_id": order_id, "state": State.CREATED, "href": href, "verdict": f"{href}?wait=30"}, 202, headers)

    async def _order(self, request: Request) -> Response:
        order_id, wait_s = request.path_params["order_id"], _wait(request)
        found = await self._inside().orders.find(order_id, wait_s)
        if found is None:
            raise Problem(404, f"There is no order {order_id[:80]}.")
        return _json(public(found))

    async def _search(self, request: Request) -> Response:
        query = request.query_params.get("q", "")
        if not query.strip() or len(query) > 200:
            raise Problem(
                400, "q: words are expected, such as OUT_OF_STOCK or customer:42", [Wrong("q", "1 to 200 characters are expected")]
            )
        return _json({"orders": [public(body) for body in self._inside().orders.search(query)]})

    async def _claim(self, request: Request) -> Response:
        self._open()
        key, body = idempotency_key(request.headers.get(HEADER)), json_object(await _body(request))
        fields = Fields(body)
        fields.only(("customer_id", "quantity"))
        customer_id, quantity = fields.text("customer_id"), fields.integer("quantity", least=1, most=MOST_A_CLAIM)
        fields.done()
        wanted = Claim(id_of("b", customer_id, key), customer_id, quantity, 0, 0, digest=digest_of(body))
        async with asyncio.timeout(ANSWER_WITHIN_S):
            found = await self._open().burgers.claim(wanted)
        if isinstance(found, Refused):
            return _json({"accepted": False, "reason": found.reason, "left": found.left, "again_ms": found.again_ms}, 409)
        href = f"/burgers/{found.claim_id}"
        return _json({"accepted": True, **_claim_json(found), "href": href, "payment": f"{href}/payment"}, 201, {"Location": href})

    async def _claimed(self, request: Request) -> Response:
        found = self._inside().burgers.get(request.path_params["claim_id"])
        if found is None:
            raise Problem(404, "There is no such claim, or it was settled more than a day ago.")
        return _json(_claim_json(found))

    async def _pay(self, request: Request) -> Response:
        async with asyncio.timeout(ANSWER_WITHIN_S):
            return _json(_claim_json(await self._open().burgers.pay(request.path_params["claim_id"])))

    async def _events(self, request: Request) -> Response:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(self._live.stream(), media_type="text/event-stream", headers=headers)

    async def _health(self, request: Request) -> Response:
        return _json({"open": self._kept.inside is not None}, 200 if self._kept.inside is not None else 503)

    async def _openapi(self, request: Request) -> Response:
        return _json(document())

    async def _page(self, request: Request) -> Response:
        name = {"/": "live.html", "/docs": "docs.html"}.get(request.url.path, request.url.path.lstrip("/"))
        return FileResponse(PAGES / name, headers=PAGE_HEADERS)


def _claim_json(claim: Claim) -> dict[str, Any]:
    found = claim._asdict()
    del found["digest"]
    return found


def _wait(request: Request) -> float:
    given = request.query_params.get("wait", "0")
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MOST_WAIT_S:
        detail = f"seconds from 0 to {MOST_WAIT_S:.0f} are expected, not {given[:40]!r}"
        raise Problem(400, f"wait: {detail}", [Wrong("wait", detail)])
    return seconds


async def _body(request: Request) -> bytes:
    """Errors: Problem."""
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, f"Content-Type: application/json is expected, not {kind[:60]}", [Wrong("Content-Type", "it is another")])
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            async for part in request.stream():
                size += len(part)
                if size > MOST_BODY_BYTES:
                    raise Problem(413, f"A body may have {MOST_BODY_BYTES} bytes.")
                parts.append(part)
    except TimeoutError as error:
        raise Problem(408, f"The body did not come within {BODY_WITHIN_S:.0f} s.") from error
    return b"".join(parts)


def _json(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps(body, separators=(",", ":")), status, headers, "application/json")


def _problem(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    headers = {} if problem.retry_after_s is None else {"Retry-After": str(problem.retry_after_s)}
    return Response(json.dumps(problem.body()), problem.status, headers, MEDIA_TYPE)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = f"There is no {request.url.path[:80]}." if error.status_code == 404 else str(error.detail)
    answer = _problem(request, Problem(error.status_code, detail))
    answer.headers.update(error.headers or {})
    return answer


def _unavailable(request: Request, error: Exception) -> Response:
    return _problem(request, Problem(503, f"Ask again with the same key: {error}.", retry_after_s=1))


def _late(request: Request, error: Exception) -> Response:
    return _problem(request, Problem(503, "It was not committed in time. Ask again with the same key.", retry_after_s=1))


def _mistake(request: Request, error: Exception) -> Response:
    LOG.error("%s %s", request.method, request.url.path, exc_info=error)
    return _problem(request, Problem(500, "A mistake of the shop's; its log tells more."))
