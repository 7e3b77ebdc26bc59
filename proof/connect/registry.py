"""● A schema registry for tests: Confluent's REST API as far as converters use it, in a thread of this process.

    with SchemaRegistry(user="u", password="p") as registry:
        httpx.get(f"{registry.url}/subjects")

It checks that an Avro schema can be parsed, gives equal schemas one id, keeps references, and counts requests.  It knows Protobuf schemas
in the form `serialized` only.
"""

import base64
import threading
from collections import Counter
from types import TracebackType
from typing import Any, Self

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from moldau.connect.converters.avro_binary import parsed
from moldau.testing.child import HOST, free_ports


def _error(status: int, code: int, message: str) -> JSONResponse:
    return JSONResponse({"error_code": code, "message": message}, status)


class SchemaRegistry:
    """See the module.  `down`: every request is answered by 503."""

    def __init__(self, *, user: str | None = None, password: str = "") -> None:
        self._auth = None if user is None else "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        (port,) = free_ports(1)
        self.url = f"http://{HOST}:{port}"
        self.schemas: list[dict[str, Any]] = []
        """Schemas by id, from 1 on."""
        self.subjects: dict[str, list[int]] = {}
        self.asked: Counter[str] = Counter()
        self.down = False
        routes = [
            Route("/subjects", self._names),
            Route("/subjects/{subject}/versions", self._register, methods=["POST"]),
            Route("/subjects/{subject}", self._lookup, methods=["POST"]),
            Route("/subjects/{subject}/versions/{version}", self._version),
            Route("/schemas/ids/{id:int}", self._schema),
        ]
        config = uvicorn.Config(Starlette(routes=routes), host=HOST, port=port, log_level="error")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            self._thread.join(0.01)
            assert self._thread.is_alive(), "the registry did not start"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()

    def _refused(self, request: Request) -> Response | None:
        self.asked[f"{request.method} {request.url.path}"] += 1
        if self.down:
            return _error(503, 50301, "down")
        if self._auth is not None and request.headers.get("authorization") != self._auth:
            return _error(401, 40101, "Unauthorized")
        return None

    async def _names(self, request: Request) -> Response:
        return self._refused(request) or JSONResponse(sorted(self.subjects))

    async def _register(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        given = await self._given(request)
        if given["schemaType"] == "AVRO":
            try:
                referred = (self.schemas[self.subjects[one["subject"]][one["version"] - 1] - 1] for one in given.get("references", []))
                parsed((*(one["schema"] for one in referred), given["schema"]))
            except Exception as error:  # whatever fastavro says
                return _error(422, 42201, f"Invalid schema: {error}")
        if given not in self.schemas:
            self.schemas.append(given)
        found = self.schemas.index(given) + 1
        versions = self.subjects.setdefault(request.path_params["subject"], [])
        if found not in versions:
            versions.append(found)
        return JSONResponse({"id": found})

    async def _given(self, request: Request) -> dict[str, Any]:
        body = await request.json()
        more = {"references": body["references"]} if body.get("references") else {}
        return {"schemaType": body.get("schemaType", "AVRO"), "schema": body["schema"], **more}

    async def _lookup(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        given = await self._given(request)
        versions = self.subjects.get(request.path_params["subject"], [])
        found = next((one for one in versions if self.schemas[one - 1] == given), None)
        return (
            _error(404, 40403, "Schema not found")
            if found is None
            else JSONResponse({"id": found, "subject": request.path_params["subject"], "version": versions.index(found) + 1, **given})
        )

    async def _version(self, request: Request) -> Response:
        refused = self._refused(request)
        if refused is not None:
            return refused
        subject, version = request.path_params["subject"], request.path_params["version"]
        versions = self.subjects.get(subject)
        if not versions:
            return _error(404, 40401, "Subject not found.")
        number = len(versions) if version == "latest" else int(version)
        if not 1 <= number <= len(versions):
            return _error(404, 40402, "Version not found.")
        found = versions[number - 1]
        return JSONResponse({"subject": subject, "id": found, "version": number, **self._shown(found)})

    async def _schema(self, request: Request) -> Response:
        number = request.path_params["id"]
        refused = self._refused(request)
        if refused is not None:
            return refused
        known = 1 <= number <= len(self.schemas)
        return JSONResponse(self._shown(number)) if known else _error(404, 40403, "Schema not found")

    def _shown(self, number: int) -> dict[str, Any]:
        """As Confluent's registry, without the type of an Avro schema."""
        found = self.schemas[number - 1]
        return {key: value for key, value in found.items() if key != "schemaType" or value != "AVRO"}
