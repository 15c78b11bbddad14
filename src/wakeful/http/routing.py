"""The route table. A row names a method, a path, the handler, the struct it takes and the struct it answers with.

The rows route requests, decode queries and bodies, and make the API description (`openapi`). The gate checks a request
before it comes here, and answers every error raised here with a problem document.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Generic, TypedDict, TypeVar, Unpack, overload

import msgspec
from msgspec import Struct, field

from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError
from wakeful.http.asgi import Receive, Scope, Send
from wakeful.http.auth import WEBSOCKET
from wakeful.http.errors import PROBLEMS, BadRequest, MethodNotAllowed, NoSuchRoute
from wakeful.http.queries import decode_query, describe_error, parse_query
from wakeful.http.responses import EncodedResponse, TextResponse

JSON: Final = "application/json"
# An id is always the third part of a path, as in /api/sessions/{session_id}/health: two dictionaries find every route.
_ID_SEGMENT: Final = 3
KEY_CHARS_MAX: Final = 200

T = TypeVar("T")
R = TypeVar("R")


class BadIdempotencyKey(OperatorError, code="bad-idempotency-key"):
    """An Idempotency-Key has {chars_max} printable characters at most."""


class HttpRequest(Generic[T]):
    """One request. `id` is the path segment in the route's braces, `input` the decoded query or body."""

    __slots__ = ("id", "input", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive, id_: str, input_: T) -> None:
        self.scope = scope
        self.receive = receive
        self.id = id_
        self.input = input_

    @property
    def number(self) -> int:
        """The id of a route with `:int` in its path."""
        return int(self.id)

    def header(self, name: bytes) -> str | None:
        """The first header of this name, which must be lower case."""
        for key, value in self.scope["headers"]:
            if key == name:
                return str(value, "latin-1")
        return None

    def idempotency_key(self) -> str | None:
        """The caller's key for this request, if it sent one. Raises BadIdempotencyKey."""
        key = self.header(b"idempotency-key")
        if key is not None and not (0 < len(key) <= KEY_CHARS_MAX and key.isprintable()):
            raise BadIdempotencyKey(chars_max=KEY_CHARS_MAX)
        return key


Handler = Callable[[HttpRequest[T]], Awaitable[EncodedResponse[R]]]


class Route(Struct, frozen=True):
    """A row of the table. `input` is the struct of the query (GET) or of the body (POST); None: it takes neither."""

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    answers: Any = None
    input: Any = None
    status: int = 200
    problems: Mapping[int, str] = field(default_factory=lambda: PROBLEMS)
    media_type: str = JSON
    # The body may be missing or null.
    optional: bool = False
    # A file of the page: not part of the API, and the page itself reads the query.
    of_page: bool = False


class RouteOptions(TypedDict, total=False):
    status: int
    problems: Mapping[int, str]
    media_type: str


@overload
def get(path: str, handler: Handler[None, R], answers: type[R], **options: Unpack[RouteOptions]) -> Route: ...
@overload
def get(
    path: str, handler: Handler[T, R], answers: type[R], *, query: type[T], **options: Unpack[RouteOptions]
) -> Route: ...
def get(
    path: str,
    handler: Callable[..., Awaitable[Any]],
    answers: type[Any],
    *,
    query: type[Any] | None = None,
    **options: Unpack[RouteOptions],
) -> Route:
    return Route("GET", path, handler, answers, query, **options)


@overload
def post(
    path: str, handler: Handler[None, R], answers: type[R], **options: Unpack[RouteOptions]
) -> Route: ...
@overload
def post(
    path: str, handler: Handler[T, R], answers: type[R], *, body: type[T], **options: Unpack[RouteOptions]
) -> Route: ...
@overload
def post(
    path: str,
    handler: Handler[T | None, R],
    answers: type[R],
    *,
    optional_body: type[T],
    **options: Unpack[RouteOptions],
) -> Route: ...
def post(
    path: str,
    handler: Callable[..., Awaitable[Any]],
    answers: type[Any],
    *,
    body: type[Any] | None = None,
    optional_body: type[Any] | None = None,
    **options: Unpack[RouteOptions],
) -> Route:
    input_ = optional_body | None if optional_body is not None else body
    return Route("POST", path, handler, answers, input_, optional=optional_body is not None, **options)


