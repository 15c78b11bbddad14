"""Command `wakeful alerts test`: sends one message through every channel and shows each result.

It uses the channels directly, so it works without a daemon.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Final

import click
import msgspec

from wakeful.alerts.delivery import Messenger, NotDelivered, Refused
from wakeful.cli.app import CommandEntry, LazyGroup
from wakeful.cli.options import json_option
from wakeful.cli.output import print_record
from wakeful.cli.person import require_person
from wakeful.cli.settings import load_settings
from wakeful.config.alert_channels import open_channels
from wakeful.core.errors import OperatorError

_MODULE: Final = "wakeful.cli.commands.alerts"
COMMANDS: Final = {
    "test": CommandEntry("Set up", f"{_MODULE}:test", "Send a test alert through every channel")
}
TEXT: Final = "Wakeful can reach you\nThis is a test of this channel. Nothing is wrong."


class NoChannel(OperatorError):
    """No alert channel is set up. Set alerts.telegram_token and alerts.telegram_chat, or set alerts.urls to an apprise address, like ntfys://ntfy.sh/a-secret-topic. On a desktop, install notify-send. See docs/how-to/alerts.md."""

    code = "no-alert-channel"


class ChannelTestResult(msgspec.Struct, frozen=True):
    channel: str
    outcome: str
    reason: str


@click.command(cls=LazyGroup, entries=COMMANDS, epilog="Example: wakeful alerts test")
def alerts() -> None:
    """Test the channels for alerts: a session needs you, finished, or has a problem."""


@click.command(epilog="Example: wakeful alerts test")
@click.option("--config", "config_file", metavar="FILE", help="Read only this configuration file.")
@json_option
def test(*, config_file: str | None, as_json: bool) -> int:
    """Send a test message through every channel. Exit 1: a channel failed, 2: no channel is set up.

    For people: refused inside an agent's session.
    """
    require_person()
    channels = open_channels(load_settings(config_file).config.alerts, os.environ)
    if not channels:
        raise NoChannel
    tried = asyncio.run(_test_all(channels))
    lines = [f"{each.channel}: {each.outcome}{f' ({each.reason})' if each.reason else ''}" for each in tried]
    print_record({"channels": tried}, lines, as_json=as_json)
    return 0 if all(each.outcome == "sent" for each in tried) else 1


async def _test_all(channels: Sequence[Messenger]) -> list[ChannelTestResult]:
    return await asyncio.gather(*map(_test_one, channels))


async def _test_one(channel: Messenger) -> ChannelTestResult:
    try:
        await channel.send(TEXT)
    except Refused as problem:
        return ChannelTestResult(channel.name, "refused", str(problem.facts["reason"]))
    except NotDelivered as problem:
        return ChannelTestResult(channel.name, "unknown", str(problem.facts["reason"]))
    finally:
        await channel.close()
    return ChannelTestResult(channel.name, "sent", "")
