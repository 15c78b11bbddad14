"""Commands `wakeful up`, `down`, `open` and `demo`.

`up --detach` starts the same command as a child that outlives the terminal, and returns once it answers. The
child's output goes to a log, which is shown.
"""

import asyncio
import os
import select
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import click
import msgspec
from msgspec import Struct

from wakeful.cli.options import Number, WholeNumber, json_option
from wakeful.cli.output import print_answer, print_json, print_line, print_line_now
from wakeful.cli.settings import config_arguments, load_settings, reload_settings, watched_files
from wakeful.client.client import DaemonClient, own_daemon
from wakeful.config.load import LoadedConfig, absolute_paths
from wakeful.config.paths import StatePaths
from wakeful.config.schema import Config
from wakeful.config.state_dir import make_state_dir, require_home
from wakeful.core.decoding import decode_json
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.text import plain
from wakeful.linux.child_environment import helper_environ, own_environ

UP_SECONDS_MAX: Final = 30.0
_POLL_SECONDS: Final = 0.05
_LINES_SHOWN_MAX: Final = 20


class DaemonRunsAlready(OperatorError):
    """Wakeful is already running (pid {pid}). Check it with `wakeful status`, stop it with `wakeful down`."""

    code = "already-running"


class NotUpInTime(WorldError):
    """The daemon (pid {pid}) runs but did not answer within {seconds:.0f} s. Its log: {log}"""

    code = "not-up-in-time"


def start_detached(paths: StatePaths, arguments: list[str]) -> int:
    """Start `wakeful up` in a session of its own; return 0 once it answers, or its exit code. Its output is shown."""
    client = DaemonClient(paths)
    pid = client.running_pid()
    if pid is not None:
        raise DaemonRunsAlready(pid=pid)
    make_state_dir(paths)
    # A file of its own: of several starts at once each shows the output of its own child.
    log = Path(paths.logs) / f"up.{os.getpid()}.log"
    child = _spawn(arguments, log)
    code = _wait_for_answer(client, child, log)
    for line in log.read_text(errors="replace").splitlines()[-_LINES_SHOWN_MAX:]:
        click.echo(plain(line), err=code != 0)
    if code == 0:
        # The daemon continues to write to it, under the name that people look for.
        log.replace(log.with_name("up.log"))
    else:
        log.unlink()
    return code


