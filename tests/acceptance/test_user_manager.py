"""The unit under a real user manager of systemd: ready when it says so, and its restart and its end leave agents alone."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.real_clients import require_programs, require_tmux
from support.run_program import run_program

GROUPS = Path("/sys/fs/cgroup")
MANAGER = Path(__file__).parents[1] / "support" / "user_manager.sh"
SECONDS_MAX = 60
# An agent that only this test has.
SCENE = """
wakeful() { %(wakeful)s "$@"; }
wakeful autostart install 2>/dev/null
systemctl --user show wakeful -p ActiveState -p Type -p WatchdogUSec
wakeful run --name fox --detach -- sh -c 'echo $$ >fox.pid; while :; do sleep 1; done'
until [ -s fox.pid ]; do sleep 0.05; done
fox=$(cat fox.pid)
systemctl --user restart wakeful
until systemctl --user list-units --type=scope | grep -q wakeful-agent; do sleep 0.05; done
grep -h -o 'wakeful[^/]*$' /proc/$fox/cgroup | sort -u
systemctl --user stop wakeful
kill -0 $fox && echo alive
wakeful autostart remove
kill -0 $fox && echo still alive
"""


@pytest.fixture
def group() -> Iterator[str]:
    """The name of a control group of our own, gone afterwards."""
    name = f"wakeful-test-{os.getpid()}"
    yield name
    for tree in ("systemd", "unified", "."):
        for folder in sorted((GROUPS / tree / name).glob("**/"), reverse=True):
            with suppress(OSError):
                folder.rmdir()


def require_user_manager() -> None:
    """Its programs are parts like others; the right to make namespaces is none, and only root has it."""
    require_programs("unshare", "busctl", "dbus-daemon")
    may = subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False)
    if os.geteuid() != 0 or may.returncode != 0 or not os.access(GROUPS, os.W_OK):
        pytest.skip("no namespaces and control groups may be made here")


def test_a_restart_and_an_end_leave_agents_in_a_scope_of_their_own(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, group: str
) -> None:
    """Started by READY=1 with a watchdog; what it started is moved apart, and neither restart nor stop reaches it."""
    require_tmux()
    require_user_manager()
    scene = tmp_path / "scene.sh"
    scene.write_text(SCENE % {"wakeful": shlex.join([sys.executable, "-P", "-m", "wakeful"])})
    # A short name: a socket's path has 107 bytes at most.
    home = tmp_path_factory.mktemp("u")
    environ = {"PATH": os.environ["PATH"], "USER": "root", "LANG": "C.UTF-8", "WAKEFUL_PORT": "0"}
    done = run_program(
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "bash", MANAGER, group, home, scene],
        env=environ,
        timeout=SECONDS_MAX,
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert {"ActiveState=active", "Type=notify", "WatchdogUSec=1min"} <= set(lines)
    (scope,) = [line for line in lines if line.endswith(".scope")]
    assert scope.startswith("wakeful-agent-")
    assert lines[-3] == "alive"
    assert lines[-1] == "still alive"
