"""How the crash tests run a program of Wakeful and make it fail from outside."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from crash.store_workload import WORKLOAD, RunWorkload


@pytest.fixture
def run_workload() -> RunWorkload:
    """Run the store workload as a real process, with faults and possibly below another program."""

    def run(
        mode: str, database: Path, *, faults: str = "", below: Sequence[str] = ()
    ) -> "subprocess.CompletedProcess[str]":
        argv = [*below, sys.executable, str(WORKLOAD), mode, str(database)]
        environment = os.environ | {"WAKEFUL_FAULTS": faults} if faults else os.environ
        return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def journal_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for journals, with a store of its own for their checkpoints."""
    monkeypatch.setenv("WAKEFUL_HOME", str(tmp_path / "home"))
    # Compiled once, not for each of some hundred runs.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "compiled"))
    return tmp_path


@pytest.fixture(scope="session")
def strace() -> Sequence[str]:
    """The start of an strace command that follows threads; the test is skipped, with the reason, without it."""
    found = shutil.which("strace")
    if found is None:
        pytest.skip("strace is not installed: no system call can be made to fail")
    argv = [found, "-f", "-q"]
    tried = subprocess.run([*argv, "-o", os.devnull, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"strace may not trace here: {tried.stderr.strip()}")
    return argv