def _spawn(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    # -P: never a `wakeful` folder in the working directory.
    argv = [sys.executable, "-P", "-m", "wakeful", "up", *arguments]
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    with os.fdopen(os.open(log, flags, 0o600), "ab") as output:
        return subprocess.Popen(
            argv,
            env=own_environ(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def _wait_for_answer(client: DaemonClient, child: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + UP_SECONDS_MAX
    while time.monotonic() < deadline:
        code = child.poll()
        if code is not None:
            return code if code > 0 else WorldError.exit_code
        # By pid: another daemon may have started first.
        if client.running_pid() == child.pid:
            return 0
        time.sleep(_POLL_SECONDS)
    raise NotUpInTime(pid=child.pid, seconds=UP_SECONDS_MAX, log=os.fspath(log))


DOWN_SECONDS_MAX: Final = 15.0


class StillRunning(WorldError):
    """The daemon (pid {pid}) did not stop within {seconds:.0f} s."""

    code = "still-running"


@click.command(epilog="Example: wakeful up --detach")
@click.option("--detach", is_flag=True, help="Run in the background.")
@click.option("--port", type=WholeNumber(0, 65535), help="TCP port on loopback; 0 picks a free one.")
@click.option("--no-tcp", is_flag=True, help="Listen on the Unix socket only.")
@click.option("--no-gateway", is_flag=True, help="Do not start the chat gateway.")
@click.option("--config", "config_file", metavar="FILE", help="Read only this configuration file.")
@click.option("--supervised", is_flag=True, hidden=True, help="Started by `wakeful gateway`; stops with it.")
def up(
    *,
    detach: bool,
    port: int | None,
    no_tcp: bool,
    no_gateway: bool,
    config_file: str | None,
    supervised: bool,
) -> int:
    """Start the daemon. It watches every session on this machine until Ctrl-C."""
    paths = StatePaths.from_environ(os.environ)
    require_home(os.environ)
    if detach:
        given = _arguments(port, config_file, no_tcp=no_tcp)
        return start_detached(paths, [*given, "--no-gateway"] if no_gateway else given)
    loaded = load_settings(config_file)
    config = _with_listeners(loaded.config, port, no_tcp=no_tcp)
    from wakeful.daemon.config_watch import ConfigSource  # noqa: PLC0415 - as below
    from wakeful.daemon.serve import serve  # noqa: PLC0415 - wrong options are reported before it

    # A login code is shown on a terminal, never in a log.
    with_login, asked = sys.stdout.isatty(), port is not None
    gateway = (
        None
        if no_gateway or not config.gateway.token
        else ("gateway", "--supervised", *config_arguments(config_file))
    )
    files = absolute_paths(loaded.files)
    read = set(files)

    def read_again() -> LoadedConfig:
        found = reload_settings(config_file, read)
        read.update(absolute_paths(found.files))
        return msgspec.structs.replace(found, config=_with_listeners(found.config, port, no_tcp=no_tcp))

    asyncio.run(
        serve(
            config,
            paths,
            print_line_now,
            with_login=with_login,
            port_asked_for=asked,
            gateway=gateway,
            supervised=supervised,
            config_source=ConfigSource(watched_files(config_file), read_again, files),
        )
    )
    return 0


def _with_listeners(config: Config, port: int | None, *, no_tcp: bool) -> Config:
    daemon = config.daemon
    changed = msgspec.structs.replace(
        daemon, port=daemon.port if port is None else port, tcp=daemon.tcp and not no_tcp
    )
    return msgspec.structs.replace(config, daemon=changed)


def _arguments(port: int | None, config_file: str | None, *, no_tcp: bool) -> list[str]:
    arguments = ["--no-tcp"] if no_tcp else []
    arguments += [] if port is None else ["--port", str(port)]
    return [*arguments, *config_arguments(config_file)]


@click.command(epilog="Example: wakeful down")
def down() -> int:
    """Stop the daemon. Agents keep running."""
    client = own_daemon()
    pid = client.get("/healthz").server_pid
    # Opened before the shutdown, so that it cannot mean a later process with the same pid.
    process = os.pidfd_open(pid)
    client.post("/api/shutdown")
    ended, _, _ = select.select([process], [], [], DOWN_SECONDS_MAX)
    if not ended:
        raise StillRunning(pid=pid, seconds=DOWN_SECONDS_MAX)
    print_line(f"ended (pid {pid})")
    return 0


class _LoginLine(Struct, frozen=True):
    """What the list of logins shows of each."""

    id: str
    started_at: str
    expires_at: str
    untrusted: str


class _LoginLines(Struct, frozen=True):
    """The answer of `/api/logins`."""

    logins: list[_LoginLine]


class _Revoked(Struct, frozen=True):
    """The answer of `/api/logins/revoke`."""

    revoked: int


@click.command("open", epilog="Example: wakeful open --browser")
@click.option("--browser", is_flag=True, help="Also open the link in a browser.")
@click.option("--list", "listed", is_flag=True, help="List the browsers that are logged in.")
@click.option("--revoke", metavar="ID", help="Log out the browser with this ID from the list, or `all`.")
@json_option
def open_page(*, browser: bool, listed: bool, revoke: str | None, as_json: bool) -> int:
    """Print a link to the web page. It works once, within ten minutes.

    A login lasts for seven days, also when the daemon restarts.
    """
    if revoke is not None:
        order = {} if revoke == "all" else {"id": revoke}
        return print_answer(
            own_daemon().post("/api/logins/revoke", msgspec.json.encode(order)),
            _revoked_lines,
            as_json=as_json,
        )
    if listed:
        return print_answer(own_daemon().get("/api/logins"), _login_lines, as_json=as_json)
    answer = own_daemon().post("/api/login-codes")
    link = str(decode_json(answer.body, dict[str, object])["url"])
    if as_json:
        print_json(answer.body)
    else:
        print_line(link)
    if browser:
        for name in set(os.environ) - helper_environ(os.environ).keys():
            # It starts programs in this process's own environment.
            del os.environ[name]
        webbrowser.open(link)
    return 0


def _login_lines(body: bytes) -> Iterator[str]:
    logins = decode_json(body, _LoginLines).logins
    if not logins:
        yield "no browser is logged in"
    for login in logins:
        since, until = (
            f"{datetime.fromisoformat(stamp).astimezone():%Y-%m-%d %H:%M}"
            for stamp in (login.started_at, login.expires_at)
        )
        yield f"{login.id}  since {since}, until {until}  {login.untrusted or 'unknown browser'}"


def _revoked_lines(body: bytes) -> Iterator[str]:
    count = decode_json(body, _Revoked).revoked
    yield "1 browser logged out" if count == 1 else f"{count} browsers logged out"


@click.command(epilog="Example: wakeful demo --seconds 30")
@click.option("--seconds", type=Number(10, 600), help="Length of the demo; a minute by default.")
def demo(*, seconds: float | None) -> int:
    """Start scripted agents in a temporary home and show their verdicts."""
    from wakeful.cli.demo.command import run_demo  # noqa: PLC0415 - imports the scripted agents

    return run_demo(seconds)
