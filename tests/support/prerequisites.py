"""Puts in place the real parts the tests run against, and says what is missing where it cannot.

`python tests/support/prerequisites.py` is enough on a fresh Debian-like machine; it prints one line per part and exits 0 when
all are there. Only the standard library: it runs before anything is installed. It never starts a service and
never names a place to download from; that is the machine's own setup of apt and npm.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Protocol

# Chromium with its libraries is some 300 MB, the two clients are 700 MB: slow lines are no failure.
INSTALL_SECONDS_MAX: Final = 1800
INSTALL_ATTEMPTS_MAX: Final = 2
VERSION_SECONDS_MAX: Final = 60


class PartMissingError(Exception):
    """A part is not here and could not be installed; the text says what a person can do."""


class Part(Protocol):
    """One row of PARTS: something the tests need."""

    @property
    def name(self) -> str: ...

    def present(self) -> bool:
        """Whether nothing has to be done."""

    def install(self) -> None:
        """Put it in place, or raise PartMissingError."""


@dataclass(frozen=True)
class Program:
    """A command of the system, from a package of the system."""

    name: str
    package: str

    def present(self) -> bool:
        return shutil.which(self.name) is not None

    def install(self) -> None:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise PartMissingError(f"install {self.package!r} with this system's package manager")
        _apt_lists_updated()
        _run("apt-get", "-qq", "-y", "install", "--no-install-recommends", self.package, environ=_APT_ENVIRON)
        if not self.present():
            raise PartMissingError(f"package {self.package!r} brought no {self.name!r}")


@dataclass(frozen=True)
class Client:
    """An agent client from npm, in exactly the version the fixtures were written against."""

    name: str
    package: str
    version: str

    @property
    def requirement(self) -> str:
        return f"{self.package}@{self.version}"

    def present(self) -> bool:
        return self.installed_in(clients_dir())

    def installed_in(self, folder: Path) -> bool:
        manifest = folder / "node_modules" / self.package / "package.json"
        return manifest.is_file() and json.loads(manifest.read_bytes())["version"] == self.version

    def install(self) -> None:
        with _locked(cache_dir() / "install.lock"):
            # Another run may have installed it while this one waited for the lock.
            if not self.present():
                _install_clients()


CLAUDE: Final = Client("claude", "@anthropic-ai/claude-code", "2.1.197")
CODEX: Final = Client("codex", "@openai/codex", "0.166.0")
CLIENTS: Final = (CLAUDE, CODEX)

REDIS: Final = Program("redis-server", package="redis-server")
DOCKER: Final = Program("dockerd", package="docker.io")

# The order is the order of installation: the clients need npm.
PARTS: Final[Sequence[Part]] = (
    Program("tmux", package="tmux"),
    Program("jq", package="jq"),
    Program("chromium", package="chromium"),
    Program("strace", package="strace"),
    Program("fish", package="fish"),
    Program("busctl", package="systemd"),
    Program("dbus-daemon", package="dbus-daemon"),
    Program("notify-send", package="libnotify-bin"),
    REDIS,
    DOCKER,
    Program("node", package="nodejs"),
    Program("npm", package="npm"),
    *CLIENTS,
)

_APT_ENVIRON: Final = {"DEBIAN_FRONTEND": "noninteractive"}


def cache_dir() -> Path:
    """Where downloads of the tests live between runs."""
    if chosen := os.environ.get("WAKEFUL_TEST_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wakeful-tests"


def clients_dir() -> Path:
    return cache_dir() / "clients"


def bin_dir() -> Path:
    """The folder to put on PATH for the clients."""
    return clients_dir() / "node_modules" / ".bin"


def _install_clients() -> None:
    """Install all clients aside, try them, then move them in place: a broken install is never taken for one."""
    # This run holds the lock: files here are the rest of an interrupted install.
    for leftover in cache_dir().glob("clients.*"):
        shutil.rmtree(leftover)
    for attempt in range(1, INSTALL_ATTEMPTS_MAX + 1):
        fresh = Path(tempfile.mkdtemp(prefix="clients.", dir=cache_dir()))
        try:
            _fill(fresh)
            _replace(clients_dir(), fresh)
        except PartMissingError:
            if attempt == INSTALL_ATTEMPTS_MAX:
                raise
        else:
            return
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _fill(folder: Path) -> None:
    requirements = [client.requirement for client in CLIENTS]
    _run(
        "npm",
        "install",
        "--prefix",
        str(folder),
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        *requirements,
    )
    for client in CLIENTS:
        if not client.installed_in(folder):
            raise PartMissingError(f"npm did not install {client.requirement}")
        # The native program is an optional dependency of the package: npm may leave it out and say nothing.
        with tempfile.TemporaryDirectory() as home:
            program = str(folder / "node_modules" / ".bin" / client.name)
            _run(program, "--version", environ={"HOME": home}, seconds_max=VERSION_SECONDS_MAX)


def _replace(place: Path, fresh: Path) -> None:
    """Two renames: a reader in between sees a missing client, never half of one."""
    with tempfile.TemporaryDirectory(prefix="clients.old.", dir=place.parent) as aside:
        if place.exists():
            place.rename(Path(aside) / place.name)
        fresh.rename(place)


@cache
def _apt_lists_updated() -> None:
    _run("apt-get", "-qq", "update", environ=_APT_ENVIRON)


def _run(
    *argv: str, environ: Mapping[str, str] | None = None, seconds_max: float = INSTALL_SECONDS_MAX
) -> None:
    """Run a command quietly; the end of its output becomes the error."""
    try:
        done = subprocess.run(
            argv,
            env={**os.environ, **(environ or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds_max,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PartMissingError(f"{argv[0]}: {error}") from error
    if done.returncode != 0:
        last_words = " / ".join(done.stdout.strip().splitlines()[-3:])
        raise PartMissingError(f"{' '.join(argv[:2])} ended with {done.returncode}: {last_words}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def put_in_place(part: Part) -> str:
    """Install the part if it is missing; how that went, in words. Raises PartMissingError."""
    if part.present():
        return "present"
    started = time.monotonic()
    part.install()
    return f"installed in {time.monotonic() - started:.0f} s"


def main() -> int:
    missing = 0
    for part in PARTS:
        try:
            said = put_in_place(part)
        except PartMissingError as error:
            missing += 1
            said = f"MISSING: {error}"
        sys.stdout.write(f"{part.name}: {said}\n")
        sys.stdout.flush()
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
