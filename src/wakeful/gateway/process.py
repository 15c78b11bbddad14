"""Runs `wakeful gateway`: one process per bot, guarded by locks.

If no daemon runs, the gateway keeps one running. It ends on SIGINT and SIGTERM; a gateway that the daemon
started also ends with the daemon.
"""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config, secret_values
from wakeful.config.state_dir import make_state_dir, store_path
from wakeful.config.token_file import read_token
from wakeful.core.errors import OperatorError, WakefulError
from wakeful.core.waiting import running
from wakeful.gateway.app import Gateway
from wakeful.gateway.people import begin_pairing, unpair as drop_pairing
from wakeful.gateway.ports import ChatFailed
from wakeful.linux.child_environment import configure_environments
from wakeful.linux.child_process import ChildSupervisor
from wakeful.linux.clock import SystemClock
from wakeful.linux.locks import exclusive_file_lock, exclusive_host_lock, gateway_name
from wakeful.linux.shutdown import shutdown_event
from wakeful.storage.sqlite.store import SqliteStore

# More than a code needs.
CODE_BYTES = 16


class GatewayNotSetUp(OperatorError):
    """No bot token: set gateway.token to the token from @BotFather (better as WAKEFUL_GATEWAY__TOKEN)."""

    code = "gateway-not-set-up"


class BadBotToken(OperatorError):
    """gateway.token is not a bot token. Expected form: 123456789:AA…"""

    code = "bad-bot-token"


def bot_of(config: Config) -> str:
    """The bot's own number. Raises GatewayNotSetUp or BadBotToken."""
    if not config.gateway.token:
        raise GatewayNotSetUp
    number, colon, secret = config.gateway.token.partition(":")
    if not (number.isdecimal() and colon and secret):
        raise BadBotToken
    return number


async def pair(config: Config, paths: StatePaths) -> str:
    """Open a pairing; its one-time code."""
    async with _open_store(config, paths) as store:
        return await begin_pairing(store, secrets.token_bytes(CODE_BYTES), SystemClock().now().wall)


async def unpair(config: Config, paths: StatePaths, user_id: int) -> bool:
    """Remove a paired user. False: no user with this id was paired."""
    async with _open_store(config, paths) as store:
        return await drop_pairing(store, user_id)


@asynccontextmanager
async def _open_store(config: Config, paths: StatePaths) -> AsyncIterator[SqliteStore]:
    make_state_dir(paths)
    store = await SqliteStore.open(store_path(config, paths))
    try:
        yield store
    finally:
        await store.close()


async def serve_gateway(
    config: Config,
    paths: StatePaths,
    announce: Callable[[str], None],
    *,
    daemon: Sequence[str],
    supervised: bool = False,
) -> None:
    """Run until SIGINT, SIGTERM or cancellation; `supervised`: or until standard input ends.

    `daemon`: the command that runs beside the gateway if there is no daemon.

    Raises GatewayNotSetUp, BadBotToken, LockTaken, BotRejected.
    """
    bot = bot_of(config)
    make_state_dir(paths)
    configure_environments((*secret_values(config), *_token(paths)), config.daemon.pass_environment)
    async with AsyncExitStack() as stack:
        lock = store_path(config, paths).with_name(f"gateway-{bot}.lock")
        stack.enter_context(exclusive_file_lock(lock, "A gateway of this bot"))
        stack.enter_context(
            exclusive_host_lock(gateway_name(config.gateway.token), "A gateway with this token")
        )
        store = await stack.enter_async_context(_open_store(config, paths))
        gateway = Gateway(config, paths, store, bot, os.environ, supervised=supervised)
        stack.push_async_callback(gateway.close)
        ended = shutdown_event(supervised=supervised)
        daemon_child = await gateway.daemon_child(daemon)
        name = await _name_of(gateway)
        open_turns = await gateway.restore()
        for line in gateway.startup_lines(name, open_turns, alone=daemon_child is not None):
            announce(line)
        await _run(gateway, ended, daemon_child)


def _token(paths: StatePaths) -> tuple[str, ...]:
    """The daemon's token, if a daemon ever ran here."""
    try:
        return (read_token(Path(paths.token)),)
    except (FileNotFoundError, WakefulError):
        # Without a token there is nothing to withhold from child processes; the daemon reports an unsafe file.
        return ()


async def _name_of(gateway: Gateway) -> str:
    """The name of the bot. If the chat cannot be reached, the gateway starts without it: open turns go on."""
    try:
        return f"@{await gateway.chat.me()}"
    except ChatFailed as problem:
        return f"a bot with an unknown name ({problem})"


async def _run(gateway: Gateway, ended: asyncio.Event, daemon_child: ChildSupervisor | None) -> None:
    """Run every part until the end. One that raises is down, and runs again after 1 to 60 s; the others go on."""
    parts = {
        "turns": gateway.turns.run,
        "updates": gateway.intake.run,
        "login checks": gateway.auth.run,
        "host checks": gateway.host_watch.run,
        "pairings": gateway.refresh_people,
        "reports of what is down": gateway.report_failures,
    }
    if daemon_child is not None:
        parts["daemon beside the gateway"] = daemon_child.run
    keep = gateway.failures.keep_running
    async with running(*(keep(name, run) for name, run in parts.items())):
        await ended.wait()
