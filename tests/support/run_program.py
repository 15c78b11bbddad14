"""Runs a program to its end and keeps what it says."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


def run_program(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    timeout: float = 60.0,
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        argv, env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
    )
