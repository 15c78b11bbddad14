"""API description (OpenAPI 3.1), generated from the route table with msgspec's schemas."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from wakeful import __version__
from wakeful.http.errors import MEDIA_TYPE, ProblemDocument
from wakeful.http.responses import TextResponse
from wakeful.http.routing import JSON, HttpRequest, Route, get

_REF: Final = "#/components/schemas/"
_INFO: Final = {
    "title": "Wakeful",
    "version": __version__,
    "summary": "The state and health of every agent session on this machine.",
    "description": (
        "Errors are RFC 9457 problem documents. `/api/ws` is a WebSocket: it sends "
        '`{"hello": …}` with the body of `/api/status`, then `{"changes": […]}` as sessions change '
        'and `{"agent": …}` as agents do, `{"gone": id}` for a session that is no longer known, `{"status": …}` as incidents and checkpoints change, and `{"supervision": …}` as timers of prompts speak. '
        "It says hello again when a pause begins or ends."
    ),
}


class OpenApiDocument:
    """The document, generated at the first request: that takes a tenth of a second."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = (*routes, self.route())
        self._body: bytes | None = None

    def route(self) -> Route:
        return get("/api/openapi.json", self.openapi, str, problems={})

    async def openapi(self, _request: HttpRequest[None]) -> TextResponse:
        if self._body is None:
            # In a thread, so that no verdict waits for it.
            self._body = await asyncio.to_thread(describe, self._routes)
        return TextResponse(self._body, "application/vnd.oai.openapi+json")


def describe(routes: Iterable[Route]) -> bytes:
    schemas = _Schemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operations = paths.setdefault(route.path.replace(":int}", "}"), {})
        operations[route.method.lower()] = _operation(route, schemas)
    document = {
        "openapi": "3.1.0",
        "info": _INFO,
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas.components},
    }
    return msgspec.json.encode(document)


class _Schemas:
    """The schemas of inputs and answers. Structs of queries are no components: their members become parameters."""

    def __init__(self, routes: Iterable[Route]) -> None:
        kinds = [ProblemDocument, *(each.input for each in routes), *(each.answers for each in routes)]
        wanted = list(dict.fromkeys(kind for kind in kinds if kind is not None))
        found, self.components = msgspec.json.schema_components(wanted, ref_template=_REF + "{name}")
        self._by_kind = dict(zip(wanted, found, strict=True))
        queries = dict.fromkeys(each.input for each in routes if each.method == "GET" and each.input)
        self._queries = {
            kind: self.components.pop(self.schema_of(kind)["$ref"].removeprefix(_REF)) for kind in queries
        }

    def schema_of(self, kind: Any) -> dict[str, Any]:
        schema: dict[str, Any] = self._by_kind[kind]
        return schema

    def parameters(self, query: Any) -> dict[str, Any]:
        properties: dict[str, Any] = self._queries[query]["properties"]
        return properties


def _operation(route: Route, schemas: _Schemas) -> dict[str, Any]:
    name = _camel(route.handler.__name__)
    operation: dict[str, Any] = {"summary": name, "operationId": _camel(route.path) + name}
    parameters = list(_parameters(route, schemas))
    if parameters:
        operation["parameters"] = parameters
    if route.method == "POST" and route.input is not None:
        content = {JSON: {"schema": schemas.schema_of(route.input)}}
        operation["requestBody"] = {"content": content, "required": not route.optional}
    operation["responses"] = _responses(route, schemas)
    return operation


def _parameters(route: Route, schemas: _Schemas) -> Iterable[dict[str, Any]]:
    for name, kind in re.findall(r"{(\w+)(:int)?}", route.path):
        schema = {"type": "integer" if kind else "string"}
        yield {"name": name, "in": "path", "schema": schema, "required": True}
    if route.method == "GET" and route.input is not None:
        for name, schema in schemas.parameters(route.input).items():
            yield {"name": name, "in": "query", "schema": schema, "required": False}


def _responses(route: Route, schemas: _Schemas) -> dict[str, Any]:
    good = {
        "description": HTTPStatus(route.status).description,
        "content": {route.media_type: {"schema": schemas.schema_of(route.answers)}},
    }
    problem = {MEDIA_TYPE: {"schema": schemas.schema_of(ProblemDocument)}}
    refused = {
        str(status): {"description": words, "content": problem} for status, words in route.problems.items()
    }
    return {str(route.status): good, **refused}


def _camel(text: str) -> str:
    """`/api/sessions/{session_id}` becomes ApiSessionsSessionId."""
    return "".join(part.capitalize() for part in re.findall(r"[a-z0-9]+", text.replace(":int}", "}")))
