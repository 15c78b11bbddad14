"""`wakeful up --detach`: a daemon that outlives its terminal, and the proof that it answers.

The child runs the very same command; its words go to a log, which is shown if it does not come up.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import click

from wakeful.client.client import Client, DaemonNotRunning, DaemonSilent, DaemonUnreachable
from wakeful.config.paths import Places
from wakeful.config.state_dir import make_home
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.text import plain
from wakeful.linux.child_environment import own_environ

UP_SECONDS_MAX: Final = 30.0
_POLL_SECONDS: Final = 0.05
_LINES_SHOWN_MAX: Final = 20


class RunsAlready(OperatorError):
    """Wakeful runs here already (pid {pid}). `wakeful status` asks it, `wakeful down` ends it."""

    code = "already-running"


class NotUpInTime(WorldError):
    """The daemon (pid {pid}) runs but did not answer within {seconds:.0f} s. Its words are in {log}"""

    code = "not-up-in-time"


def start_behind(places: Places, arguments: list[str]) -> int:
    """Start `wakeful up` in a session of its own; return once it answers, or with its exit code and words."""
    client = Client(places)
    pid = _answering_pid(client)
    if pid is not None:
        raise RunsAlready(pid=pid)
    make_home(places)
    # A file of its own: of several starts at once each shows the words of its own child.
    log = Path(places.logs) / f"up.{os.getpid()}.log"
    child = _spawn(arguments, log)
    code = _wait_for_answer(client, child, log)
    for line in log.read_text(errors="replace").splitlines()[-_LINES_SHOWN_MAX:]:
        click.echo(plain(line), err=code != 0)
    if code == 0:
        # The daemon goes on writing to it, under the name people look for.
        log.replace(log.with_name("up.log"))
    else:
        log.unlink()
    return code


def _spawn(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    # -P: a `wakeful` folder in the working directory is not what we mean to run.
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


def _wait_for_answer(client: Client, child: subprocess.Popen[bytes], log: Path) -> int:
    deadline = time.monotonic() + UP_SECONDS_MAX
    while time.monotonic() < deadline:
        code = child.poll()
        if code is not None:
            return code if code > 0 else WorldError.exit_code
        # The pid, so that another daemon that was quicker is not taken for ours.
        if _answering_pid(client) == child.pid:
            return 0
        time.sleep(_POLL_SECONDS)
    raise NotUpInTime(pid=child.pid, seconds=UP_SECONDS_MAX, log=os.fspath(log))


def _answering_pid(client: Client) -> int | None:
    try:
        return client.get("/healthz", timeout_seconds=2.0).server_pid
    except (DaemonNotRunning, DaemonSilent, DaemonUnreachable):
        return None
