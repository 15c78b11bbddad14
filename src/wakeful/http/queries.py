"""Decodes query parameters into the struct of their route, and refuses unknown ones.

A mistyped parameter would otherwise silently ask for something else.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from wakeful.core.errors import OperatorError
from wakeful.core.text import plain
from wakeful.http.errors import BadRequest

T = TypeVar("T", bound=Struct)


class UnknownParameter(OperatorError, code="unknown-parameter"):
    """Unknown query parameter {shown!r}. {known}"""


class RepeatedParameter(OperatorError, code="repeated-parameter"):
    """The query parameter {shown!r} was sent twice. Send it once."""


def parse_query(query: bytes, known: Mapping[str, bool]) -> dict[str, Any]:
    """The values by name. `known` maps each parameter to whether it may be repeated.

    Raises UnknownParameter, RepeatedParameter, BadRequest.
    """
    values: dict[str, Any] = {}
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict") if query else []
    except UnicodeDecodeError as problem:
        raise BadRequest(reason="the query is not percent-encoded UTF-8") from problem
    for name, value in pairs:
        if name not in known:
            words = f"Known: {', '.join(known)}." if known else "It takes none."
            raise UnknownParameter(shown=plain(name, 40), known=words)
        if known[name]:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise RepeatedParameter(shown=name)
        else:
            values[name] = value
    return values


def decode_query(query: bytes, kind: type[T]) -> T:
    """Raises UnknownParameter, RepeatedParameter, BadRequest."""
    values = parse_query(query, _parameters_of(kind))
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as problem:
        raise BadRequest(reason="; ".join(_invalid_parameters(values, kind))) from problem


def describe_error(problem: msgspec.ValidationError, whole: str) -> str:
    """The wrong member and its error, without the value; `whole` names the value itself."""
    message, _, place = str(problem).partition(" - ")
    member = place.partition("`$.")[2].rstrip("`")
    return f"{member or whole}: {message}"


@lru_cache(maxsize=256)
def _parameters_of(kind: type[Any]) -> Mapping[str, bool]:
    """The parameters by their names in the query, in order, and which may be repeated."""
    hints = {each.encode_name: (each.type, *get_args(each.type)) for each in fields(kind)}
    return {name: any(get_origin(each) is list for each in found) for name, found in hints.items()}


def _invalid_parameters(values: Mapping[str, Any], kind: type[Any]) -> list[str]:
    """Every wrong parameter: msgspec itself stops at the first."""
    found = []
    for each in fields(kind):
        try:
            if each.encode_name in values:
                msgspec.convert(values[each.encode_name], each.type, strict=False)
        except msgspec.ValidationError as problem:
            found.append(describe_error(problem, each.encode_name))
    return found
