"""`wakeful up`, `down`, `open` and `demo`: what starts or ends something, or needs a daemon that runs."""

import asyncio
import os
import select
import sys
import webbrowser
from pathlib import Path
from typing import Final

import click
import msgspec

from wakeful.cli.commands.detaching import start_behind
from wakeful.cli.options import Number, WholeNumber, answers_json
from wakeful.cli.output import say, show_json
from wakeful.cli.settings import file_words, load_settings
from wakeful.client.client import Client
from wakeful.config.config import Config
from wakeful.config.paths import Places
from wakeful.config.state_dir import require_home
from wakeful.core.decoding import decode_json
from wakeful.core.errors import WorldError
from wakeful.linux.child_environment import helper_environ

DOWN_SECONDS_MAX: Final = 15.0


class StillRunning(WorldError):
    """The daemon (pid {pid}) said it would end, but did not within {seconds:.0f} s."""

    code = "still-running"


@click.command(epilog="Example: wakeful up --detach")
@click.option("--detach", is_flag=True, help="Put it behind and give the terminal back.")
@click.option("--port", type=WholeNumber(0, 65535), help="TCP port on loopback; 0 picks a free one.")
@click.option("--no-tcp", is_flag=True, help="Listen on the Unix socket only.")
@click.option("--no-gateway", is_flag=True, help="Leave the chat gateway alone, though it is set up.")
@click.option("--config", "config_file", metavar="FILE", help="Read this configuration and no other.")
@click.option("--supervised", is_flag=True, hidden=True, help="Started by `wakeful gateway`: ends with it.")
def up(
    *,
    detach: bool,
    port: int | None,
    no_tcp: bool,
    no_gateway: bool,
    config_file: str | None,
    supervised: bool,
) -> int:
    """Watch every session of this machine until Ctrl-C."""
    places = Places.of(os.environ)
    require_home(os.environ)
    if detach:
        given = _arguments(port, config_file, no_tcp=no_tcp)
        return start_behind(places, [*given, "--no-gateway"] if no_gateway else given)
    loaded = load_settings(config_file)
    config = _with_doors(loaded.config, port, no_tcp=no_tcp)
    from wakeful.daemon.serve import serve  # noqa: PLC0415 - a mistake in the options should not wait for it

    # A login code is for the eyes in front of a terminal, not for a log.
    with_login, asked = sys.stdout.isatty(), port is not None
    gateway = (
        None
        if no_gateway or not config.gateway.token
        else ("gateway", "--supervised", *file_words(config_file))
    )
    asyncio.run(
        serve(
            config,
            places,
            _announce,
            with_login=with_login,
            port_asked_for=asked,
            gateway=gateway,
            supervised=supervised,
            config_files=tuple(str(Path(each).absolute()) for each in loaded.files),
        )
    )
    return 0


def _with_doors(config: Config, port: int | None, *, no_tcp: bool) -> Config:
    daemon = config.daemon
    changed = msgspec.structs.replace(
        daemon, port=daemon.port if port is None else port, tcp=daemon.tcp and not no_tcp
    )
    return msgspec.structs.replace(config, daemon=changed)


def _arguments(port: int | None, config_file: str | None, *, no_tcp: bool) -> list[str]:
    arguments = ["--no-tcp"] if no_tcp else []
    arguments += [] if port is None else ["--port", str(port)]
    return [*arguments, *file_words(config_file)]


def _announce(line: str) -> None:
    say(line)
    # A supervisor's log is read while it runs.
    sys.stdout.flush()


@click.command(epilog="Example: wakeful down")
def down() -> int:
    """End the daemon. Agents go on: nothing they need lives in it."""
    client = Client(Places.of(os.environ))
    pid = client.get("/healthz").server_pid
    # Opened before the end is asked for, so that it cannot mean anybody who gets the pid later.
    process = os.pidfd_open(pid)
    client.post("/api/shutdown")
    ended, _, _ = select.select([process], [], [], DOWN_SECONDS_MAX)
    if not ended:
        raise StillRunning(pid=pid, seconds=DOWN_SECONDS_MAX)
    say(f"ended (pid {pid})")
    return 0


@click.command("open", epilog="Example: wakeful open --browser")
@click.option("--browser", is_flag=True, help="Open it instead of printing it only.")
@answers_json
def open_page(*, browser: bool, as_json: bool) -> int:
    """Print a link that logs the web page in, once, within ten minutes."""
    answer = Client(Places.of(os.environ)).post("/api/login-codes")
    link = str(decode_json(answer.body, dict[str, object])["url"])
    if as_json:
        show_json(answer.body)
    else:
        say(link)
    if browser:
        for name in set(os.environ) - helper_environ(os.environ).keys():
            # It starts programs in this process's own environment.
            del os.environ[name]
        webbrowser.open(link)
    return 0


@click.command(epilog="Example: wakeful demo --seconds 30")
@click.option("--seconds", type=Number(10, 600), help="How long it takes; a minute by default.")
def demo(*, seconds: float | None) -> int:
    """Start scripted agents in a throw-away home and watch their verdicts change."""
    from wakeful.cli.demo.command import run_demo  # noqa: PLC0415 - brings the scripted agents along

    return run_demo(seconds)
