"""Checks of the host and of outside services: clock, disk, tools, autostart, Redis, Telegram and GitHub.

A service that is not set up is not asked, and every request has a deadline.
"""

import asyncio
import ctypes
import os
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Final

from wakeful.cli.doctor.grading import CheckContext, CheckResult, fail, ok, warn
from wakeful.cli.output import wall_now
from wakeful.core.errors import WakefulError
from wakeful.daemon.autostart import UnitNotOurs, is_linger_enabled, is_running, plan_remove
from wakeful.integrations.github import run_gh
from wakeful.linux.files import ProblemFile
from wakeful.linux.host import Disk

ANSWER_SECONDS_MAX: Final = 5.0
# TIME_ERROR of adjtimex(2): the clock was not set for a while, or never.
_CLOCK_NOT_SYNCHRONISED: Final = 5
# struct timex has 208 bytes here; all zero it reads and sets nothing.
_TIMEX_BYTES: Final = 512


def redis_problem(url: str) -> str | None:
    """Why this Redis cannot be used; None if it answers."""
    try:
        from wakeful.watchdog.redis_connection import RedisConnection  # noqa: PLC0415 - an extra, and slow to load
    except ImportError:
        return "the library is not installed: pip install 'wakeful[fleet]'"

    async def ask() -> None:
        connection = RedisConnection(url, ANSWER_SECONDS_MAX)
        try:
            await connection.check_reachable()
        finally:
            await connection.close()

    return _run_probe(ask())


def telegram_problem(token: str, api: str) -> str | None:
    """Why this bot cannot be used; None if Telegram knows it."""
    from wakeful.integrations.telegram import classify_failure, close_bot, open_bot  # noqa: PLC0415 - loaded if set up

    async def ask() -> str | None:
        bot = open_bot(token, api, answer_seconds_max=ANSWER_SECONDS_MAX, kept_connections=1)
        try:
            await bot.get_me()
        except Exception as problem:  # noqa: BLE001 - the library raises anything; `classify_failure` tells them apart
            return classify_failure(problem, token).reason
        finally:
            await close_bot(bot)
        return None

    return _run_probe(ask())


def _run_probe(question: Coroutine[None, None, object]) -> str | None:
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


# Below this the store keeps its writes in memory; a tenth more is a day of a busy machine.
FREE_BYTES_MIN: Final = 100 * 1024 * 1024
# A drift of seconds is harmless; a file that is a minute newer than now was written before the clock was set back.
FUTURE_SECONDS_MAX: Final = 60.0
TOOLS: Final = ("git", "ps", "sh", "head")


def clock(context: CheckContext) -> CheckResult:
    ahead_seconds = _newest_write(Path(context.places.state_dir)) - wall_now()
    if ahead_seconds > FUTURE_SECONDS_MAX:
        return warn(
            f"set back: files of the state folder are {ahead_seconds:,.0f} s newer than now",
            "correct the clock; ages are wrong until then",
        )
    answer = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES))
    synchronised = None if answer < 0 else answer != _CLOCK_NOT_SYNCHRONISED
    if synchronised is False:
        return warn("not synchronised (NTP off)", "timedatectl set-ntp true")
    return ok("synchronised" if synchronised else "the kernel does not report whether it is synchronised")


def _newest_write(home: Path) -> float:
    try:
        return max((entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(home)), default=0.0)
    except OSError:
        return 0.0


def disk(context: CheckContext) -> CheckResult:
    home = Path(context.places.state_dir)
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    free = Disk(str(there)).free_bytes()
    if free is None:
        return warn(f"free space for {there} is unknown")
    said = f"{free / 1024**2:,.0f} MB free for {there}"
    return (
        ok(said)
        if free >= FREE_BYTES_MIN
        else fail(said, "free some space: Wakeful cannot store anything without it")
    )


def tools(_context: CheckContext) -> CheckResult:
    missing = [name for name in TOOLS if shutil.which(name) is None]
    if missing:
        return warn(f"not installed: {', '.join(missing)}", "install them; reports and hooks need them")
    return ok(", ".join(TOOLS))


def autostart(context: CheckContext) -> CheckResult:
    try:
        plan = plan_remove(context.environ)
    except UnitNotOurs as problem:
        return ok(f"not written by Wakeful: {problem.facts['path']}")
    if plan.is_done:
        return ok("not installed (`wakeful autostart install` sets it up)")
    if not is_running():
        return warn("installed, but not running", "systemctl --user status wakeful")
    if not is_linger_enabled(context.environ):
        return warn("running; stops at your last logout", "loginctl enable-linger")
    return ok("running, also after logout")


def redis(context: CheckContext) -> CheckResult:
    url = context.config.redis.url
    if not url:
        return ok("not set up")
    problem = redis_problem(url)
    return ok("answers") if problem is None else fail(problem, "start Redis, or correct redis.url")


def telegram(context: CheckContext) -> CheckResult:
    config = context.config
    bots = {
        "alerts.telegram_token": (config.alerts.telegram_token, config.alerts.telegram_api),
        "gateway.token": (config.gateway.token, config.gateway.api),
    }
    problems = {key: telegram_problem(token, api) for key, (token, api) in bots.items() if token}
    bad = {key: problem for key, problem in problems.items() if problem is not None}
    if bad:
        return fail(
            "; ".join(f"{key}: {problem}" for key, problem in bad.items()), "check the token and the network"
        )
    if words := ProblemFile(Path(context.places.gateway_problem)).read():
        return fail(f"the gateway reports: {words}", "its log shows since when; /health shows it in the chat")
    return ok(f"bot found for {' and '.join(problems)}" if problems else "not set up")


def gh(context: CheckContext) -> CheckResult:
    github = context.config.github
    if not github.repo and not github.repos:
        return ok("not set up")
    problem = _run_probe(run_gh(("auth", "status"), ANSWER_SECONDS_MAX))
    return ok("logged in") if problem is None else fail(problem, "gh auth login")
