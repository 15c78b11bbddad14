"""Result of a query: an encoded body that every interface sends as it is, and an exit code."""

from msgspec import Struct


class QueryResult(Struct, frozen=True):
    body: bytes
    exit_code: int = 0
