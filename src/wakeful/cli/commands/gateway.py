"""`wakeful gateway`: run the chat gateway, and say who may speak to it."""

import asyncio
import logging
import os
import sys
from types import ModuleType

import click

from wakeful.cli.output import say
from wakeful.cli.person import require_person
from wakeful.cli.settings import file_words, load_settings
from wakeful.config.paths import Places
from wakeful.config.state_dir import require_home
from wakeful.core.errors import OperatorError, WorldError


class GatewayPartsMissing(WorldError):
    """The gateway needs {missing}, which is not installed: pip install 'wakeful[gateway]'"""

    code = "gateway-parts-missing"


class NotPaired(OperatorError):
    """Nobody with the id {user_id} was paired. Who stands in gateway.allow is let in by that."""

    code = "not-paired"


@click.group(invoke_without_command=True, epilog="Example: WAKEFUL_GATEWAY__TOKEN=123:AA… wakeful gateway")
@click.option("--config", "config_file", metavar="FILE", help="Read this configuration and no other.")
@click.option("--supervised", is_flag=True, hidden=True, help="Started by `wakeful up`: ends with it.")
@click.pass_context
def gateway(context: click.Context, *, config_file: str | None, supervised: bool) -> int:
    """Answer the chat until Ctrl-C: messages become turns of managed sessions.

    `wakeful up` keeps one running where gateway.token is set; alone, it keeps a daemon beside it.
    """
    context.obj = config_file
    if context.invoked_subcommand is not None:
        return 0
    places = Places.of(os.environ)
    require_home(os.environ)
    config = load_settings(config_file).config
    work = _work()
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Addresses of the Bot API hold the token.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    daemon = ("up", "--no-tcp", "--no-gateway", "--supervised", *file_words(config_file))
    asyncio.run(work.serve_gateway(config, places, _announce, daemon=daemon, supervised=supervised))
    return 0


@gateway.command(epilog="Example: wakeful gateway pair")
@click.pass_obj
def pair(config_file: str | None) -> int:
    """Print a one-time code; whoever sends it to the bot within ten minutes is heard from then on."""
    require_person()
    work = _work()
    say(asyncio.run(work.pair(load_settings(config_file).config, Places.of(os.environ))))
    say(
        "Send it to the bot in a private chat within ten minutes. It works once, and five wrong tries end it."
    )
    return 0


@gateway.command(epilog="Example: wakeful gateway unpair 123456789")
@click.argument("user_id", type=int)
@click.pass_obj
def unpair(config_file: str | None, *, user_id: int) -> int:
    """Stop hearing somebody who was paired; a running gateway notices within a minute."""
    require_person()
    work = _work()
    if not asyncio.run(work.unpair(load_settings(config_file).config, Places.of(os.environ), user_id)):
        raise NotPaired(user_id=user_id)
    say(f"{user_id} is not heard any more")
    return 0


def _work() -> ModuleType:
    """What does it all; brings libraries along that a mistake in the options should not wait for."""
    try:
        from wakeful.gateway import process as chatwork  # noqa: PLC0415 - see above
    except ImportError as problem:
        raise GatewayPartsMissing(missing=problem.name or "a library") from problem
    return chatwork


def _announce(line: str) -> None:
    say(line)
    # A log is read while it is written.
    sys.stdout.flush()
