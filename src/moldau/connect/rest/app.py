"""● The ASGI application: `Answers` answers each request, and the answer is sent as JSON.  Requests for another worker are passed on to it.

Served by uvicorn.

Source: RestServer, HerderRequestHandler, ConnectExceptionMapper.
"""

import asyncio
import json
import logging
from typing import Any, Final
from urllib.parse import parse_qs

import httpx
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from moldau.clients.cluster import Unreachable
from moldau.connect.errors import BadRequest, ConnectError, Rebalancing
from moldau.connect.rest.answers import Answer, Answers, Asked
from moldau.connect.rest.bodies import parse
from moldau.connect.rest.routes import find, methods_of
from moldau.connect.worker.requests import STARTING, Elsewhere, Requests
from moldau.errors import KafkaError

LOG: Final = logging.getLogger(__name__)
MAX_BODY_BYTES: Final = 16 << 20
WITHIN_S: Final = 90.0
JSON: Final = "application/json"
PASSED_ON: Final = ("content-type", "x-connect-authorization", "x-connect-request-signature-algorithm")


class RestApp:
    def __init__(self, requests: Requests) -> None:
        self._answers = Answers(requests)
        self._http = requests.herder.http

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            async with asyncio.timeout(WITHIN_S):
                response = await self._respond(request)
        except ConnectError as error:
            response = _json(error.status, {"error_code": error.status, "message": str(error)})
        except TimeoutError:
            response = _json(500, {"error_code": 500, "message": "Request timed out"})
        except (KafkaError, Unreachable, OSError) as error:
            response = _json(500, {"error_code": 500, "message": f"the cluster cannot be asked: {error}"})
        except Exception as error:
            LOG.exception("%s %s", request.method, request.url.path)
            response = _json(500, {"error_code": 500, "message": str(error)})
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        raw_path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1").partition("?")[0]
        if request.method == "OPTIONS" and (methods := methods_of(raw_path)):
            return Response(", ".join(dict.fromkeys(["HEAD", *methods, "OPTIONS"])), media_type="text/plain")
        method = "GET" if request.method == "HEAD" else request.method
        route, path = find(method, raw_path)
        body = await _body(request)
        query = parse_qs(request.url.query, keep_blank_values=True)
        asked = Asked(
            path,
            query,
            request.headers,
            body,
            parse(request.headers.get("content-type"), body) if body or method in ("POST", "PUT", "PATCH") else None,
        )
        try:
            answer: Answer = await getattr(self._answers, route.name)(asked)
        except Elsewhere as error:
            return await self._passed_on(request, raw_path, query, body, error.url)
        headers = {"Location": answer.location} if answer.location else {}
        return Response(status_code=answer.status, headers=headers) if answer.body is None else _json(answer.status, answer.body, headers)

    async def _passed_on(self, request: Request, raw_path: str, query: dict[str, list[str]], body: bytes, url: str) -> Response:
        """Pass a request on: once to the leader, and from there once to the worker that runs the connector or task."""
        forward = (query.get("forward") or [""])[0]
        if forward == "false":
            raise Rebalancing(STARTING)
        params: dict[str, Any] = {**query, "forward": "false" if forward == "true" else "true"}
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        try:
            answer = await self._http.request(request.method, url.rstrip("/") + raw_path, params=params, content=body, headers=headers)
        except httpx.HTTPError as error:
            raise ConnectError(f"IO Error trying to forward REST request to {url}: {error}") from error
        kept = {name: answer.headers[name] for name in ("location",) if name in answer.headers}
        return Response(answer.content, answer.status_code, kept, answer.headers.get("content-type"))


async def _body(request: Request) -> bytes:
    """Errors: BadRequest."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_BODY_BYTES:
            raise BadRequest(f"a body may have {MAX_BODY_BYTES} bytes")
        parts.append(part)
    return b"".join(parts)


def _json(status: int, body: Any, headers: dict[str, str] | None = None) -> Response:
    content = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(content, status, headers, JSON)
