"""Query parameters that a route does not know are refused: one that is mistyped would silently ask for something else.

The page's own files are left alone: what stands behind their paths is for the page to read.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

from litestar import Request
from litestar.params import QueryParameter

from wakeful.domain.errors import OperatorError
from wakeful.domain.plaintext import plain
from wakeful.interfaces.page import PAGE_PATHS


class UnknownParameter(OperatorError):
    """There is no query parameter {shown!r} here. {known}"""

    code = "unknown-parameter"


class RepeatedParameter(OperatorError):
    """The query parameter {shown!r} is given twice, and only one value counts."""

    code = "repeated-parameter"


async def refuse_unknown(request: Request[Any, Any, Any]) -> None:
    """Raises UnknownParameter, RepeatedParameter. Called before every route."""
    query = request.scope.get("query_string", b"")
    if query and request.scope["path"] not in PAGE_PATHS:
        check(query, known_parameters(request.route_handler.fn))


def check(query: bytes, known: Mapping[str, bool]) -> None:
    """`known` says of each parameter whether it may be repeated. Raises UnknownParameter, RepeatedParameter."""
    seen: set[str] = set()
    for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            words = f"Known: {', '.join(known)}." if known else "It takes none."
            raise UnknownParameter(shown=plain(name, 40), known=words)
        if name in seen and not known[name]:
            raise RepeatedParameter(shown=name)
        seen.add(name)


@lru_cache(maxsize=256)
def known_parameters(route: Callable[..., Any]) -> Mapping[str, bool]:
    """The query parameters of a route by the names they are asked with, in order; and which may be repeated."""
    hints = get_type_hints(route, include_extras=True)
    return {
        each.name or argument: _is_list(get_args(hint)[0])
        for argument, hint in hints.items()
        if get_origin(hint) is Annotated
        for each in get_args(hint)[1:]
        if isinstance(each, QueryParameter)
    }


def _is_list(hint: Any) -> bool:
    return get_origin(hint) is list or any(get_origin(each) is list for each in get_args(hint))
