"""Connection to one Redis with a deadline on every request.

Refusals and missing answers raise one error, JobsUnreachable. No command is repeated by itself, because one
that was cut off may have been carried out.
"""

import asyncio
from collections.abc import Iterable, Sequence
from hashlib import sha1
from typing import Any, Final
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError, ResponseError, TimeoutError as RedisTimeout

from wakeful.core.errors import OperatorError
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.watchdog.queue import JobsUnreachable

DEADLINE_SECONDS: Final = 10.0
CONNECT_SECONDS: Final = 5.0
# Commands sent together; so many answer within a few milliseconds.
BATCH_COMMANDS_MAX: Final = 500

RedisValue = str | bytes | int | float
_TIMEOUTS: Final = (TimeoutError, RedisTimeout)


class BadRedisUrl(OperatorError):
    """Invalid Redis address {shown}: use redis://, rediss:// or unix:// and an address."""

    code = "bad-redis-url"


class RedisConnection:
    """Connections to one Redis. `address` is shown to people, so it has no password."""

    def __init__(self, url: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self.address = _address_of(url)
        self._deadline_seconds = deadline_seconds
        try:
            self._client = Redis.from_url(
                url,
                # Wakeful sets the deadline: before Python 3.12 the client's own may lose a cancellation.
                socket_timeout=None,
                socket_connect_timeout=min(CONNECT_SECONDS, deadline_seconds),
                retry=Retry(NoBackoff(), 0),
                client_name="wakeful",
            )
        except ValueError as problem:
            raise BadRedisUrl(shown=self.address) from problem

    async def check_reachable(self) -> None:
        """Check that Redis answers; reconnect if it closed the connection. Raises JobsUnreachable."""
        try:
            await self.execute("PING")
        except JobsUnreachable as problem:
            if isinstance(problem.__cause__, _TIMEOUTS):
                raise
            await self._client.connection_pool.disconnect()
            await self.execute("PING")

    async def execute(self, *command: RedisValue) -> Any:
        """The answer to one command. Raises JobsUnreachable."""
        (answer,) = await self.execute_all([command])
        if isinstance(answer, Exception):
            raise self._unreachable(answer) from answer
        return answer

    async def execute_all(self, commands: Iterable[Sequence[RedisValue]]) -> list[Any]:
        """The answers to many commands; a refused command has its error as its answer. Raises JobsUnreachable."""
        pending, answers = list(commands), []
        for at in range(0, len(pending), BATCH_COMMANDS_MAX):
            answers += await self._execute_batch(pending[at : at + BATCH_COMMANDS_MAX])
        return answers

    async def run_script(
        self, script: str, keys: Sequence[RedisValue], arguments: Sequence[RedisValue] = ()
    ) -> str:
        """The answer of a script, as text. Raises JobsUnreachable: then it may have run."""
        name = sha1(script.encode(), usedforsecurity=False).hexdigest()
        answer = (await self.execute_all([("EVALSHA", name, len(keys), *keys, *arguments)]))[0]
        if isinstance(answer, NoScriptError):  # Redis was restarted, or never saw it
            answer = (await self.execute_all([("EVAL", script, len(keys), *keys, *arguments)]))[0]
        if isinstance(answer, Exception):
            raise self._unreachable(answer) from answer
        return answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)

    async def close(self) -> None:
        await self._client.aclose()

    async def _execute_batch(self, commands: Sequence[Sequence[RedisValue]]) -> list[Any]:
        try:
            async with asyncio.timeout(self._deadline_seconds):
                async with self._client.pipeline(transaction=False) as pipeline:
                    for command in commands:
                        pipeline.execute_command(*command)
                    answers = await pipeline.execute(raise_on_error=False)
        except (RedisError, OSError, TimeoutError) as problem:
            raise self._unreachable(problem) from problem
        refusal = next((each for each in answers if _is_refusal_of_all(each)), None)
        if refusal is not None:
            raise self._unreachable(refusal) from refusal
        return answers

    def _unreachable(self, problem: BaseException) -> JobsUnreachable:
        message = plain(redact(str(problem)), 200).rstrip(".") or type(problem).__name__
        late = isinstance(problem, _TIMEOUTS)
        reason = f"no answer within {self._deadline_seconds:g} s" if late else message
        return JobsUnreachable(place=self.address, reason=reason)


def _is_refusal_of_all(answer: object) -> bool:
    """Whether Redis refuses every command: no login, full, read-only. A wrong type concerns one record only."""
    return isinstance(answer, RedisError) and (
        not isinstance(answer, ResponseError)
        or (
            not isinstance(answer, NoScriptError)
            and str(answer).startswith(("NOAUTH", "NOPERM", "OOM", "READONLY", "MISCONF", "MASTERDOWN"))
        )
    )


def _address_of(url: str) -> str:
    """The address without credentials."""
    try:
        parts = urlsplit(url)
        where = (
            parts.path if parts.scheme == "unix" else f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
        )
    except ValueError:
        return "this text"
    return f"Redis at {plain(where, 120)}"
