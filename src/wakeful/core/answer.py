"""A query's result as every interface sends it."""

from msgspec import Struct


class Answer(Struct, frozen=True):
    """A body to send as it is, and the exit code a command shows for it."""

    body: bytes
    exit_code: int = 0