def websocket(path: str, handler: Callable[[Receive, Send], Awaitable[None]]) -> Route:
    return Route(WEBSOCKET, path, handler)


class Router:
    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._routes_without_id: dict[str, dict[str, Route]] = {}
        self._routes_with_id: dict[tuple[str, str], dict[str, Route]] = {}
        for route in self.routes:
            methods = self._methods_at(route.path)
            assert route.method not in methods, f"{route.method} {route.path} is in the table twice"
            methods[route.method] = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises NoSuchRoute, MethodNotAllowed, UnknownParameter, RepeatedParameter, BadRequest, and the
        handler's errors."""
        methods, id_ = self._find(scope["path"])
        if scope["type"] == "websocket":
            if WEBSOCKET not in methods:
                raise NoSuchRoute
            await methods[WEBSOCKET].handler(receive, send)
            return
        method = scope["method"]
        route = methods.get(method)
        if route is None:
            await _answer_options(method, methods, send)
            return
        if ":int}" in route.path:
            _check_number(id_)
        input_ = await _decode_input(route, scope["query_string"], receive)
        answer = await route.handler(HttpRequest(scope, receive, id_, input_))
        await answer.send(send, route.status)

    def _methods_at(self, path: str) -> dict[str, Route]:
        if "{" not in path:
            return self._routes_without_id.setdefault(path, {})
        parts = path.split("/", _ID_SEGMENT + 1)
        assert parts[_ID_SEGMENT].startswith("{"), f"{path} has its id in another place"
        return self._routes_with_id.setdefault(_split_at_id(parts), {})

    def _find(self, path: str) -> tuple[dict[str, Route], str]:
        """The routes at this path by method, and the id in it."""
        plain = self._routes_without_id.get(path)
        if plain is not None:
            return plain, ""
        parts = path.split("/", _ID_SEGMENT + 1)
        found = self._routes_with_id.get(_split_at_id(parts)) if len(parts) > _ID_SEGMENT else None
        if found is None:
            raise NoSuchRoute
        return found, parts[_ID_SEGMENT]


def _split_at_id(parts: list[str]) -> tuple[str, str]:
    return "/".join(parts[:_ID_SEGMENT]), parts[_ID_SEGMENT + 1] if len(parts) > _ID_SEGMENT + 1 else ""


async def _answer_options(method: str, methods: Mapping[str, Route], send: Send) -> None:
    """Answer OPTIONS with the methods of the path. Raises MethodNotAllowed, which names the same, for any
    other method."""
    if WEBSOCKET in methods:
        raise MethodNotAllowed(allow="websocket")
    allow = ", ".join(sorted({*methods, "OPTIONS"}))
    if method != "OPTIONS":
        raise MethodNotAllowed(allow=allow)
    await send({"type": "http.response.start", "status": 204, "headers": [(b"allow", allow.encode())]})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _check_number(text: str) -> None:
    try:
        int(text)
    except ValueError:
        raise NoSuchRoute from None


async def _decode_input(route: Route, query: bytes, receive: Receive) -> Any:
    if route.of_page:
        return None
    if route.method == "GET" and route.input is not None:
        return decode_query(query, route.input)
    parse_query(query, {})
    return await _decode_body(route, receive) if route.input is not None else None


async def _decode_body(route: Route, receive: Receive) -> Any:
    """Decode the body, which the gate has read whole. Raises BadRequest."""
    body = (await receive())["body"]
    if not body:
        if route.optional:
            return None
        raise BadRequest(reason="its body is missing; an empty one is {}")
    try:
        given = decode_json(body)
    except msgspec.DecodeError as problem:
        raise BadRequest(reason="its body or parameters do not have the right shape") from problem
    try:
        # Not strict: programs in a shell write numbers as text.
        return msgspec.convert(given, route.input, strict=False)
    except msgspec.ValidationError as problem:
        raise BadRequest(reason=describe_error(problem, "data")) from problem


def file_route(path: str, body: bytes, media_type: str) -> Route:

    async def file(_request: HttpRequest[None]) -> TextResponse:
        return TextResponse(body, media_type)

    return Route("GET", path, file, of_page=True)
