"""Requests to a session controller, and their answers in a test without a loop."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from wakeful.control.start import RunRequest

T = TypeVar("T")


def now(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def request(*argv: str, **options: Any) -> RunRequest:
    return RunRequest(argv=argv or ("claude",), cwd="/home/me/shop", environ={"PATH": "/bin"}, **options)
