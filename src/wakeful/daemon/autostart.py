"""Installs and removes the systemd user unit that starts Wakeful.

A plan is a value that can be shown first; `install` and `remove` carry it out. A unit file of the same name
that Wakeful did not write, or a symlink in its place, is refused and left unchanged.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from wakeful.config.load import environ_key
from wakeful.config.schema import KEYS
from wakeful.core.errors import OperatorError, WorldError
from wakeful.core.redaction import redact
from wakeful.core.text import plain
from wakeful.linux.child_environment import helper_environ
from wakeful.linux.systemd import MARK, NAME, unit_text

# The user manager answers at once, or it is broken.
SYSTEMD_SECONDS_MAX: Final = 20.0
_LINGER: Final = Path("/var/lib/systemd/linger")
_REASON_CHARS_MAX: Final = 300


class UnitNotOurs(OperatorError, code="unit-not-ours"):
    """{path} was not written by Wakeful. Nothing was changed. Move the file away first."""


class SystemdRefused(WorldError, code="systemd-refused"):
    """The systemd user manager is not available: {reason}. Use `wakeful up --detach` instead."""


class UnitPlan(Struct, frozen=True):
    """The unit before and after; None means no file. `left_out`: settings of the environment that it does not store."""

    path: Path
    before: str | None
    after: str | None
    left_out: tuple[str, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.before == self.after


def unit_path(environ: Mapping[str, str]) -> Path:
    """The path of the unit in this user's systemd folder."""
    chosen = environ.get("XDG_CONFIG_HOME", "")
    folder = chosen if chosen.startswith("/") else f"{environ.get('HOME', '')}/.config"
    return Path(folder) / "systemd" / "user" / NAME


def plan_install(environ: Mapping[str, str], *, watch_only: bool) -> UnitPlan:
    """The unit for this interpreter and this user's folders. Raises UnitNotOurs."""
    # -P: a `wakeful` folder in the working directory must not be run.
    argv = (sys.executable, "-P", "-m", "wakeful", "up")
    path = unit_path(environ)
    # A relative folder of PATH means another place in every directory.
    folders = [each for each in environ.get("PATH", "").split(os.pathsep) if each.startswith("/")]
    absolute = {**environ, "PATH": os.pathsep.join(folders)}
    stored, left_out = split_settings(environ)
    text = unit_text(argv, absolute, watch_only=watch_only, settings=stored)
    return UnitPlan(path, _read_unit(path), text, left_out)


def split_settings(environ: Mapping[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The settings `WAKEFUL_SECTION__KEY` of the environment: those that a file may hold, and secrets and unknown ones."""
    stored: list[str] = []
    left_out: list[str] = []
    for name in sorted(each for each in environ if each.startswith("WAKEFUL_") and environ[each]):
        key = "daemon.port" if name == "WAKEFUL_PORT" else environ_key(name)
        if key is None:
            continue
        known = KEYS.get(key)
        is_harmless = known is not None and not known.is_secret and redact(environ[name]) == environ[name]
        (stored if is_harmless else left_out).append(name)
    return tuple(stored), tuple(left_out)


def plan_remove(environ: Mapping[str, str]) -> UnitPlan:
    """Raises UnitNotOurs."""
    path = unit_path(environ)
    return UnitPlan(path, _read_unit(path), None)


def _read_unit(path: Path) -> str | None:
    if path.is_symlink():
        raise UnitNotOurs(path=path)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
    if not text.startswith(MARK):
        raise UnitNotOurs(path=path)
    return text


def install(plan: UnitPlan, *, start: bool) -> None:
    """Write the unit, enable it, and with `start` start it. Raises SystemdRefused before anything is written."""
    assert plan.after is not None, "an installation has a unit"
    _systemctl("show-environment")
    if not plan.is_done:
        plan.path.parent.mkdir(parents=True, exist_ok=True)
        aside = plan.path.with_name(f".{NAME}.{os.getpid()}")
        aside.write_text(plan.after, encoding="utf-8")
        aside.rename(plan.path)
    _systemctl("daemon-reload")
    _systemctl("enable", NAME)
    if start:
        _systemctl("restart", NAME)


def remove(plan: UnitPlan) -> None:
    """Stop the service and remove its unit; agents go on. Raises SystemdRefused."""
    _systemctl("disable", "--now", NAME)
    plan.path.unlink()
    _systemctl("daemon-reload")


def missing_manager() -> str | None:
    """Why nothing can be installed; None if the user manager answers."""
    try:
        _systemctl("show-environment")
    except SystemdRefused as problem:
        return str(problem)
    return None


def is_running() -> bool:
    """Whether systemd runs it now; False also without systemd."""
    try:
        _systemctl("is-active", "--quiet", NAME)
    except SystemdRefused:
        return False
    return True


def is_linger_enabled(environ: Mapping[str, str]) -> bool:
    """Whether this user's services go on after the last logout."""
    return (_LINGER / environ.get("USER", "")).is_file()


def _systemctl(*arguments: str) -> None:
    program = shutil.which("systemctl")
    if program is None:
        raise SystemdRefused(reason="there is no systemctl here")
    try:
        done = subprocess.run(
            [program, "--user", *arguments],
            env=helper_environ(os.environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SYSTEMD_SECONDS_MAX,
            check=False,
        )
    except (subprocess.TimeoutExpired, OSError) as problem:
        raise SystemdRefused(reason=plain(str(problem), _REASON_CHARS_MAX)) from problem
    if done.returncode != 0:
        message = plain(done.stderr.decode(errors="replace"), _REASON_CHARS_MAX).rstrip(".")
        raise SystemdRefused(reason=f"`systemctl --user {arguments[0]}`: {message or done.returncode}")
