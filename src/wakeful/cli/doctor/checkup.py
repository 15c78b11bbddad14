"""What `wakeful doctor` asks the world outside: the clock's keeper, Redis, Telegram, GitHub. Each by a deadline.

Questions only; nothing is changed, sent or started. What an answer means for a person is said by the checks.
"""

import asyncio
import ctypes
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

from wakeful.config.paths import Places
from wakeful.core.errors import WakefulError
from wakeful.integrations.gh import ask_gh
from wakeful.linux.host import Disk
from wakeful.linux.trouble_file import TroubleFile

ANSWER_SECONDS_MAX: Final = 5.0
# TIME_ERROR of adjtimex(2): nobody has set the clock for a while, or ever.
_CLOCK_NOT_KEPT: Final = 5
# struct timex has 208 bytes here; all zero it asks and sets nothing.
_TIMEX_BYTES: Final = 512


def clock_is_kept() -> bool | None:
    """Whether the kernel's clock is kept right by somebody; None where it does not say."""
    answer = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    return None if answer < 0 else answer != _CLOCK_NOT_KEPT


def free_bytes(folder: str) -> int | None:
    """What may still be written there; None where nobody can tell."""
    return Disk(folder).free_bytes()


def redis_trouble(url: str) -> str | None:
    """Why this Redis cannot be used; None if it answers."""
    try:
        from wakeful.watchdog.redis_connection import Connection  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        return "the library is not installed: pip install 'wakeful[fleet]'"

    async def ask() -> None:
        connection = Connection(url, ANSWER_SECONDS_MAX)
        try:
            await connection.reach()
        finally:
            await connection.close()

    return _trouble(ask())


def telegram_trouble(token: str, api: str) -> str | None:
    """Why this bot cannot be used; None if Telegram knows it."""
    from wakeful.integrations.bot import close_bot, explain, open_bot  # noqa: PLC0415 - loaded if set up

    async def ask() -> str | None:
        bot = open_bot(token, api, answer_seconds_max=ANSWER_SECONDS_MAX, kept_connections=1)
        try:
            await bot.get_me()
        except Exception as problem:  # noqa: BLE001 - the library raises what it likes; `explain` tells them apart
            return explain(problem, token).reason
        finally:
            await close_bot(bot)
        return None

    return _trouble(ask())


def gateway_trouble(places: Places) -> str:
    """Why the gateway of this home hears nothing; empty while it does, or none runs."""
    return TroubleFile(Path(places.gateway_trouble)).read()


def gh_trouble() -> str | None:
    """Why `gh` cannot be used; None if it is logged in."""
    return _trouble(ask_gh(("auth", "status"), ANSWER_SECONDS_MAX))


def missing_tools(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if shutil.which(name) is None]


def _trouble(question: Coroutine[None, None, object]) -> str | None:
    async def ask() -> object:
        async with asyncio.timeout(2 * ANSWER_SECONDS_MAX):
            return await question

    try:
        answer = asyncio.run(ask())
    except TimeoutError:
        return f"no answer within {ANSWER_SECONDS_MAX:g} s"
    except WakefulError as problem:
        return str(problem)
    return answer if isinstance(answer, str) else None
