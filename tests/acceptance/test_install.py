"""Claims about the installation: the wheel alone gives the command with top and page, small; `make run` is quick."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.daemon_process import RunningDaemon
from support.real_clients import wait_for

ROOT = Path(__file__).parents[2]
PACKAGES_MAX = 20
BYTES_MAX = 30_000_000
# What `make run` may take with warm wheels, as the processor's time: the wall's depends on the machine's other work.
RUN_SECONDS_MAX = 15
FIGURES = """
import json
from importlib.metadata import distributions
found = [each for each in distributions() if each.name not in ("pip", "setuptools")]
files = [file.locate() for each in found for file in each.files or () if not str(file).endswith(".pyc")]
print(json.dumps([sorted(each.name for each in found), sum(file.stat().st_size for file in files if file.exists())]))
"""


def run(*argv: str | Path, cwd: Path, **environ: str) -> str:
    done = subprocess.run(
        argv, cwd=cwd, env={**os.environ, **environ}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtualenv with the wheel and what it requires, nothing else; its `bin`."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, ROOT, cwd=folder)
    (wheel,) = folder.glob("wakeful-*.whl")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    own = (folder / "venv/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--no-deps")
    run(*own, "--require-hashes", "-r", ROOT / "requirements/run.txt", cwd=folder)
    run(*own, wheel, cwd=folder)
    return folder / "venv/bin"


def test_the_wheel_alone_is_complete_and_small(installed: Path) -> None:
    """Nothing that it requires is missing; 20 packages and 30 MB at most."""
    run(installed / "python", "-m", "pip", "check", cwd=installed)
    names, size = json.loads(run(installed / "python", "-c", FIGURES, cwd=installed))
    assert "wakeful" in names
    assert len(names) <= PACKAGES_MAX, names
    assert size <= BYTES_MAX, size


def test_the_wheel_alone_has_top_and_page(installed: Path, daemon: RunningDaemon) -> None:
    """The command on PATH starts a daemon whose page answers; top draws on a terminal."""
    environ = {**daemon.environ, "PATH": f"{installed}:{daemon.environ['PATH']}", "TERM": "xterm-256color"}
    started = run("wakeful", "up", "--detach", "--port", "0", cwd=daemon.home, **environ)
    try:
        link = json.loads(run("wakeful", "open", "--json", cwd=daemon.home, **environ))["url"]
        page = run(
            installed / "python",
            "-c",
            f"import urllib.request; print(urllib.request.urlopen({link.partition('#')[0]!r}).read().decode())",
            cwd=daemon.home,
        )
        assert "<title>" in page
        assert "page: http" in started
        top = subprocess.run(
            ["script", "-qec", "wakeful top", "/dev/null"],
            env=environ,
            cwd=daemon.home,
            input=b"q",
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert (top.returncode, b"\x1b[?1049h" in top.stdout) == (0, True), top
    finally:
        run("wakeful", "down", cwd=daemon.home, **environ)


@pytest.mark.alone
def test_make_run_says_what_it_does_and_is_up_soon(daemon: RunningDaemon, tmp_path: Path) -> None:
    """Each step is named, the way onto PATH is printed, and the daemon answers; with warm wheels within the limit."""
    make = shutil.which("make")
    assert make is not None
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    argv = [make, "run", f"VENV={tmp_path / 'venv'}", f"PYTHON={sys.executable}"]
    environ = {**os.environ, **daemon.environ, "WAKEFUL_PORT": "0"}
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(
            argv, cwd=ROOT, env=environ, stdout=said, stderr=said, start_new_session=True
        )
        try:
            wait_for(
                lambda: (process.poll() is not None or "found " in (tmp_path / "said").read_text()) or None,
                "daemon",
                240,
            )
            assert daemon.run("status", "--json").json["daemon"]["pid"] is not None
        finally:
            # As Ctrl-C at a terminal: to make and to the daemon.
            os.killpg(process.pid, signal.SIGINT)
            process.wait(60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = (tmp_path / "said").read_text()
    for line in (
        "1/3 creating",
        "2/3 installing ",
        "3/3 installing Wakeful",
        "wakeful` on your PATH: ln -s ",
        "listening on",
    ):
        assert line in text, text
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds <= RUN_SECONDS_MAX, f"{seconds:.1f} s"
